// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/step_timer.h>

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "statistics/quantiles.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/distributed/rank_group.h"
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
           const std::function<void()>& fetch, RankGroup* ranks)
      : device_(device),
        step_(step),
        fetch_(fetch),
        ranks_(ranks),
        samples_(options),
        monitor_(device, ranks != nullptr ? ranks->neighbours() : std::vector<int>()),
        clock_(device) {}

  /// Times steps until their time is known. @return false if a step ended the measurement; so do the others
  bool take_samples() {
    if (!whole_step()) return false;  // the very first chooses and loads kernels, and allocates: it is not a sample
    synchronize(device_);
    const std::optional<double> free_before = monitor_.read().mem_free_mb;
    const double reserved_before = reserved_mb(device_);
    clock_.mark();
    for (std::int64_t steps = 0; (steps = steps_of_window()) > 0;) {
      if (!take_window(steps)) return false;
    }
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

  /// How many steps the next window has at most, which all ranks have to do; 0: the time is known.
  std::int64_t steps_of_window() {
    const bool is_known = window_.empty() && samples_.finished();
    if (ranks_ == nullptr) return is_known ? 0 : std::numeric_limits<std::int64_t>::max();
    const double wanted = is_known ? 0 : std::max(1.0, std::floor(window_sec / last_sec_));
    const auto steps = static_cast<std::int64_t>(ranks_->of_first(wanted));
    if (steps == 0 && !is_known) end_with_the_first();
    return steps;
  }

  /// The first rank knows its time. This one, whose steps took a little less or which still waits to hear who was in
  /// its company, takes what it has.
  void end_with_the_first() {
    for (const double sec : window_) samples_.add(sec, true);
    window_.clear();
    samples_.end();
  }

  /// The steps until the next reading of the device, and that reading.
  bool take_window(std::int64_t steps) {
    if (device_.is_cpu()) {  // the last reading is not part of the next step; a GPU has steps queued meanwhile
      clock_.restart();
      clock_.mark();
    }
    double in_window = 0;
    for (std::int64_t step = 0; step < steps && (ranks_ != nullptr || in_window < window_sec); ++step) {
      if (!whole_step()) return false;
      clock_.mark();
      for (const double sec : clock_.take(max_open_marks)) {
        window_.push_back(sec);
        in_window += sec;
        last_sec_ = sec;
      }
    }
    DeviceReading reading = monitor_.read();
    if (ranks_ != nullptr) reading.disturbed = ranks_->any(reading.disturbed);
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
  RankGroup* ranks_;
  StepSamples samples_;
  DeviceMonitor monitor_;
  StepClock clock_;
  std::vector<double> window_;  // steps whose disturbance is not known yet
  std::vector<double> clocks_mhz_;
  double last_sec_ = window_sec;
  Disturbance disturbance_;
  std::optional<double> host_p50_sec_;
};

}  // namespace

StepTimer::StepTimer(c10::Device device, StepSamplesOptions options, RankGroup* ranks)
    : device_(device), options_(std::move(options)), ranks_(ranks) {}

std::optional<StepTiming> StepTimer::measure(const std::function<bool()>& step,
                                             const std::function<void()>& fetch) const {
  return guard_torch([&]() -> std::optional<StepTiming> {
    Sampling sampling(device_, options_, step, fetch, ranks_);
    if (!sampling.take_samples() || !sampling.time_host()) return std::nullopt;
    return sampling.timing();
  });
}

}  // namespace perfpred
