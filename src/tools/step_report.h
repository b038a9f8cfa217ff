// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

struct Device;
struct NetworkSteps;

/// Those that a report shows, in its order.
inline constexpr std::array<Phase, 4> report_phases = {Phase::forward, Phase::loss, Phase::backward, Phase::optimizer};

/// How a training job fits on a device.
struct DeviceAnswer {
  std::string name;
  std::optional<MemoryVerdict> verdict;       ///< empty if the device's memory, or how it is allocated, is not known
  std::optional<std::int64_t> largest_batch;  ///< that fits; empty if none does, or if it is not known
  std::string largest_batch_unknown;          ///< why it is not known; empty if it is
  /// What limits the step, by the standard model and the roofline, as forecast() says it; and its least time. Empty if
  /// the device's peak of the precision is not known.
  std::optional<Bound> bound;
  std::optional<double> time_at_peak_sec;
};

/// What a layer of a network does in a step.
struct LayerSummary {
  std::string name;         ///< empty: of no layer, as the optimizer
  std::string output;       ///< shape of what it gives in the forward pass, as "32x64x7x7"; empty if it gives nothing
  std::int64_t params = 0;  ///< that it is the first to use, trained or not
  OpTotals forward, all;
};

/// Work and memory of one training step of a network.
struct StepReport {
  std::string network;
  std::int64_t batch_size = 0;
  ExecutedStep step;  ///< on the device; without one, as written
  /// Of a training job on the device, or without one on a CPU of two threads; empty if it is not known how the device
  /// allocates memory.
  std::optional<MemoryEstimate> memory;
  std::optional<DeviceAnswer> device;

  /// Totals by operator name.
  [[nodiscard]] std::map<std::string, OpTotals> kinds() const;

  /// Its layers in the order in which they are first executed.
  [[nodiscard]] std::vector<LayerSummary> layers() const;

  /// How often each operator without a rule occurs, by name.
  [[nodiscard]] std::map<std::string, std::int64_t> unknown_ops() const;
};

/// @param precision  of a traced module; a training has its own
/// @param device     if set, the report says how the job fits on it, as forecast() does
/// @throws InputError as the network's steps do
[[nodiscard]] StepReport report_step(const NetworkSteps& network, std::int64_t batch_size, Precision precision,
                                     const std::optional<Device>& device);

/// Writes the operators in the order of execution as CSV: phase, op, layer, type, shapes of what it reads and writes
/// ("-" for an output that was not requested, "1" for a scalar), FLOPs, bytes.
/// @throws InputError if the file cannot be made, Error if writing fails
void write_ops(const OpGraph& step, const std::string& path);

}  // namespace perfpred
