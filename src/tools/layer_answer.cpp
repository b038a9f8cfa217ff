// SPDX-License-Identifier: Apache-2.0
#include "tools/layer_answer.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/layer_models.h"
#include "model/model_state.h"
#include "optime/layers/layer_step.h"
#include "text/json.h"

namespace perfpred {
namespace {

/// The op model of a file, and the devices.
LayerAnswer answer_by(const OpPrior& prior, const LayerCase& layer, std::string_view device,
                      const DeviceCatalogue& devices) {
  const DeviceCatalogue known = prior.with_own_devices(devices);
  const Device on = known.find(device);
  return {on.name, predict_layer(prior.model(), layer, on)};
}

}  // namespace

LayerCase asked_layer(std::string_view text, std::span<const SweptField> fields) {
  LayerCase layer = parse_layer(text);
  layer.optimizer = Optimizer::adam;
  for (const SweptField& field : fields) {
    if (field.name == "device") continue;
    const auto column = std::ranges::find(layer_columns(), std::string_view(field.name), &Column<LayerCase>::name);
    if (field.name != "batch_size" && field.name != "optimizer" && field.name != "precision") {
      throw InputError(
          fmt::format("{} is given; a layer is what its text says, with a batch size, an optimizer and a "
                      "precision",
                      field.name));
    }
    column->set(layer, field.values.front(), {{}, 0, field.name});
  }
  check_layer(layer);
  return layer;
}

LayerAnswer answer_layer(const std::string& model_file, const LayerCase& layer, std::string_view device,
                         const DeviceCatalogue& devices) {
  if (model_file.empty()) return answer_by(OpPrior(nullptr), layer, device, devices);
  const auto json = read_json<nlohmann::json>(model_file);
  if (json.is_object() && json.value("kind", nlohmann::json()) == "layers") {
    const Device on = devices.find(device);
    LayerAnswer answer{on.name, {}};
    answer.time.step = LayerModels::load(model_file).predict(layer, on);
    answer.time.provenance = Provenance::probe;  // such models are fitted on measured layers alone
    return answer;
  }
  try {
    return answer_by(read_state(json, {}, devices).ops->prior(), layer, device, devices);
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: {}", model_file, error.what()));
  }
}

}  // namespace perfpred
