// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/step_timer.h>

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "torch/device/device_monitor.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

constexpr double window_sec = 0.1;  // between readings of the device
constexpr double taken_mb = 200;

/// Memory that this process holds on a GPU.
double reserved_mb(c10::Device device) {
  if (device.is_cpu()) return 0;
  return static_cast<double>(at::accelerator::getDeviceStats(device.index()).reserved_bytes[0].current) * 1e-6;
}

}  // namespace

StepTimer::StepTimer(c10::Device device, StepSamplesOptions options) : device_(device), options_(std::move(options)) {}

StepTiming StepTimer::measure(const std::function<void()>& step) const {
  return guard_torch([&] {
    StepTiming timing;
    StepSamples samples(options_);
    DeviceMonitor monitor(device_);
    StepClock clock(device_);
    timing.mem_free_mb = monitor.read().mem_free_mb;
    step();  // the very first chooses and loads kernels, and allocates: no sample at all
    synchronize(device_);
    const std::optional<double> free_before = monitor.read().mem_free_mb;
    const double reserved_before = reserved_mb(device_);
    clock.mark();
    std::vector<double> window;
    std::vector<double> clocks;
    double in_window = 0;
    while (true) {
      step();
      clock.mark();
      for (const double sec : clock.take(most_open_marks)) {
        window.push_back(sec);
        in_window += sec;
      }
      if (in_window < window_sec) continue;
      const DeviceReading reading = monitor.read();
      const bool throttled = reading.throttled.value_or(false);
      timing.throttled = timing.throttled || throttled;
      timing.company = timing.company || reading.company;
      if (reading.clock_mhz) clocks.push_back(*reading.clock_mhz);
      in_window = 0;
      if (monitor.awaits_company()) continue;  // the reading to come tells of these samples, too
      // Somebody's idle context on a GPU disturbs nothing: there, the spread of the samples has to tell.
      for (const double sec : window) samples.add(sec, throttled || (reading.company && device_.is_cpu()));
      window.clear();
      if (samples.finished()) break;
    }
    synchronize(device_);
    if (!clocks.empty()) {
      std::nth_element(clocks.begin(), clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2), clocks.end());
      timing.clock_mhz = clocks[clocks.size() / 2];
    }
    if (const auto after = monitor.read().mem_free_mb; !device_.is_cpu() && after && free_before) {
      const double taken = *free_before - *after - (reserved_mb(device_) - reserved_before);
      timing.company = timing.company || taken > taken_mb;
    }
    timing.label = samples.label();
    timing.samples = samples.all();
    return timing;
  });
}

}  // namespace perfpred
