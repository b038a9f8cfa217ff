// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/layer_timer.h"

#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/torch/step_timer.h>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "optime/layers/layer_step.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"
#include "torch/device/memory_peak.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/layers/layer_module.h"
#include "torch/monitor/proc.h"
#include "torch/step/parameter_update.h"
#include "torch/step/training_step.h"

namespace perfpred {
namespace {

constexpr double cpu_layer_sec = 1, gpu_layer_sec = 0.3;
constexpr std::int64_t min_marked = 5, max_marked = 50;
constexpr double marked_sec = 0.5;  // about as long as the parts of a step are timed
constexpr double memory_share = 0.9;
constexpr double max_copies = 64;

/// One of the copies of a layer.
struct LayerCopy {
  LayerCopy(const LayerCase& layer, c10::Device device, std::uint64_t seed) : module(layer, device, seed) {
    if (layer.backward && layer.optimizer != Optimizer::none && !module.parameters().empty()) {
      update.emplace(layer.optimizer, module.parameters());
    }
  }
  LayerModule module;
  std::optional<ParameterUpdate> update;
  at::Tensor output;  ///< until its backward
};

/// A layer that is trained one step at a time. Copies of it take turns, and a copy's backward and its update follow
/// half a turn after its forward and a quarter of a turn later. So they find weights and what the forward kept in
/// memory, as in a network, and not in a cache that the copy has left them in just before.
class LayerTraining {
 public:
  LayerTraining(const LayerCase& layer, c10::Device device, const LayerTiming& timing)
      : rate_(default_learning_rate(layer.optimizer)) {
    const double copies = std::clamp(timing.copied_bytes / std::max(layer_bytes(layer), 1.0), 1.0, max_copies);
    for (int i = 0; i < static_cast<int>(copies); ++i) {
      copies_.push_back(std::make_unique<LayerCopy>(layer, device, timing.seed));
    }
    backward_ = layer.backward && copies_.front()->module.trains();
    to_update_ = copies_.size() / 4;
    to_backward_ = 2 * to_update_;
  }

  /// @param begin  called before each part with the tensors that the layer before it, or behind it, hands over
  /// @param end    called at the end of each part
  template <class Begin, class End>
  void step(Begin&& begin, End&& end) {
    ++turn_;
    LayerCopy& first = copy(0);
    first.module.clear_gradients();
    begin(std::span(first.module.inputs()));
    first.output = first.module.forward();
    end();
    if (!backward_) {
      first.output.reset();
      return;
    }
    LayerCopy& second = copy(to_backward_);
    if (!second.output.defined()) second.output = second.module.forward();  // in the first turn
    begin(std::span(&second.module.output_gradient(), 1));
    second.module.backward(second.output);
    second.output.reset();
    end();
    if (first.update) {
      LayerCopy& third = copy(to_update_);
      const bool first_turn = !third.module.parameters().front().grad().defined();
      if (first_turn) third.module.backward(third.module.forward());
      begin(std::span<const at::Tensor>());
      third.update->step(rate_);
      end();
    }
  }

  [[nodiscard]] std::size_t parts() const { return !backward_ ? 1 : copies_.front()->update ? 3 : 2; }
  [[nodiscard]] int copies() const { return static_cast<int>(copies_.size()); }

 private:
  LayerCopy& copy(std::size_t ahead) { return *copies_[(turn_ + ahead) % copies_.size()]; }

  std::vector<std::unique_ptr<LayerCopy>> copies_;
  std::size_t turn_ = 0, to_backward_ = 0, to_update_ = 0;  ///< copies ahead of the one whose forward is next
  bool backward_ = false;
  double rate_;
};

/// Medians of the parts of some steps; what the neighbours of a layer hand over was just written, so it is read before.
/// @returns whether it was not stopped
bool time_parts(LayerTraining& training, c10::Device device, LayerRow& row, const std::function<bool()>& stop) {
  const auto wanted = static_cast<std::int64_t>(marked_sec / *row.step_sec);
  const std::int64_t steps = std::clamp(wanted, min_marked, max_marked);
  const std::size_t parts = training.parts();
  std::vector<std::vector<double>> samples(parts);
  synchronize(device);
  StepClock clock(device);
  for (std::int64_t i = 0; i < steps; ++i) {
    clock.restart();
    training.step(
        [&](std::span<const at::Tensor> handed_over) {
          for (const at::Tensor& tensor : handed_over) static_cast<void>(tensor.detach().sum());
          clock.mark();
        },
        [&] { clock.mark(); });
    const std::vector<double> taken = clock.take(0);
    for (std::size_t part = 0; part < parts; ++part) samples[part].push_back(taken[2 * part]);
    if (stop()) return false;
  }
  row.forward_sec = median(std::move(samples[0]));
  if (parts > 1) row.backward_sec = median(std::move(samples[1]));
  if (parts > 2) row.optimizer_sec = median(std::move(samples[2]));
  return true;
}

void record(LayerRow& row, std::vector<StepTiming> timings) {
  std::sort(timings.begin(), timings.end(),
            [](const StepTiming& a, const StepTiming& b) { return a.label.median < b.label.median; });
  const StepTiming& middle = timings[timings.size() / 2];
  row.step_sec = middle.label.median;
  row.host_sec = middle.host_p50_sec;
  row.low_sec = middle.label.low;
  row.high_sec = middle.label.high;
  Moments all;
  for (const StepTiming& timing : timings) {
    row.low_sec = std::min(*row.low_sec, timing.label.low);
    row.high_sec = std::max(*row.high_sec, timing.label.high);
    if (timing.label.disturbed) row.outcome = "untrusted";
    for (std::size_t i = static_cast<std::size_t>(timing.label.warmup); i < timing.samples.size(); ++i) {
      const double sec = timing.samples[i].sec;
      row.min_sec = std::min(row.min_sec.value_or(sec), sec);
      row.max_sec = std::max(row.max_sec.value_or(sec), sec);
      all.add(sec);
    }
  }
  if (all.n > 1) row.std_sec = all.deviation();
}

bool fits_memory(const LayerCase& layer, c10::Device device) {
  const auto available = device.is_cpu() ? available_memory_bytes() : std::nullopt;
  return !available || layer_bytes(layer) < memory_share * static_cast<double>(*available);
}

void without_times(LayerRow& row, const char* outcome, const std::string& why) {
  LayerRow bare;
  bare.layer = row.layer;
  bare.device = row.device;
  bare.threads = row.threads;
  bare.outcome = outcome;
  bare.note = why;
  row = std::move(bare);
}

/// @returns whether it was not stopped
bool time_steps(LayerRow& row, c10::Device device, const LayerTiming& timing, const std::function<bool()>& stop) {
  apply_precision(row.layer.precision);
  LayerTraining training(row.layer, device, timing);
  const auto step = [&] { training.step([](std::span<const at::Tensor>) {}, [] {}); };
  for (int i = 0; i < std::max(timing.warmup, training.copies()); ++i) {
    step();
    if (stop()) return false;
  }
  StepSamplesOptions sampling;
  sampling.limit_sec = timing.limit_sec > 0 ? timing.limit_sec : device.is_cpu() ? cpu_layer_sec : gpu_layer_sec;
  if (timing.steps) {
    sampling.criterion = "samples";
    sampling.max_samples = *timing.steps;
  }
  std::vector<StepTiming> timings;
  for (int i = 0; i < timing.repetitions; ++i) {
    auto one = StepTimer(device, sampling).measure([&] {
      step();
      return !stop();
    });
    if (!one) return false;
    timings.push_back(*std::move(one));
  }
  record(row, std::move(timings));
  return time_parts(training, device, row, stop);
}

}  // namespace

std::optional<LayerRow> time_layer(const LayerCase& layer, c10::Device device, const LayerTiming& timing,
                                   const std::function<bool()>& stop) {
  check_layer(layer);
  LayerRow row;
  row.layer = layer;
  row.device = canonical_device(device_name(device));
  if (device.is_cpu()) row.threads = at::get_num_threads();
  if (!fits_memory(layer, device)) {
    without_times(row, "oom", "not tried: the machine has less memory left");
    return row;
  }
  try {
    if (!guard_torch([&] { return time_steps(row, device, timing, stop); })) return std::nullopt;
  } catch (const OutOfMemory& error) {
    without_times(row, "oom", error.what());
  } catch (const DeviceError&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    without_times(row, "failed", error.what());
  }
  guard_torch([&] {
    synchronize(device);
    empty_cache(device);
  });
  return row;
}

}  // namespace perfpred
