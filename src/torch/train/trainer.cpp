// SPDX-License-Identifier: Apache-2.0
#include "torch/train/trainer.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <utility>

#include "text/files.h"
#include "torch/data/random.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/files/checkpoint.h"
#include "torch/step/nvtx_ranges.h"

namespace perfpred {
namespace {

constexpr double message_every_sec = 5;
constexpr const char* epochs_file = "epochs.jsonl";

}  // namespace

Trainer::Trainer(TrainNetOptions options, TrainingData data, c10::Device device, Message message, Stop stop)
    : options_(std::move(options)),
      data_(std::move(data)),
      device_(device),
      message_(std::move(message)),
      stop_(std::move(stop)),
      loader_(data_.images.shape, loader_options(data_.workload, device_, options_.workers)) {
  Workload& workload = data_.workload;
  result_.device = device_name(device_);
  result_.skipped_images = data_.skipped;
  workload.device = result_.device;
  if (device_.is_cpu()) workload.threads = cpu_threads();
  const StepOptions step{options_.learning_rate, options_.weight_decay, options_.loss, options_.seed};
  step_ = std::make_unique<TrainingStep>(workload, device_, step);
  steps_an_epoch_ = steps_per_epoch(options_, workload);
  total_steps_ = steps_an_epoch_ * options_.epochs;
  load_initial_weights();
  if (trains(options_)) prepare_training();
}

void Trainer::load_initial_weights() {
  const std::string& path = trains(options_) || options_.resume.empty() ? options_.init : options_.resume;
  if (!path.empty()) {
    restore(step_->network_state(), load_weights(path), path);
  } else if (options_.evaluate) {
    data_.notes.emplace_back("the weights are random: no checkpoint says where to take them from");
  }
}

void Trainer::prepare_training() {
  check_last_batch(data_.workload);
  if (options_.warmup > total_steps_) {
    throw InputError(
        fmt::format("warmup {} is more than the {} steps of the training, which would never reach the learning rate",
                    options_.warmup, total_steps_));
  }
  if (!options_.resume.empty()) resume();
  if (saves()) {
    make_folder(options_.out_dir);
    const std::vector<std::string> others = training_files(options_.out_dir);
    if (options_.resume.empty() && !others.empty()) {
      const bool resumable = std::find(others.begin(), others.end(), "last.pt") != others.end();
      throw InputError(fmt::format("{}/{}: is another training's; {}name another folder", options_.out_dir,
                                   resumable ? "last.pt" : others.front(), resumable ? "resume from it, or " : ""));
    }
    remove_torn_checkpoints(options_.out_dir);
  }
  if (finished()) return;
  log_.emplace(options_.log_file, options_.resume.empty() ? std::nullopt : std::optional(step()), options_.env,
               data_.workload, options_.accumulate);
}

void Trainer::resume() {
  const Checkpoint checkpoint = load_checkpoint(options_.resume);
  const Resumption found = read_progress(checkpoint, options_, data_.workload, options_.resume);
  restore(step_->state(), checkpoint.tensors, options_.resume);
  restore_random_state(checkpoint.tensors, device_, options_.resume);
  progress_ = found.progress;
  const std::filesystem::path epochs = std::filesystem::path(options_.resume).replace_filename(epochs_file);
  if (saves() && std::filesystem::exists(epochs)) {
    history_ = read_run_log(epochs.string()).epochs;
    std::erase_if(history_, [this](const LoggedEpoch& known) { return known.epoch > progress_.epochs; });
  }
  data_.notes.push_back(progress_.steps > 0
                            ? fmt::format("going on after {}", place())
                            : fmt::format("going on after epoch {} of {}", progress_.epochs, options_.epochs));
  if (found.planned_epochs < options_.epochs) {
    data_.notes.push_back(
        fmt::format("the checkpoint was planned for {} epochs; the learning rate now follows the "
                    "schedule of {}",
                    found.planned_epochs, options_.epochs));
  }
}

void Trainer::save(const std::string& name) {
  Checkpoint checkpoint = checkpoint_of(options_, data_.workload, progress_);
  checkpoint.tensors = step_->state();
  for (auto& state : random_state(device_)) checkpoint.tensors.push_back(std::move(state));
  save_checkpoint(checkpoint, options_.out_dir + "/" + name);
  saved_ = true;
}

void Trainer::save_epochs() const {
  std::string text = settings_text(options_, data_.workload) + '\n';
  for (const LoggedEpoch& epoch : history_) text += epoch_json(epoch) + '\n';
  write_file(options_.out_dir + '/' + epochs_file, text);
}

UpdateShare Trainer::share_of(std::int64_t images, std::int64_t before) const {
  const std::int64_t full = options_.batch_size * options_.accumulate;
  const std::int64_t whole = std::min(full, data_.workload.train_images - progress_.steps * full);
  const double weight = options_.loss.sum ? 1 : static_cast<double>(images) / static_cast<double>(whole);
  return {weight, before == 0, before + images == whole};
}

void Trainer::announce() {
  message_(fmt::format("training on {} ({})", device_.str(), result_.device));
  for (const std::string& note : data_.notes) message_(note);
}

double Trainer::rate() const {
  // Linear over the warm-up, then a cosine to zero at the last step (Loshchilov and Hutter 2017, without restarts).
  if (step() < options_.warmup) {
    return options_.learning_rate * static_cast<double>(step() + 1) / static_cast<double>(options_.warmup);
  }
  const auto span = static_cast<double>(std::max<std::int64_t>(total_steps_ - options_.warmup, 1));
  const double done = static_cast<double>(step() - options_.warmup) / span;
  return options_.learning_rate * (1 + std::cos(std::numbers::pi * std::min(done, 1.0))) / 2;
}

double Trainer::time() const {
  return std::chrono::duration<double>(made_at_.time_since_epoch()).count() + seconds_since(made_);
}

std::string Trainer::place() const {
  return fmt::format("step {} of {} in epoch {} of {}", progress_.steps, steps_an_epoch_, epoch(), options_.epochs);
}

std::optional<Metrics> Trainer::evaluate(const ImageSource& part) {
  const auto metrics = step_->evaluate(loader_, part, stop_);
  if (!metrics) result_.stopped = true;
  tell_replaced_pictures();
  return metrics;
}

void Trainer::tell_replaced_pictures() {
  if (!data_.replaced) return;
  const std::vector<std::string> lines = data_.replaced->take();
  if (lines.empty()) return;
  result_.skipped_images += static_cast<std::int64_t>(lines.size());
  message_(fmt::format("corrupt pictures replaced by others of their class: {} ({})", lines.size(), first_few(lines)));
}

void Trainer::test() {
  const bool again = validated_ && data_.images.test == data_.images.validation;
  const auto metrics = again ? validated_ : evaluate(*data_.images.test);
  if (!metrics) {
    message_("stopped in the test");
    return;
  }
  result_.test_loss = metrics->loss;
  result_.test_acc = metrics->accuracy;
  message_(fmt::format("test: loss {:.4f}, accuracy {:.4f}", metrics->loss, metrics->accuracy));
}

void Trainer::keep_finished() {
  message_(fmt::format("{}: the training is finished, no epoch is left", options_.resume));
  if (!saves()) return;
  save_weights(step_->network_state(), options_.out_dir + "/final.pt");
  save_epochs();
  save("last.pt");
}

void Trainer::train() {
  if (finished()) return keep_finished();
  begin_ = Clock::now();
  while (!finished()) {
    TrainNetEpoch done;
    try {
      done = train_epoch();
    } catch (const std::exception&) {
      log_->flush();
      message_(fmt::format("failed after {}; {}", place(),
                           saved_ ? "last.pt is from before that" : "no checkpoint was written"));
      throw;
    }
    const bool whole = progress_.steps == steps_an_epoch_;
    validated_.reset();
    if (whole && !result_.stopped) validated_ = evaluate(*data_.images.validation);
    if (!validated_) {
      if (saves()) save("last.pt");
      message_(
          fmt::format("stopped after {}; {}", place(),
                      saves() ? "last.pt goes on from there" : "nothing is kept without a folder for checkpoints"));
      if (!result_.stopped) validated_ = evaluate(*data_.images.validation);
      if (!validated_) return;
    }
    done.val_loss = validated_->loss;
    done.val_acc = validated_->accuracy;
    result_.epochs.push_back(done);
    message_(fmt::format(
        "epoch {}/{}: {:.2f} s, {:.0f} images/s, {:.0f} % waiting for data{}, loss {:.4f}, accuracy "
        "{:.4f}; validation: loss {:.4f}, accuracy {:.4f}",
        done.epoch, options_.epochs, done.sec, done.images_per_sec, 100 * done.data_wait_share,
        done.data_bound ? " (data-bound)" : "", done.train_loss, done.train_acc, done.val_loss, done.val_acc));
    if (!whole) return;
    finish_epoch(done);
    if (out_of_steps()) return;
  }
}

void Trainer::finish_epoch(const TrainNetEpoch& epoch) {
  const bool best = std::isfinite(epoch.val_loss) && epoch.val_acc > progress_.best;
  progress_ = {epoch.epoch, best ? epoch.val_acc : progress_.best};
  if (!saves()) return;
  history_.push_back({epoch.epoch, epoch.sec, epoch.train_loss, epoch.train_acc, epoch.val_loss, epoch.val_acc});
  save_epochs();
  // last.pt is written last: who resumes from it writes only what comes later.
  if (best) save("best.pt");
  if (options_.save_every > 0 && epoch.epoch % options_.save_every == 0) {
    save(fmt::format("epoch_{}.pt", epoch.epoch));
  }
  if (finished()) save_weights(step_->network_state(), options_.out_dir + "/final.pt");
  save("last.pt");
}

TrainNetEpoch Trainer::train_epoch() {
  TrainNetEpoch done;
  done.epoch = epoch();
  const double waited_before = loader_.waited_sec();
  const std::int64_t first_step = step();
  std::int64_t images = 0;
  StepClock clock(device_);
  std::vector<std::int64_t> sizes;
  std::size_t logged = 0;
  const auto write = [&](std::size_t behind) {
    for (const double sec : clock.take(behind)) {
      const std::int64_t index = first_step + static_cast<std::int64_t>(logged);
      logged_until_ += sec;
      if (index >= options_.warmup_iters) log_->add({done.epoch, index, sizes[logged], sec, logged_until_});
      ++logged;
    }
  };
  synchronize(device_);  // so that the first mark is passed at once, and its time is the host's
  const auto epoch_begin = Clock::now();
  loader_.start(*data_.images.train, data_.workload.train_images,
                mix(options_.seed, static_cast<std::uint64_t>(done.epoch)), progress_.steps * options_.accumulate);
  logged_until_ = std::max(logged_until_, time());  // a GPU's clock may be ahead of the host's
  clock.mark();
  std::int64_t of_update = 0;  // images
  while (const auto batch = loader_.next()) {
    const UpdateShare share = share_of(batch->targets.size(0), of_update);
    if (share.first) step_->set_learning_rate(rate());
    step_->run(*batch, share);
    of_update += batch->targets.size(0);
    if (!share.last) continue;
    clock.mark();
    sizes.push_back(std::exchange(of_update, 0));
    images += sizes.back();
    ++progress_.steps;
    ++steps_done_;
    write(max_open_marks);
    if (stop_()) {
      result_.stopped = true;
      break;
    }
    if (show_progress()) log_->flush();
    if (out_of_steps()) break;
  }
  if (images > 0) {  // a training that was stopped in the evaluation goes on with it
    const Metrics trained = step_->take_metrics();
    done.sec = seconds_since(epoch_begin);
    write(0);
    log_->flush();
    done.images_per_sec = static_cast<double>(images) / done.sec;
    done.data_wait_share = (loader_.waited_sec() - waited_before) / done.sec;
    done.data_bound = is_data_bound(done.data_wait_share);
    progress_.loss_sum += trained.loss * static_cast<double>(images);
    progress_.correct += trained.accuracy * static_cast<double>(images);
  }
  record_means(done);
  tell_replaced_pictures();
  return done;
}

void Trainer::record_means(TrainNetEpoch& done) {
  const auto seen = static_cast<double>(
      std::min<std::int64_t>(progress_.steps * options_.batch_size * options_.accumulate, data_.workload.train_images));
  done.train_loss = progress_.loss_sum / seen;
  done.train_acc = progress_.correct / seen;
  if (!std::isfinite(done.train_loss)) {
    message_(fmt::format("epoch {}: the loss is {}: the training has diverged", done.epoch, done.train_loss));
  }
}

bool Trainer::show_progress() {
  if (seconds_since(told_) < message_every_sec) return false;
  told_ = Clock::now();
  std::int64_t left = total_steps_ - step();
  if (options_.max_iters) left = std::min(left, *options_.max_iters - steps_done_);
  const double each = seconds_since(begin_) / static_cast<double>(steps_done_);
  message_(fmt::format("epoch {}/{} step {}/{}, {:.0f} s to go", epoch(), options_.epochs, progress_.steps,
                       steps_an_epoch_, each * static_cast<double>(left)));
  return true;
}

void Trainer::profile() {
  if (device_.is_cpu()) {
    message_("no CUDA device: there are no kernels to profile");
    return;
  }
  const std::int64_t steps = options_.profile_warmup + options_.profile_iter;
  loader_.start(*data_.images.train, steps * options_.batch_size, options_.seed);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (stop_()) {
      result_.stopped = true;
      return;
    }
    const auto batch = loader_.next();
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

}  // namespace perfpred
