// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>

#include <map>
#include <string>
#include <vector>

#include "network/layers.h"
#include "optime/layers/layer_case.h"
#include "optime/step_kernels.h"

namespace perfpred {

/// What a layer is in a network: its input (two for `add`), then its operators' layers.
/// @param source  puts a learned layer before each input that has a gradient, so that graphs have it, too
[[nodiscard]] Network network_of(const LayerCase& layer, bool source = false);

/// A layer's step with an input that has a gradient.
struct LayerStep {
  ExecutedStep executed;
  std::vector<bool> own;  ///< by index into the graph's operators: whether it is one of the layer's
};

/// The operators of a layer's forward, backward and update on a device of this kind.
[[nodiscard]] LayerStep layer_step(const LayerCase& layer, DeviceKind device);

/// What a layer's own operators do in a step.
struct LayerWork {
  std::int64_t params = 0;
  OpTotals totals;
  std::map<Phase, OpTotals> phases;
  std::map<std::string, OpTotals> kinds;  ///< by name of operator
};

[[nodiscard]] LayerWork layer_work(const LayerCase& layer, DeviceKind device);

/// The kernels of the layer's own operators.
[[nodiscard]] std::vector<StepKernel> own_kernels(const LayerStep& layer);

/// Bytes that a layer's tensors have in all: about what a step of it needs.
[[nodiscard]] double layer_bytes(const LayerCase& layer);

/// The layers of a network that can be measured alone, in order, by name of type; with the batch of the network.
[[nodiscard]] std::vector<LayerCase> layers_of(const Network& network);

}  // namespace perfpred
