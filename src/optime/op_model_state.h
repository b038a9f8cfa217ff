// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_time_model.h>

#include <nlohmann/json.hpp>

#include "optime/kernel_model.h"
#include "optime/layers/layer_rates.h"
#include "optime/step_model.h"

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

/// What an OpTimeModel holds, for files that hold one among other things.
struct OpModelAccess {
  [[nodiscard]] static const OpModelState& state(const OpTimeModel& model);
  [[nodiscard]] static OpTimeModel model(OpModelState state);
  /// OpTimeModel::predict().
  /// @param network  the step's network_key(): what its steps elsewhere took is used; empty if it has none
  /// @param slopes  becomes the change of the logarithm of the seconds by one standard deviation of each of the
  /// machine's effects, as far as they are not known
  [[nodiscard]] static StepTime predict(const OpTimeModel& model, const ExecutedStep& step, const Device& device,
                                        Precision precision, bool cuda_graph, const std::string& network,
                                        MachineEffects* slopes);
};

/// Multiplies every time by the factor.
void scale(StepTime& time, double factor);

/// Reads a model file; empty: the standard model. @throws InputError if it cannot be read, ModelError naming the field
[[nodiscard]] OpModelState load_op_model(const std::string& path);

}  // namespace perfpred
