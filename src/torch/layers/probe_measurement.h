// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optime/probe.h"

namespace perfpred {

struct ProbeOptions {
  std::string device = "auto";
  Precision precision = Precision::fp32;
  double budget_sec = 20;
  std::vector<LayerCase> layers;  ///< in the order of their importance
  std::string table;              ///< a table of layers that gets a row for each as it is measured; empty: none
  std::function<void(double share)> progress = nullptr;  ///< called after each layer with the share of the work done
};

struct ProbeMeasurement {
  DeviceProbe probe;         ///< host_sec: forward under autograd
  double op_sec = 0;         ///< that the host needs for an eager operator without autograd
  double backward_sec = 0;   ///< that it needs for an operator's gradient
  double floor_sec = 0;      ///< between the ends of two operators that do next to nothing
  double bytes_per_sec = 0;  ///< of a large copy, bytes read and written
  double used_sec = 0;
  std::size_t disturbed = 0;  ///< of the layers: others computed on the device, too
  std::size_t left_out = 0;   ///< layers for which the budget was too short, or the memory
};

/// Measures a device for some seconds: its host's cost of an operator, its bandwidth, and layers until the budget is
/// used up. A step that has begun is finished, so the budget may be missed by one step. Writes the op model that has
/// learned it.
/// @param model      op model that learns the device; empty: the standard one
/// @param catalogue  has the rates of GPUs; a CPU's are measured within the budget
/// @param out        the model's name; nothing is written if anything is refused
/// @returns nothing if it was stopped
/// @throws InputError for a GPU that the catalogue lacks, or as load_op_model(), LayerRecorder and learn_probe(),
/// DeviceError for a device that is not there
[[nodiscard]] std::optional<ProbeMeasurement> probe_device(const std::string& model, const ProbeOptions& options,
                                                           const DeviceCatalogue& catalogue, const std::string& out,
                                                           const std::function<bool()>& stop);

}  // namespace perfpred
