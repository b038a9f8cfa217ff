// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/export.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "torch/device/proc.h"

namespace perfpred {

/// State of a device at one moment; what nobody tells is empty.
struct DeviceReading {
  std::optional<double> clock_mhz;
  std::optional<double> mem_free_mb;
  std::optional<bool> throttled;
  /// Company. On a CPU: processors that others have kept busy over the last second, empty before there was one. On a
  /// GPU: other processes that compute on it.
  std::optional<double> others;
  /// Others hinder what is measured: they keep more than a quarter of a processor busy beyond those that its threads
  /// leave free, or compute on the same GPU.
  bool company = false;
};

/// Watches what disturbs measurements on a device.
class PERFPRED_API DeviceMonitor {
 public:
  explicit DeviceMonitor(c10::Device device);
  [[nodiscard]] DeviceReading read();

  /// Whether no reading has told of company so far, and a later one will: of the time since the first one.
  [[nodiscard]] bool awaits_company() const { return awaits_company_; }

 private:
  [[nodiscard]] std::optional<double> busy_others();

  c10::Device device_;
  void* nvml_device_ = nullptr;
  bool awaits_company_ = false;
  struct TimedUse {
    std::chrono::steady_clock::time_point time;
    CpuUse use;
  };
  std::deque<TimedUse> uses_;  // of the last second, the oldest first
};

[[nodiscard]] PERFPRED_API std::optional<double> system_load();  ///< runnable processes, mean of the last minute

}  // namespace perfpred
