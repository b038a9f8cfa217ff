// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/step_timer.h>

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "statistics/quantiles.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/monitor/device_monitor.h"

namespace perfpred {
namespace {

constexpr double window_sec = 0.1;  // between readings of the device
constexpr double taken_mb = 200;
constexpr int host_steps = 5;

/// Memory that this process holds on a GPU.
double reserved_mb(c10::Device device) {
  if (device.is_cpu()) return 0;
  return static_cast<double>(at::accelerator::getDeviceStats(device.index()).reserved_bytes[0].current) * 1e-6;
}

}  // namespace

StepTimer::StepTimer(c10::Device device, StepSamplesOptions options) : device_(device), options_(std::move(options)) {}

std::optional<StepTiming> StepTimer::measure(const std::function<bool()>& step,
                                             const std::function<void()>& fetch) const {
  return guard_torch([&]() -> std::optional<StepTiming> {
    const auto whole_step = [&] {
      if (fetch) fetch();
      return step();
    };
    StepTiming timing;
    StepSamples samples(options_);
    DeviceMonitor monitor(device_);
    StepClock clock(device_);
    if (!whole_step())
      return std::nullopt;  // the very first chooses and loads kernels, and allocates: it is not a sample
    synchronize(device_);
    const std::optional<double> free_before = monitor.read().mem_free_mb;
    const double reserved_before = reserved_mb(device_);
    clock.mark();
    std::vector<double> window;
    std::vector<double> clocks;
    Disturbance all;
    double in_window = 0;
    while (true) {
      if (!whole_step()) return std::nullopt;
      clock.mark();
      for (const double sec : clock.take(max_open_marks)) {
        window.push_back(sec);
        in_window += sec;
      }
      if (in_window < window_sec) continue;
      const DeviceReading reading = monitor.read();
      if (device_.is_cpu()) {  // the reading is not part of the next step; a GPU has steps queued meanwhile
        clock.restart();
        clock.mark();
      }
      all.add(reading);
      if (reading.clock_mhz) clocks.push_back(*reading.clock_mhz);
      in_window = 0;
      if (monitor.awaits_company()) continue;  // the reading to come tells of these samples, too
      for (const double sec : window) samples.add(sec, reading.disturbed);
      window.clear();
      if (samples.finished()) break;
    }
    synchronize(device_);
    timing.throttled = all.throttled;
    timing.company = all.company;
    if (!clocks.empty()) {
      timing.clock_mhz = median(clocks);
      timing.clock_low_mhz = quantile(clocks, 0.05);
      timing.clock_high_mhz = quantile(clocks, 0.95);
    }
    if (const auto after = monitor.read().mem_free_mb; !device_.is_cpu() && after && free_before) {
      const double taken = *free_before - *after - (reserved_mb(device_) - reserved_before);
      timing.company = timing.company || taken > taken_mb;
    }
    timing.label = samples.label();
    timing.samples = samples.all();
    if (!device_.is_cpu()) {
      std::vector<double> host_sec;
      for (int i = 0; i < host_steps; ++i) {
        if (fetch) fetch();
        synchronize(device_);
        const auto begin = std::chrono::steady_clock::now();
        if (!step()) return std::nullopt;
        host_sec.push_back(seconds_since(begin));
      }
      timing.host_p50_sec = median(std::move(host_sec));
    }
    return timing;
  });
}

}  // namespace perfpred
