// SPDX-License-Identifier: Apache-2.0
#pragma once
// The documents of `perfpred-inspect --json` (docs/formats.md).
#include <perfpred/device.h>
#include <perfpred/op_graph.h>

#include <nlohmann/json.hpp>

#include <optional>
#include <vector>

#include "optime/layers/layer_step.h"
#include "tools/rank_report.h"
#include "tools/step_report.h"

namespace perfpred {

[[nodiscard]] nlohmann::json to_json(const OpTotals& totals);
[[nodiscard]] nlohmann::json to_json(const StepReport& report);
[[nodiscard]] nlohmann::json to_json(const std::vector<LayerSummary>& layers);
[[nodiscard]] nlohmann::json to_json(const RankReport& report);

/// @param device  on which the layer is executed
[[nodiscard]] nlohmann::json to_json(const LayerCase& layer, const LayerWork& work,
                                     const std::optional<Device>& device);

}  // namespace perfpred
