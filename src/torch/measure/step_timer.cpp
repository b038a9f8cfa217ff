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

/// One measurement of a StepTimer.
class Sampling {
 public:
  Sampling(c10::Device device, const StepSamplesOptions& options, const std::function<bool()>& step,
           const std::function<void()>& fetch)
      : device_(device), step_(step), fetch_(fetch), samples_(options), monitor_(device), clock_(device) {}

  /// Times steps until their time is known. @return false if a step ended the measurement; so do the others
  bool take_samples() {
    if (!whole_step()) return false;  // the very first chooses and loads kernels, and allocates: it is not a sample
    synchronize(device_);
    const std::optional<double> free_before = monitor_.read().mem_free_mb;
    const double reserved_before = reserved_mb(device_);
    clock_.mark();
    do {
      if (!take_window()) return false;
    } while (!window_.empty() || !samples_.finished());
    synchronize(device_);
    if (const auto after = monitor_.read().mem_free_mb; !device_.is_cpu() && after && free_before) {
      const double taken = *free_before - *after - (reserved_mb(device_) - reserved_before);
      disturbance_.company |= taken > taken_mb;
    }
    return true;
  }

  /// Times what the host needs to submit a step to a GPU.
  bool time_host() {
    if (device_.is_cpu()) return true;
    std::vector<double> host_sec;
    for (int i = 0; i < host_steps; ++i) {
      if (fetch_) fetch_();
      synchronize(device_);
      const auto begin = std::chrono::steady_clock::now();
      if (!step_()) return false;
      host_sec.push_back(seconds_since(begin));
    }
    host_p50_sec_ = median(std::move(host_sec));
    return true;
  }

  [[nodiscard]] StepTiming timing() const {
    StepTiming timing;
    timing.label = samples_.label();
    timing.samples = samples_.all();
    timing.host_p50_sec = host_p50_sec_;
    timing.throttled = disturbance_.throttled;
    timing.company = disturbance_.company;
    if (!clocks_mhz_.empty()) {
      timing.clock_mhz = median(clocks_mhz_);
      timing.clock_low_mhz = quantile(clocks_mhz_, 0.05);
      timing.clock_high_mhz = quantile(clocks_mhz_, 0.95);
    }
    return timing;
  }

 private:
  bool whole_step() {
    if (fetch_) fetch_();
    return step_();
  }

  /// The steps until the next reading of the device, and that reading.
  bool take_window() {
    for (double in_window = 0; in_window < window_sec;) {
      if (!whole_step()) return false;
      clock_.mark();
      for (const double sec : clock_.take(max_open_marks)) {
        window_.push_back(sec);
        in_window += sec;
      }
    }
    const DeviceReading reading = monitor_.read();
    if (device_.is_cpu()) {  // the reading is not part of the next step; a GPU has steps queued meanwhile
      clock_.restart();
      clock_.mark();
    }
    disturbance_.add(reading);
    if (reading.clock_mhz) clocks_mhz_.push_back(*reading.clock_mhz);
    if (monitor_.awaits_company()) return true;  // the reading to come tells of these samples, too
    for (const double sec : window_) samples_.add(sec, reading.disturbed);
    window_.clear();
    return true;
  }

  c10::Device device_;
  const std::function<bool()>& step_;
  const std::function<void()>& fetch_;
  StepSamples samples_;
  DeviceMonitor monitor_;
  StepClock clock_;
  std::vector<double> window_;  // steps whose disturbance is not known yet
  std::vector<double> clocks_mhz_;
  Disturbance disturbance_;
  std::optional<double> host_p50_sec_;
};

}  // namespace

StepTimer::StepTimer(c10::Device device, StepSamplesOptions options) : device_(device), options_(std::move(options)) {}

std::optional<StepTiming> StepTimer::measure(const std::function<bool()>& step,
                                             const std::function<void()>& fetch) const {
  return guard_torch([&]() -> std::optional<StepTiming> {
    Sampling sampling(device_, options_, step, fetch);
    if (!sampling.take_samples() || !sampling.time_host()) return std::nullopt;
    return sampling.timing();
  });
}

}  // namespace perfpred
