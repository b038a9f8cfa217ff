// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_time_model.h>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "optime/kernel_model.h"
#include "optime/layers/layer_rates.h"
#include "optime/step_conditions.h"
#include "optime/step_kernels.h"
#include "optime/step_model.h"
#include "optime/timed_kernel.h"
#include "statistics/estimate.h"

namespace perfpred {

/// All that an OpTimeModel knows.
struct OpModelState {
  KernelModels kernels;
  StepModel steps;
  MeasuredDevices measured;
  std::vector<std::string> notes;
};

[[nodiscard]] nlohmann::json to_json(const OpModelState& state);
[[nodiscard]] OpModelState read_op_model(const nlohmann::json& json);  ///< @throws ModelError naming what is wrong

/// A step, and the device that executes it.
struct StepQuestion {
  const ExecutedStep& step;
  const Device& device;
  Precision precision = Precision::fp32;
  bool cuda_graph = false;
  StepConditions conditions;
  NetworkKey network;  ///< what its steps elsewhere took is used
};

/// Parts of a step's time that are no operator.
inline constexpr std::string_view host_part = "host", other_part = "other operators";

struct StepAnswer {
  Estimate time;      ///< its parts: the wait for the host, the ten operators that take longest, and the others
  StepClocks clocks;  ///< of the median
  /// Change of the logarithm of the seconds by one standard deviation of each of the machine's effects, as far as they
  /// are not known.
  MachineEffects slopes;
  std::vector<StepKernel> kernels;  ///< of the step
};

struct LearnedModel;

/// What an OpTimeModel holds, for files that hold one among other things.
struct OpModelAccess {
  [[nodiscard]] static const LearnedModel& learned(const OpTimeModel& model);
  [[nodiscard]] static const OpModelState& state(const OpTimeModel& model);
  [[nodiscard]] static OpTimeModel model(OpModelState state);
  [[nodiscard]] static StepAnswer predict(const OpTimeModel& model, const StepQuestion& asked);
  [[nodiscard]] static std::vector<TimedKernel> kernels(const OpTimeModel& model, const StepQuestion& asked);
};

/// Reads a model file; empty: the standard model. @throws InputError if it cannot be read, ModelError naming the field
[[nodiscard]] OpModelState load_op_model(const std::string& path);

}  // namespace perfpred
