// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "optime/layer_time.h"
#include "optime/layers/layer_step.h"
#include "optime/op_model_state.h"

namespace perfpred {

/// OpTimeModel::predict().
/// @param is_learned  whether what the model learned of a device of this name holds for asked.device, whose rates may
///                    be others
[[nodiscard]] StepAnswer predict_step(const OpModelState& state, const StepQuestion& asked, bool is_learned);

/// predict_layer(). @param asked  of layer.executed
[[nodiscard]] LayerTime predict_own_kernels(const OpModelState& state, const LayerStep& layer,
                                            const StepQuestion& asked, bool is_learned);

}  // namespace perfpred
