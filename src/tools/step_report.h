// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace perfpred {

struct Device;
struct NetworkSteps;

/// What a device has to say to a training step.
struct DeviceAnswer {
  std::string name;
  bool fits = false;
  std::optional<std::int64_t> largest_batch;  ///< that fits; empty if none does, or for the reason that follows
  std::string largest_batch_unknown;          ///< why; empty if it is known
  /// What limits the step, and its least time; empty where the device's peak of the precision is not known.
  std::optional<Bound> bound;
  std::optional<double> time_at_peak_sec;
};

/// What one training step of a network asks of a device.
struct StepReport {
  std::string network;
  std::int64_t batch_size = 0;
  OpGraph step;
  MemoryEstimate memory;  ///< as the device allocates; exact where there is none
  std::optional<DeviceAnswer> device;

  /// Totals by what an operator does, by its name.
  [[nodiscard]] std::map<std::string, OpTotals> kinds() const;

  /// How often each operator without a rule was met, by its name.
  [[nodiscard]] std::map<std::string, std::int64_t> unknown_ops() const;
};

/// @param device  nothing: no device is asked
/// @throws InputError as the network's steps do, or if the device's memory is not known
[[nodiscard]] StepReport report_step(const NetworkSteps& network, std::int64_t batch_size, Precision precision,
                                     const std::optional<Device>& device);

}  // namespace perfpred
