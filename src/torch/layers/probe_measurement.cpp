// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/probe_measurement.h"

#include <perfpred/error.h>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "statistics/quantiles.h"
#include "text/files.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/layers/layer_timer.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int operators = 200, rounds = 15;  // operators of a round: fewer than a GPU's queue takes without waiting
constexpr std::int64_t copied_bytes = 256 << 20;

/// Seconds an operator, median of some rounds; the device works off each round before the next.
template <class Round>
double host_seconds(c10::Device device, Round&& round) {
  std::vector<double> samples;
  for (int i = 0; i < rounds; ++i) {
    synchronize(device);
    samples.push_back(round() / operators);
  }
  return median(std::move(samples));
}

void measure_host(ProbeMeasurement& measured, c10::Device device) {
  const at::Tensor one = at::ones({1}, at::TensorOptions().device(device));
  measured.op_sec = host_seconds(device, [&] {
    const at::NoGradGuard no_grad;
    const auto begin = Clock::now();
    for (int i = 0; i < operators; ++i) static_cast<void>(at::relu(one));
    return seconds_since(begin);
  });
  const at::Tensor learned = at::ones({1}, one.options()).set_requires_grad(true);
  std::vector<double> backward;
  measured.probe.host_sec = host_seconds(device, [&] {
    const auto begin = Clock::now();
    at::Tensor x = learned;
    for (int i = 0; i < operators; ++i) x = at::relu(x);
    const double forward = seconds_since(begin);
    synchronize(device);
    const auto middle = Clock::now();
    x.backward();
    backward.push_back(seconds_since(middle) / operators);
    learned.mutable_grad().reset();
    return forward;
  });
  measured.backward_sec = median(std::move(backward));
}

void measure_floor(ProbeMeasurement& measured, c10::Device device) {
  const at::NoGradGuard no_grad;
  const at::Tensor one = at::ones({1}, at::TensorOptions().device(device));
  StepClock clock(device);
  for (int i = 0; i <= operators; ++i) {
    at::relu_(const_cast<at::Tensor&>(one));  // a handle
    clock.mark();
  }
  measured.floor_sec = median(clock.take(0));
}

void measure_bandwidth(ProbeMeasurement& measured, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto bytes = at::TensorOptions().device(device).dtype(at::kByte);
  const at::Tensor from = at::zeros({copied_bytes}, bytes);
  at::Tensor to = at::zeros({copied_bytes}, bytes);
  StepClock clock(device);
  for (int i = 0; i < 6; ++i) {
    clock.mark();
    to.copy_(from);
  }
  clock.mark();
  measured.bytes_per_sec = 2.0 * static_cast<double>(copied_bytes) / median(clock.take(0));
}

Device device_of(c10::Device device, const DeviceCatalogue& catalogue) {
  const std::string name = device_name(device);
  const ResolvedDevice known = catalogue.resolve(name);
  if (known.origin == DeviceOrigin::this_cpu) return Device::measured_cpu();
  if (known.origin == DeviceOrigin::row) return *known.device;
  const bool ambiguous = known.origin == DeviceOrigin::ambiguous;
  throw InputError(fmt::format("device \"{}\" is {}: give its rates in a device file", name,
                               ambiguous ? "one of several in the catalogue" : "not in the catalogue"));
}

/// Layers until it is over, or all of them.
void measure_layers(ProbeMeasurement& measured, c10::Device device, const ProbeOptions& options,
                    std::optional<LayerRecorder>& table, Clock::time_point begin, const std::function<bool()>& over) {
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    const auto layers_left = static_cast<double>(options.layers.size() - i);
    const double share = (options.budget_sec - seconds_since(begin)) / layers_left;
    LayerTiming timing;
    timing.warmup = 1;
    timing.copied_bytes = 64e6;                           // making them takes longer than timing them
    timing.limit_sec = std::clamp(share / 2, 0.02, 0.5);  // as long again for the parts
    const auto row = over() ? std::nullopt : time_layer(options.layers[i], device, timing, over);
    if (row && row->step_sec) {
      measured.probe.layers.push_back(*row);
      measured.probe.layers.back().device = measured.probe.device.name;
      if (table) table->append(measured.probe.layers.back());
      if (row->outcome == "untrusted") ++measured.disturbed;
    } else {
      ++measured.left_out;
    }
    if (options.progress && i + 1 < options.layers.size() && !over()) {
      const double of_layers = static_cast<double>(i + 1) / static_cast<double>(options.layers.size());
      options.progress(std::max(of_layers, seconds_since(begin) / options.budget_sec));
    }
  }
  if (options.progress) options.progress(1);
}

ProbeMeasurement measure(const ProbeOptions& options, const DeviceCatalogue& catalogue,
                         const std::function<bool()>& stop) {
  if (!(options.budget_sec > 0)) throw InputError(fmt::format("budget {} s is not positive", options.budget_sec));
  const c10::Device device = runtime_device(options.device);
  if (device.is_cpu() && options.precision == Precision::tf32) throw InputError("precision tf32 needs a CUDA device");
  use_cpu_threads(device);
  ProbeMeasurement measured;
  const auto begin = Clock::now();
  measured.probe.device = device_of(device, catalogue);
  measured.probe.precision = options.precision;
  std::optional<LayerRecorder> table;
  if (!options.table.empty()) table.emplace(options.table);
  const auto over = [&] { return stop() || seconds_since(begin) > options.budget_sec; };
  for (const auto measure : {measure_host, measure_floor, measure_bandwidth}) {
    if (!over()) guard_torch([&] { measure(measured, device); });
  }
  measure_layers(measured, device, options, table, begin, over);
  measured.used_sec = seconds_since(begin);
  return measured;
}

}  // namespace

std::optional<ProbeMeasurement> probe_device(const std::string& model, const ProbeOptions& options,
                                             const DeviceCatalogue& catalogue, const std::string& out,
                                             const std::function<bool()>& stop) {
  OpModelState state = load_op_model(model);
  AtomicFile file(out);  // before the measurement: what cannot be read or written is refused at once
  ProbeMeasurement measured = measure(options, catalogue, stop);
  if (stop()) return std::nullopt;
  learn_probe(state, measured.probe);
  file.write(to_json(state).dump() + "\n");
  file.commit();
  return measured;
}

}  // namespace perfpred
