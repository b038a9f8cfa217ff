// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/torch/trace.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "text/files.h"
#include "torch/data/batch_loader.h"
#include "torch/train/checkpoint.h"
#include "torch/data/image_folder.h"
#include "torch/measure/iteration_log.h"
#include "torch/device/nvtx_ranges.h"
#include "text/parse.h"
#include "torch/data/random.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/train/training_step.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view cifar_prefix = "cifar10:";
constexpr std::string_view folder_prefix = "imagefolder:";
constexpr double message_every_sec = 5;
constexpr std::int64_t dummy_images = 256;
const Augmentation cifar_augmentation{true, 4};

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

void check(const TrainNetOptions& options) {
  const auto at_least = [](std::string_view name, double value, double least) {
    if (!(value >= least) || !std::isfinite(value)) {
      throw InputError(fmt::format("{} {} is not at least {}", name, value, least));
    }
  };
  at_least("epochs", options.epochs, 1);
  at_least("batch-size", static_cast<double>(options.batch_size), 1);
  at_least("lr", options.learning_rate, 0);
  at_least("warmup", static_cast<double>(options.warmup), 0);
  at_least("weight-decay", options.weight_decay, 0);
  at_least("workers", options.workers, 1);
  at_least("threads", options.threads.value_or(1), 1);
  at_least("save-every", options.save_every, 0);
  at_least("max-iters", static_cast<double>(options.max_iters.value_or(1)), 1);
  at_least("warmup-iters", static_cast<double>(options.warmup_iters), 0);
  at_least("train-images", static_cast<double>(options.train_images), 1);
  at_least("profile-warmup", options.profile_warmup, 0);
  at_least("profile-iter", options.profile_iter, 1);
  at_least("label-smoothing", options.label_smoothing, 0);
  if (options.label_smoothing >= 1) throw InputError("label-smoothing is not below 1");
  if (options.optimizer == Optimizer::none && !options.evaluate && !options.profile_one_step) {
    throw InputError("optimizer none trains nothing");
  }
  if (options.save_every > 0 && options.out_dir.empty()) throw InputError("--save-every needs --out-dir");
  if (!options.resume.empty() && !options.init.empty()) throw InputError("--resume and --init exclude each other");
}

/// The data, and the workload as far as it depends on them.
struct Prepared {
  Workload workload;
  ImageData data;
  std::vector<std::string> skipped;
};

/// What follows the prefix. @throws InputError if nothing does
std::string folder_of(const std::string& data, std::string_view prefix) {
  if (data.size() == prefix.size()) throw InputError(fmt::format("data \"{}\" names no folder", data));
  return data.substr(prefix.size());
}

Prepared prepare(const TrainNetOptions& options) {
  Prepared prepared;
  Workload& workload = prepared.workload;
  if (options.torchscript.empty()) {
    workload = Workload::zoo(options.network, options.batch_size);
    if (workload.input.size() != 3) throw InputError(fmt::format("network {} takes no images", workload.network));
  } else {
    workload.network = torchscript_name(options.torchscript);
    workload.depth = workload.base_filters = std::nullopt;
  }
  const bool small = starts_with(options.data, cifar_prefix);
  if (small) workload.input = {3, 32, 32};
  if (!options.input.empty()) workload.input = parse_shape(options.input);
  workload.batch_size = options.batch_size;
  workload.optimizer = options.optimizer;
  workload.precision = options.precision;
  workload.layout = options.layout;
  if (small) {
    prepared.data = read_cifar10(folder_of(options.data, cifar_prefix), cifar_augmentation);
    if (workload.input != prepared.data.shape) throw InputError("CIFAR-10 has images of 3x32x32");
  } else if (starts_with(options.data, folder_prefix)) {
    ImageFolder folder = read_image_folder(folder_of(options.data, folder_prefix), workload.input, options.workers,
                                           options.skip_corrupt ? CorruptImages::skip : CorruptImages::refuse);
    prepared.data = std::move(folder.data);
    prepared.skipped = std::move(folder.skipped);
  } else if (options.data == "generated" || options.data == "dummy") {
    GeneratedImages what;
    what.shape = workload.input;
    what.classes = options.classes.value_or(10);
    what.seed = options.seed;
    const bool dummy = options.data == "dummy";  // few images, shown again and again
    what.train = dummy ? std::min(dummy_images, options.train_images) : options.train_images;
    what.validation = dummy ? 1 : std::clamp<std::int64_t>(options.train_images / 10, 100, 5'000);
    what.test = dummy ? 1 : std::clamp<std::int64_t>(options.train_images / 5, 100, 10'000);
    prepared.data = generate_images(what, dummy ? Augmentation{} : cifar_augmentation);
  } else {
    throw InputError(
        fmt::format("data \"{}\" is not cifar10:DIR, imagefolder:DIR, generated or dummy", shown(options.data)));
  }
  workload.classes = prepared.data.classes;
  workload.train_images = options.data == "dummy" ? options.train_images : prepared.data.train->size();
  if (options.torchscript.empty()) workload.validate();
  return prepared;
}

/// Batch normalisation divides by the variance of a channel's values, of which one value has none.
/// @throws InputError if the last batch of an epoch leaves a layer one value
void check_last_batch(Workload workload) {
  const std::int64_t rest = workload.train_images % workload.batch_size;
  if (rest != 1 && workload.batch_size != 1) return;
  workload.batch_size = 1;
  for (const Layer& layer : build_network(workload).layers) {
    if (layer.kind == LayerKind::batch_norm && layer.output.numel() == layer.out_channels) {
      throw InputError(
          fmt::format("a batch of one image leaves batch normalisation {} one value a channel and no variance; choose "
                      "another --batch-size for {} images",
                      layer.name, workload.train_images));
    }
  }
}

/// Linear over `warmup` steps, then a cosine to zero at the last one (Loshchilov and Hutter 2017, without restarts).
double rate_at(const TrainNetOptions& options, std::int64_t step, std::int64_t total) {
  if (step < options.warmup) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  }
  const auto span = static_cast<double>(std::max<std::int64_t>(total - options.warmup, 1));
  const double done = static_cast<double>(step - options.warmup) / span;
  return options.learning_rate * (1 + std::cos(std::numbers::pi * std::min(done, 1.0))) / 2;
}

/// All that decides what the next step computes.
json settings_of(const TrainNetOptions& options, const Workload& workload) {
  return {
      {"workload", workload.key()},           {"data", options.data},     {"epochs", options.epochs},
      {"lr", options.learning_rate},          {"warmup", options.warmup}, {"label_smoothing", options.label_smoothing},
      {"weight_decay", options.weight_decay}, {"seed", options.seed}};
}

/// The first thing that differs between the settings of two trainings, with both values; empty if none does.
std::string difference(const json& theirs, const json& ours) {
  for (const auto& [key, value] : ours.items()) {
    const json other = theirs.is_object() && theirs.contains(key) ? theirs[key] : json();
    if (other == value) continue;
    if (key == "workload" && other.is_string()) {
      const Workload a = Workload::from_key(other.get<std::string>());
      const Workload b = Workload::from_key(value.get<std::string>());
      for (const WorkloadColumn& column : workload_columns()) {
        if (column.get(a) != column.get(b))
          return fmt::format("{} {}, not {}", column.name, column.get(a), column.get(b));
      }
    }
    return fmt::format("{} {}, not {}", key, other.dump(), value.dump());
  }
  return {};
}

class NetTrainer {
 public:
  NetTrainer(const TrainNetOptions& options, const std::function<void(const std::string&)>& message,
             const std::function<bool()>& stop)
      : options_(options), message_(message), stop_(stop), device_(runtime_device(options.device)) {
    check(options);
    if (device_.is_cpu()) use_cpu_threads(options.threads.value_or(default_cpu_threads()));
    result_.device = device_name(device_);
    prepared_ = prepare(options);
    result_.skipped_images = static_cast<std::int64_t>(prepared_.skipped.size());
    if (!prepared_.skipped.empty()) {
      notes_.push_back(fmt::format("{} pictures do not decode and are left out: {}", prepared_.skipped.size(),
                                   first_few(prepared_.skipped)));
    }
    Workload& workload = prepared_.workload;
    workload.device = result_.device;
    if (device_.is_cpu()) workload.threads = options.threads.value_or(default_cpu_threads());
    const StepOptions step{options.learning_rate, options.weight_decay, options.label_smoothing, options.seed};
    step_ = options.torchscript.empty()
                ? std::make_unique<TrainingStep>(workload, device_, step)
                : std::make_unique<TrainingStep>(load_torchscript(options.torchscript, workload, device_), workload,
                                                 device_, step);
    const bool trains = !options.evaluate && !options.profile_one_step;
    const std::string& weights = trains || options.resume.empty() ? options.init : options.resume;
    if (!weights.empty()) {
      restore(step_->network_state(), load_weights(weights), weights);
    } else if (options.evaluate && options.torchscript.empty()) {
      notes_.emplace_back("the weights are random: neither --init nor --resume says where to take them from");
    }
    if (trains && options.torchscript.empty()) check_last_batch(workload);
    steps_an_epoch_ = workload.steps_per_epoch();
    total_steps_ = steps_an_epoch_ * options.epochs;
    if (trains && options.warmup > total_steps_) {
      throw InputError(
          fmt::format("warmup {} is more than the {} steps of the training, which would never reach the learning rate",
                      options.warmup, total_steps_));
    }
    if (trains) prepare_training();
  }

  TrainNetResult run() {
    message_(fmt::format("training on {} ({})", device_.str(), result_.device));
    for (const std::string& note : notes_) message_(note);
    if (options_.profile_one_step) {
      profile();
      return std::move(result_);
    }
    if (!options_.evaluate) train();
    if (!result_.stopped) {
      const bool again = validated_ && prepared_.data.test == prepared_.data.validation;
      if (const auto test = again ? validated_ : evaluate(*prepared_.data.test)) {
        result_.test_loss = test->loss;
        result_.test_acc = test->accuracy;
        message_(fmt::format("test: loss {:.4f}, accuracy {:.4f}", test->loss, test->accuracy));
      } else {
        message_("stopped in the test");
      }
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] LoaderOptions loader_options() const {
    const Workload& workload = prepared_.workload;
    return {workload.batch_size, device_, workload.precision == Precision::fp64 ? at::kDouble : at::kFloat,
            workload.layout, options_.workers};
  }

  /// Nothing where it was stopped.
  std::optional<Metrics> evaluate(const ImageSource& part) {
    BatchLoader loader(part, prepared_.data.shape, loader_options());
    const auto metrics = step_->evaluate(loader, part.size(), stop_);
    if (!metrics) result_.stopped = true;
    return metrics;
  }

  void resume(const std::string& path) {
    const Checkpoint checkpoint = load_checkpoint(path);
    const json theirs = json::parse(checkpoint.settings, nullptr, false);
    const std::string other = difference(theirs, settings_of(options_, prepared_.workload));
    if (!other.empty()) throw InputError(fmt::format("{}: was made with {}", path, other));
    const json progress = json::parse(checkpoint.progress, nullptr, false);
    const auto number = [&](const char* key) {
      if (!progress.is_object() || !progress.contains(key) || !progress[key].is_number()) {
        throw InputError(fmt::format("{}: does not say how far it is", path));
      }
      return progress[key].get<double>();
    };
    restore(step_->state(), checkpoint.tensors, path);
    restore_random_state(checkpoint.tensors, device_, path);
    first_epoch_ = static_cast<int>(number("epoch")) + 1;
    best_ = number("best");
    if (!progress.contains("step")) {
      notes_.push_back(fmt::format("going on after epoch {} of {}", first_epoch_ - 1, options_.epochs));
      return;
    }
    in_epoch_.steps = static_cast<std::int64_t>(number("step"));
    if (in_epoch_.steps < 1 || in_epoch_.steps > steps_an_epoch_) {
      throw InputError(fmt::format("{}: stands at step {} of {}", path, in_epoch_.steps, steps_an_epoch_));
    }
    in_epoch_.loss_sum = progress.value("loss_sum", json()).is_null() ? std::nan("") : number("loss_sum");
    in_epoch_.correct = number("correct");
    notes_.push_back(fmt::format("going on after {}", place_in_epoch(first_epoch_)));
  }

  [[nodiscard]] std::string place_in_epoch(int epoch) const {
    return fmt::format("step {} of {} in epoch {} of {}", in_epoch_.steps, steps_an_epoch_, epoch, options_.epochs);
  }

  /// @param epoch  that is finished, or whose steps so far are in in_epoch_
  void save(const std::string& name, int epoch) {
    json progress = {{"epoch", epoch}, {"best", best_}};
    if (in_epoch_.steps > 0) {
      progress = {{"epoch", epoch - 1},
                  {"best", best_},
                  {"step", in_epoch_.steps},
                  {"loss_sum", in_epoch_.loss_sum},
                  {"correct", in_epoch_.correct}};
    }
    Checkpoint checkpoint;
    checkpoint.settings = settings_of(options_, prepared_.workload).dump();
    checkpoint.progress = progress.dump();
    checkpoint.tensors = step_->state();
    for (auto& state : random_state(device_)) checkpoint.tensors.push_back(std::move(state));
    save_checkpoint(checkpoint, options_.out_dir + "/" + name);
    saved_ = true;
  }

  void prepare_training() {
    if (!options_.resume.empty()) resume(options_.resume);
    if (!options_.out_dir.empty()) {
      make_folder(options_.out_dir);
      remove_torn_checkpoints(options_.out_dir);
    }
    if (first_epoch_ > options_.epochs) return;
    const std::int64_t next_step = (first_epoch_ - 1) * steps_an_epoch_ + in_epoch_.steps;
    log_.emplace(options_.log_file, options_.resume.empty() ? std::nullopt : std::optional(next_step),
                 options_.env, prepared_.workload);
  }

  void train() {
    const bool saves = !options_.out_dir.empty();
    if (first_epoch_ > options_.epochs) {
      message_(fmt::format("{}: the training is finished, no epoch is left", options_.resume));
      if (saves) {
        save("final.pt", options_.epochs);
        save("last.pt", options_.epochs);
      }
      return;
    }
    BatchLoader loader(*prepared_.data.train, prepared_.data.shape, loader_options());
    begin_ = SteadyClock::now();
    for (int epoch = first_epoch_; epoch <= options_.epochs; ++epoch) {
      TrainNetEpoch done;
      try {
        done = train_epoch(epoch, loader);
      } catch (const std::exception&) {
        log_->flush();
        message_(fmt::format("failed after {}; {}", place_in_epoch(epoch),
                             saved_ ? "last.pt is from before that" : "no checkpoint was written"));
        throw;
      }
      const bool whole = in_epoch_.steps == steps_an_epoch_;
      validated_.reset();
      if (whole && !result_.stopped) validated_ = evaluate(*prepared_.data.validation);
      if (!validated_) {
        if (saves) save("last.pt", epoch);
        message_(fmt::format("stopped after {}; {}", place_in_epoch(epoch),
                             saves ? "last.pt goes on from there" : "without --out-dir nothing is kept"));
        if (!result_.stopped) validated_ = evaluate(*prepared_.data.validation);
        if (!validated_) return;
      }
      in_epoch_ = {};
      done.val_loss = validated_->loss;
      done.val_acc = validated_->accuracy;
      result_.epochs.push_back(done);
      message_(fmt::format(
          "epoch {}/{}: {:.2f} s, {:.0f} images/s, {:.0f} % waiting for data{}, loss {:.4f}, accuracy "
          "{:.4f}; validation: loss {:.4f}, accuracy {:.4f}",
          epoch, options_.epochs, done.sec, done.images_per_sec, 100 * done.data_wait_share,
          done.data_bound ? " (data-bound)" : "", done.train_loss, done.train_acc, done.val_loss, done.val_acc));
      if (!whole) return;
      const bool best = std::isfinite(done.val_loss) && done.val_acc > best_;
      if (best) best_ = done.val_acc;
      if (saves) {  // last.pt last: who resumes from it writes only what comes later
        if (best) save("best.pt", epoch);
        if (options_.save_every > 0 && epoch % options_.save_every == 0) save(fmt::format("epoch_{}.pt", epoch), epoch);
        if (epoch == options_.epochs) save("final.pt", epoch);
        save("last.pt", epoch);
      }
      if (out_of_steps()) return;
    }
  }

  [[nodiscard]] bool out_of_steps() const { return options_.max_iters && steps_done_ >= *options_.max_iters; }

  TrainNetEpoch train_epoch(int epoch, BatchLoader& loader) {
    TrainNetEpoch done;
    done.epoch = epoch;
    const double waited_before = loader.waited_sec();
    const std::int64_t first = in_epoch_.steps;
    std::int64_t images = 0;
    std::int64_t logged = first;
    StepClock clock(device_);
    std::vector<std::int64_t> sizes;
    double ended = 0;
    const auto write = [&](std::size_t behind) {
      for (const double sec : clock.take(behind)) {
        const std::int64_t index = (epoch - 1) * steps_an_epoch_ + logged;
        ended += sec;
        if (index >= options_.warmup_iters) {
          log_->add({epoch, index, sizes[static_cast<std::size_t>(logged - first)], sec, ended});
        }
        ++logged;
      }
    };
    synchronize(device_);  // so that the first mark is passed at once, and its time is the host's
    const auto epoch_begin = SteadyClock::now();
    loader.start(prepared_.workload.train_images, mix(options_.seed, static_cast<std::uint64_t>(epoch)), first);
    clock.mark();
    ended = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    while (const auto batch = loader.next()) {
      step_->set_learning_rate(rate_at(options_, (epoch - 1) * steps_an_epoch_ + in_epoch_.steps, total_steps_));
      step_->run(*batch);
      clock.mark();
      sizes.push_back(batch->targets.size(0));
      images += sizes.back();
      ++in_epoch_.steps;
      ++steps_done_;
      write(most_open_marks);
      if (stop_()) {
        result_.stopped = true;
        break;
      }
      if (show_progress(epoch)) log_->flush();
      if (out_of_steps()) break;
    }
    if (images > 0) {  // a training that was stopped in the evaluation goes on with it
      const Metrics trained = step_->take_metrics();
      done.sec = std::chrono::duration<double>(SteadyClock::now() - epoch_begin).count();
      write(0);
      log_->flush();
      done.images_per_sec = static_cast<double>(images) / done.sec;
      done.data_wait_share = (loader.waited_sec() - waited_before) / done.sec;
      done.data_bound = is_data_bound(done.data_wait_share);
      in_epoch_.loss_sum += trained.loss * static_cast<double>(images);
      in_epoch_.correct += trained.accuracy * static_cast<double>(images);
    }
    const auto seen =
        static_cast<double>(std::min(in_epoch_.steps * options_.batch_size, prepared_.workload.train_images));
    done.train_loss = in_epoch_.loss_sum / seen;
    done.train_acc = in_epoch_.correct / seen;
    if (!std::isfinite(done.train_loss)) {
      message_(fmt::format("epoch {}: the loss is {}: the training has diverged", epoch, done.train_loss));
    }
    return done;
  }

  bool show_progress(int epoch) {
    const auto now = SteadyClock::now();
    if (std::chrono::duration<double>(now - told_).count() < message_every_sec) return false;
    told_ = now;
    std::int64_t left = total_steps_ - (epoch - 1) * steps_an_epoch_ - in_epoch_.steps;
    if (options_.max_iters) left = std::min(left, *options_.max_iters - steps_done_);
    const double each = std::chrono::duration<double>(now - begin_).count() / static_cast<double>(steps_done_);
    message_(fmt::format("epoch {}/{} step {}/{}, {:.0f} s to go", epoch, options_.epochs, in_epoch_.steps,
                         steps_an_epoch_, each * static_cast<double>(left)));
    return true;
  }

  void profile() {
    if (device_.is_cpu()) {
      message_("no CUDA device: there are no kernels to profile");
      return;
    }
    BatchLoader loader(*prepared_.data.train, prepared_.data.shape, loader_options());
    const std::int64_t steps = options_.profile_warmup + options_.profile_iter;
    loader.start(steps * options_.batch_size, options_.seed);
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto batch = loader.next();
      if (i < options_.profile_warmup) {
        step_->run(*batch);
        continue;
      }
      synchronize(device_);
      run_with_ranges(*step_, *batch);
      synchronize(device_);
    }
    message_(fmt::format("{} steps under NVTX range train_step, after {} others", options_.profile_iter,
                         options_.profile_warmup));
  }

  /// Of the epoch that is under way.
  struct InEpoch {
    std::int64_t steps = 0;
    double loss_sum = 0, correct = 0;  // over its images
  };

  const TrainNetOptions& options_;
  const std::function<void(const std::string&)>& message_;
  const std::function<bool()>& stop_;
  c10::Device device_;
  std::vector<std::string> notes_;  // to be said once nothing is refused any more
  Prepared prepared_;
  TrainNetResult result_;
  std::unique_ptr<TrainingStep> step_;
  std::int64_t steps_an_epoch_ = 0, total_steps_ = 0, steps_done_ = 0;
  int first_epoch_ = 1;
  double best_ = -1;
  std::optional<Metrics> validated_;  // of the weights as they are
  InEpoch in_epoch_;
  std::optional<IterationLog> log_;  // of a training that has an epoch left
  bool saved_ = false;
  SteadyClock::time_point begin_, told_ = SteadyClock::now();
};

}  // namespace

TrainNetResult train_net(const TrainNetOptions& options, const std::function<void(const std::string&)>& message,
                         const std::function<bool()>& stop) {
  return guard_torch([&] { return NetTrainer(options, message, stop).run(); });
}

}  // namespace perfpred
