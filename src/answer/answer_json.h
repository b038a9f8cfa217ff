// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>
#include <perfpred/layouts.h>

#include <nlohmann/json.hpp>

namespace perfpred {

[[nodiscard]] nlohmann::json to_json(const Quantiles& quantiles);
[[nodiscard]] nlohmann::json to_json(const MemoryBound& bytes);
[[nodiscard]] nlohmann::json limits_json(const ScalingLimits& limits);

/// An answer as programs and the C interface give it (docs/formats.md).
[[nodiscard]] nlohmann::json to_json(const Answer& answer);

/// The document of `perfpred-layouts --json`.
[[nodiscard]] nlohmann::json to_json(const Layouts& layouts);

/// The answer of such a document, without the fields of a captured step that nobody knows, which a document does not
/// say. @throws InputError for another document
[[nodiscard]] Answer answer_of(const nlohmann::json& document);

}  // namespace perfpred
