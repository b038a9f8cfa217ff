// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/op_time_model.h>
#include <perfpred/prediction.h>

#include <optional>

#include "optime/layers/layer_case.h"

namespace perfpred {

/// What a training step of one layer takes, in seconds: the time that it adds to a step of a network, without what a
/// step has once. Small layers on a GPU wait for the host in each part alone; a whole step may hide some of that.
struct LayerTime {
  std::optional<Quantiles> forward, backward, optimizer;  ///< empty where the layer has none, or it is not known
  Quantiles step;                                         ///< of all that the layer has
  Provenance provenance = Provenance::bytes;
};

/// What an op model expects of a layer. @throws InputError as OpTimeModel::predict(), and check_layer()
[[nodiscard]] LayerTime predict_layer(const OpTimeModel& model, const LayerCase& layer, const Device& device);

}  // namespace perfpred
