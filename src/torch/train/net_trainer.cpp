// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "step/epoch_steps.h"
#include "torch/device/runtime_device.h"
#include "torch/device/torch_errors.h"
#include "torch/train/trainer.h"
#include "torch/train/training_data.h"

namespace perfpred {
namespace {

void check_ranges(const TrainNetOptions& options) {
  const auto at_least = [](std::string_view name, double value, double least) {
    if (!(value >= least) || !std::isfinite(value)) {
      throw InputError(fmt::format("{} {} is not at least {}", name, value, least));
    }
  };
  at_least("epochs", options.epochs, 1);
  at_least("batch-size", static_cast<double>(options.batch_size), 1);
  at_least("accumulate", static_cast<double>(options.accumulate), 1);
  (void)samples_of(options.batch_size, options.accumulate);  // of an update: too many cannot be counted
  at_least("lr", options.learning_rate, 0);
  at_least("warmup", static_cast<double>(options.warmup), 0);
  at_least("weight-decay", options.weight_decay, 0);
  at_least("workers", options.workers, 1);
  at_least("save-every", options.save_every, 0);
  at_least("max-iters", static_cast<double>(options.max_iters.value_or(1)), 1);
  at_least("warmup-iters", static_cast<double>(options.warmup_iters), 0);
  at_least("train-images", static_cast<double>(options.train_images.value_or(1)), 1);
  at_least("profile-warmup", options.profile_warmup, 0);
  at_least("profile-iter", options.profile_iter, 1);
  at_least("label-smoothing", options.loss.label_smoothing, 0);
  if (options.loss.label_smoothing >= 1) {
    throw InputError(
        fmt::format("label-smoothing {} is not below 1: at 1 the labels have no effect", options.loss.label_smoothing));
  }
}

/// @throws InputError for options that contradict each other or would have no effect
void check_combinations(const TrainNetOptions& options) {
  if (options.evaluate && options.profile_one_step)
    throw InputError("evaluate and profile_one_step exclude each other");
  if (!options.resume.empty() && !options.init.empty()) throw InputError("resume and init exclude each other");
  if (!trains(options)) {
    if (options.accumulate != 1) throw InputError("accumulate is for a training");
    return;
  }
  if (options.optimizer == Optimizer::none) throw InputError("optimizer none trains nothing");
  if (options.save_every > 0 && options.out_dir.empty()) throw InputError("save_every needs out_dir");
  if (options.warmup_iters > 0 && options.log_file.empty()) throw InputError("warmup_iters needs log_file");
  if (!options.env.empty() && options.log_file.empty()) throw InputError("env needs log_file");
}

}  // namespace

TrainNetResult train_net(const TrainNetOptions& options, const std::function<void(const std::string&)>& tell,
                         const std::function<bool()>& ask) {
  const std::function<void(const std::string&)> message = tell ? tell : [](const std::string&) {};
  const std::function<bool()> stop = ask ? ask : [] { return false; };
  return guard_torch([&] {
    check_ranges(options);
    check_combinations(options);
    const c10::Device device = runtime_device(options.device);
    use_cpu_threads(device, options.threads);
    std::optional<TrainingData> data = training_data(options, message, stop);
    if (!data) {
      message("stopped while the pictures were checked");
      TrainNetResult stopped;
      stopped.stopped = true;
      return stopped;
    }
    auto owned = std::make_unique<Trainer>(options, std::move(*data), device, message, stop);
    return use_until_device_fails(std::move(owned), [&](Trainer& trainer) {
      trainer.announce();
      if (options.profile_one_step) {
        trainer.profile();
      } else {
        if (!options.evaluate) trainer.train();
        if (!trainer.result().stopped) trainer.test();
      }
      return trainer.result();
    });
  });
}

}  // namespace perfpred
