// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>

#include <nlohmann/json.hpp>

namespace perfpred {

[[nodiscard]] nlohmann::json to_json(const Quantiles& quantiles);

/// An answer as programs and the C interface give it (docs/formats.md).
[[nodiscard]] nlohmann::json to_json(const Answer& answer);

}  // namespace perfpred
