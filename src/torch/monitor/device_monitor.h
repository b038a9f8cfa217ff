// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "torch/monitor/cpu_waits.h"
#include "torch/monitor/proc.h"

namespace perfpred {

/// State of a device; values that the system does not tell are empty.
struct DeviceReading {
  double sec = 0;  ///< since the previous reading; what follows "meanwhile" is of this time
  std::optional<double> clock_mhz;
  std::optional<double> mem_free_mb;
  /// Slowed down. A GPU by heat or a power brake, now; a CPU meanwhile, by heat or the quota of a cgroup.
  std::optional<bool> throttled;
  /// Others hindered what is measured. On a CPU they used, meanwhile, a tenth of a processor that this process's
  /// threads were ready to run on. (Where the kernel does not count that: kept a quarter of a processor busy beyond
  /// those that the threads leave free, over the last second.) On a GPU other processes have a context now, perhaps an
  /// idle one.
  bool company = false;
  bool disturbed = false;  ///< throttled; or, on a CPU, in company
};

/// Readings of a stretch of time, put together.
struct Disturbance {
  double sec = 0, disturbed_sec = 0;
  bool throttled = false, company = false;  ///< at least once

  void add(const DeviceReading& reading);
  [[nodiscard]] double share() const { return sec > 0 ? disturbed_sec / sec : 0; }
};

/// Watches what disturbs measurements on a device.
class DeviceMonitor {
 public:
  /// @param companions  as of CpuWaits
  explicit DeviceMonitor(c10::Device device, std::vector<int> companions = {});
  [[nodiscard]] DeviceReading read();

  /// True while readings cannot tell whether there is company; a later reading will, for all the time since the first.
  [[nodiscard]] bool awaits_company() const { return awaits_company_; }

 private:
  [[nodiscard]] bool cores_are_busy();

  c10::Device device_;
  void* nvml_device_ = nullptr;
  std::chrono::steady_clock::time_point last_;
  std::optional<CpuWaits> waits_;  // of a CPU, where the kernel counts them
  bool awaits_company_ = false;
  struct TimedUse {
    std::chrono::steady_clock::time_point time;
    CpuUse use;
  };
  std::deque<TimedUse> uses_;  // of the last second, the oldest first
};

[[nodiscard]] std::optional<double> system_load();  ///< runnable processes, mean of the last minute

}  // namespace perfpred
