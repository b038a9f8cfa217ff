// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "optime/layer_time.h"
#include "optime/layers/layer_step.h"
#include "optime/learned_devices.h"
#include "optime/op_model_state.h"
#include "optime/timed_kernel.h"

namespace perfpred {

/// OpTimeModel::predict().
[[nodiscard]] StepAnswer predict_step(const LearnedModel& model, const StepQuestion& asked);

/// The kernels of a step in the order of execution, those of a further batch left out (OpGraph::repeats()).
[[nodiscard]] std::vector<TimedKernel> timed_kernels(const LearnedModel& model, const StepQuestion& asked);

/// predict_layer(). @param asked  of layer.executed
[[nodiscard]] LayerTime predict_own_kernels(const LearnedModel& model, const LayerStep& layer,
                                            const StepQuestion& asked);

}  // namespace perfpred
