// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "evaluate/layer_study.h"
#include "tools/chart.h"

namespace perfpred {

/// A study for people: the error of each kind by type of layer, what inputs and devices are worth, the kind chosen.
[[nodiscard]] std::string layer_study_text(const LayerStudy& study);

/// {"scores": [{"layer", "kind", "inputs", "by", "n", "mape", "median_ape"}], "predictions": [{"layer", "device",
/// "measured_ms", "p05_ms", "p50_ms", "p95_ms"}], "coverage90", "notes"}
[[nodiscard]] nlohmann::json to_json(const LayerStudy& study);

/// The features of layers that have a step time, beside what the catalogue says of their device, a table for each type
/// one after the other, by name of type.
void write_layer_features(const std::string& path, const std::vector<LayerRow>& rows, const DeviceCatalogue& devices);

/// Charts of what to_json() made: `layer_errors`, `layer_inputs`, `layer_devices` (each where there is something to
/// draw) and `layer_predictions`, by name. @throws InputError, `file: ...`, for a file that is not such a study
[[nodiscard]] std::vector<std::pair<std::string, Chart>> layer_charts(const std::string& path);

}  // namespace perfpred
