// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/roofline.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "catalogue/device_table.h"

namespace perfpred {
namespace {

Device device_by_hand(std::string name, double peak_flops, double peak_bytes) {
  Device device;
  device.name = std::move(name);
  device.mem_bw_gbs = peak_bytes / 1e9;
  device.fp64_tflops = device.fp32_tflops = device.tf32_tflops = device.bf16_tflops = device.fp16_tflops =
      peak_flops / 1e12;
  device.fp64_vector_tflops = device.fp32_vector_tflops = device.fp32_tflops;
  return device;
}

}  // namespace

Roofline::Roofline(Device device) : device_(std::move(device)) {
  const auto check = [this](std::string_view name, double value) {
    if (value > 0 && std::isfinite(value)) return;
    throw InputError(fmt::format("device \"{}\": {} is {}, not positive", device_.name, name, value));
  };
  if (!device_.mem_bw_gbs) throw InputError(fmt::format("device \"{}\" has no mem_bw_gbs", device_.name));
  check("mem_bw_gbs", *device_.mem_bw_gbs);
  if (device_.launch_us) check("launch_us", *device_.launch_us);
  const auto add = [&](const std::string& name, const std::optional<double>& tflops) {
    if (!tflops) return;
    check(name, *tflops);
    ceilings_.emplace_back(name, *tflops * 1e12);
  };
  add("fp64", device_.fp64_tflops);
  add("fp32", device_.fp32_tflops);
  add("tf32", device_.tf32_tflops);
  add("bf16", device_.bf16_tflops);
  add("fp16", device_.fp16_tflops);
  if (device_.fp64_vector_tflops != device_.fp64_tflops) add("fp64 vector", device_.fp64_vector_tflops);
  if (device_.fp32_vector_tflops != device_.fp32_tflops) add("fp32 vector", device_.fp32_vector_tflops);
  if (device_.fp16_vector_tflops != device_.fp16_tflops) add("fp16 vector", device_.fp16_vector_tflops);
  if (ceilings_.empty()) throw InputError(fmt::format("device \"{}\" has no peak of any precision", device_.name));
  std::stable_sort(ceilings_.begin(), ceilings_.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

Roofline::Roofline(std::string name, double peak_flops, double peak_bytes)
    : Roofline(device_by_hand(std::move(name), peak_flops, peak_bytes)) {
  ceilings_ = {{"peak", peak_flops}};
}

double Roofline::peak(Precision precision) const {
  if (const auto flops = device_.convolution_flops(precision)) return *flops;
  throw InputError(fmt::format("device \"{}\" has no peak for precision {}; it has one for {}", device_.name,
                               to_string(precision), peak_precisions(device_)));
}

double Roofline::attainable(double intensity, Precision precision) const {
  return std::min(peak(precision), intensity * bandwidth());
}

StepLimits Roofline::limits(const ExecutedStep& executed, Precision precision) const {
  const OpGraph& step = executed.graph();
  const double convolution = peak(precision), matrix = device_.matrix_flops(precision).value_or(convolution);
  const double vector = device_.vector_flops(precision).value_or(matrix);
  const auto rate_of = [&](const Op& op) {
    if (!is_conv_or_matmul(op.kind)) return vector;
    const Precision own = product_precision(op.type, precision);
    return is_convolution(op.kind) ? device_.convolution_flops(own).value_or(convolution)
                                   : device_.matrix_flops(own).value_or(matrix);
  };
  const double launch = device_.launch_us.value_or(0) * 1e-6;
  StepLimits limits;
  double launches = 0;
  for (const Op& op : step.ops()) {
    const double compute = op.flops / rate_of(op);
    const double memory = static_cast<double>(op.bytes_read + op.bytes_written) / bandwidth();
    const auto times = static_cast<double>(step.times(op));
    limits.compute_sec += times * compute;
    limits.memory_sec += times * memory;
    limits.time_sec += times * std::max({compute, memory, launch});
    launches += times;
  }
  std::vector<std::pair<double, Bound>> sums = {{limits.compute_sec, Bound::compute},
                                                {limits.memory_sec, Bound::memory}};
  if (device_.launch_us) {
    limits.launch_sec = launch * launches;
    sums.emplace_back(*limits.launch_sec, Bound::launch);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  limits.bound = sums[0].second;
  if (sums[0].first > 0) limits.margin = 1 - sums[1].first / sums[0].first;
  return limits;
}

std::optional<StepLimits> limits_if_known(const Device& device, const ExecutedStep& step, Precision precision) {
  if (!device.mem_bw_gbs || !device.matrix_flops(precision)) return std::nullopt;
  return Roofline(device).limits(step, precision);
}

}  // namespace perfpred
