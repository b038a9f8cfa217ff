// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/prediction.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/kinds/feature_regressor.h"
#include "optime/layers/layer_rows.h"

namespace perfpred {

/// Inputs of a regression of layer times. Sizes and flags are always there; the others can be left out.
struct LayerInputs {
  bool compute = true;  ///< FLOPs of the layer's step
  bool memory = true;   ///< bytes that it moves, and parameters
  bool time = true;     ///< FLOPs over the device's peak, bytes over its bandwidth; 0 where these are unknown

  friend bool operator==(const LayerInputs&, const LayerInputs&) = default;
};

/// `sizes`, and what is added: `sizes+compute+memory+time`. @throws InputError for another text
[[nodiscard]] std::string to_string(const LayerInputs& inputs);
[[nodiscard]] LayerInputs parse_layer_inputs(std::string_view text);  ///< @copydoc to_string

/// Names of the inputs of one type, and their values for a layer of it, which is executed on the device. Those that can
/// be left out come last, in the order of LayerInputs.
[[nodiscard]] std::vector<std::string> layer_feature_names(LayerType type, const LayerInputs& inputs);
[[nodiscard]] Features layer_features(const LayerCase& layer, const Device& device, const LayerInputs& inputs);

/// What a layer was measured on; one that is not known has a kind alone.
[[nodiscard]] Device device_of(const LayerRow& row, const DeviceCatalogue& devices);

/// What a regression of step times is fitted on. @param rows  of one type, all with a step time
[[nodiscard]] FeatureTask layer_task(std::span<const LayerRow> rows, const DeviceCatalogue& devices,
                                     const LayerInputs& inputs, std::uint64_t seed);

/// Times of single layers, from a regression for each type of layer that was fitted on measured ones.
class LayerModels {
 public:
  struct Model {
    const FeatureKind* kind = nullptr;
    LayerInputs inputs;
    std::shared_ptr<const FeatureRegressor> function;
  };

  void set(LayerType type, Model model) { models_[type] = std::move(model); }

  /// Seconds of the layer's step. @throws InputError, listing those that there are, for a type without a model
  [[nodiscard]] Quantiles predict(const LayerCase& layer, const Device& device) const;

  void save(const std::string& path) const;                        ///< @throws Error if the file cannot be written
  [[nodiscard]] static LayerModels load(const std::string& path);  ///< @throws InputError, ModelError

 private:
  std::map<LayerType, Model> models_;
};

}  // namespace perfpred
