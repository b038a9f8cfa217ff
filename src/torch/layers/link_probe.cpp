// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/link_probe.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "statistics/quantiles.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::int64_t, 3> sizes = {4, std::int64_t{1} << 20, std::int64_t{25} << 20};
constexpr double sampling_sec = 0.5;  // of each size, alone and beside products
constexpr double least_samples = 5, most_samples = 200;
// A product takes some milliseconds on a CPU's core and a tenth of one on a GPU: less than most all-reduces.
constexpr std::int64_t cpu_edge = 512, gpu_edge = 4096;

/// One rank's part of the measurement of a group.
class Probe {
 public:
  Probe(RankGroup& group, c10::Device device) : group_(group), device_(device) {
    const std::int64_t edge = device.is_cpu() ? cpu_edge : gpu_edge;
    const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
    left_ = at::ones({edge, edge}, options);
    right_ = at::ones({edge, edge}, options);
    product_ = at::zeros({edge, edge}, options);
  }

  SizeMeasurement measure(std::int64_t bytes) {
    const at::Tensor values = at::zeros({bytes / 4}, left_.options());
    SizeMeasurement measured;
    measured.bytes = bytes;
    static_cast<void>(alone(values));  // the first call connects
    const double first = alone(values);
    const int times =
        static_cast<int>(group_.of_first(std::clamp(std::floor(sampling_sec / first), least_samples, most_samples)));
    measured.sec = median_of(times, [&] { return alone(values); });
    const double product_sec = median_of(times, [&] { return multiply(); });
    std::vector<double> products;
    measured.beside_sec = median_of(times, [&] { return beside(values, products); });
    measured.product_factor = median(std::move(products)) / product_sec;
    return measured;
  }

 private:
  template <class Sample>
  static double median_of(int times, const Sample& sample) {
    std::vector<double> taken;
    for (int i = 0; i < times; ++i) taken.push_back(sample());
    return median(std::move(taken));
  }

  double alone(const at::Tensor& values) {
    group_.meet();
    const auto begin = Clock::now();
    static_cast<void>(group_.sum(values)(true));
    synchronize(device_);
    return seconds_since(begin);
  }

  /// @param products  gets the time of a product meanwhile
  double beside(const at::Tensor& values, std::vector<double>& products) {
    group_.meet();
    const auto begin = Clock::now();
    const auto is_done = group_.sum(values);
    int made = 0;
    do {
      static_cast<void>(multiply());
      ++made;
    } while (!is_done(false));
    const double sec = seconds_since(begin);
    products.push_back(sec / made);
    static_cast<void>(is_done(true));
    synchronize(device_);
    return sec;
  }

  /// Waits for the product alone, not for the all-reduce, which has a stream of its own.
  double multiply() {
    const auto begin = Clock::now();
    at::mm_out(product_, left_, right_);
    if (!device_.is_cpu()) {
      c10::Event done(device_.type());
      done.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
      done.synchronize();
    }
    return seconds_since(begin);
  }

  RankGroup& group_;
  c10::Device device_;
  at::Tensor left_, right_, product_;
};

/// The sizes of groups: powers of two, and all.
std::vector<int> group_sizes(int ranks) {
  std::vector<int> groups;
  for (int size = 2; size < ranks; size *= 2) groups.push_back(size);
  groups.push_back(ranks);
  return groups;
}

/// This rank's part of it, if the group has it.
std::vector<SizeMeasurement> measure_group(Ranks& ranks, c10::Device device, int size) {
  std::vector<SizeMeasurement> measured;
  if (ranks.rank() >= size) return measured;
  return guard_torch([&] {
    const at::NoGradGuard no_grad;
    const auto group = ranks.connect(device, size);
    Probe probe(*group, device);
    for (const std::int64_t bytes : sizes) measured.push_back(probe.measure(bytes));
    return measured;
  });
}

c10::Device device_of(const Ranks& ranks, const std::string& text) {
  const c10::Device device = runtime_device(text, ranks.local_rank(), ranks.local_size());
  use_cpu_threads(device, {}, ranks.local_size());
  return device;
}

}  // namespace

double bus_gb_s(std::int64_t bytes, double sec, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  return 2 * (n - 1) / n * static_cast<double>(bytes) / sec * 1e-9;
}

std::vector<LinkMeasurement> probe_links(Ranks& ranks, const std::string& device_text, const std::string& cluster,
                                         const std::function<bool()>& stop) {
  const c10::Device device = device_of(ranks, device_text);
  ranks.start();
  std::vector<LinkMeasurement> all;
  for (const int size : group_sizes(ranks.size())) {
    if (stop()) break;
    LinkMeasurement measured;
    ranks.lead(std::to_string(size), [&] { measured.sizes = measure_group(ranks, device, size); });
    ranks.await_others();
    Link& link = measured.link;
    link.cluster = cluster;
    link.gpus = size;
    link.nodes = ranks.nodes_of(size);
    link.scope = link.nodes > 1 ? LinkScope::inter : LinkScope::intra;
    link.bus_gb_s = bus_gb_s(measured.sizes.back().bytes, measured.sizes.back().sec, size);
    link.latency_us = measured.sizes.front().sec * 1e6;
    link.source = "probe";
    all.push_back(std::move(measured));
  }
  ranks.end();
  return all;
}

void follow_link_probe(Ranks& ranks, const std::string& device_text) {
  const c10::Device device = device_of(ranks, device_text);
  ranks.follow([&](const std::string& size) { static_cast<void>(measure_group(ranks, device, std::stoi(size))); });
}

}  // namespace perfpred
