// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <span>
#include <string>
#include <string_view>

#include "optime/layer_time.h"
#include "tools/workload_sweep.h"

namespace perfpred {

/// The layer of a text, trained as the fields say: batch_size, optimizer, precision; a device is left to the caller.
/// @throws InputError as parse_layer(), or for another field
[[nodiscard]] LayerCase asked_layer(std::string_view text, std::span<const SweptField> fields);

struct LayerAnswer {
  std::string device;  ///< its name in the catalogue
  LayerTime time;      ///< of LayerModels: the step alone
};

/// What a model expects of a layer.
/// @param model_file  an op model, a regressor, whose op model answers, or LayerModels; empty: the standard model
/// @param devices     those of the model are added
/// @throws InputError, ModelError
[[nodiscard]] LayerAnswer answer_layer(const std::string& model_file, const LayerCase& layer, std::string_view device,
                                       const DeviceCatalogue& devices);

}  // namespace perfpred
