// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "tools/job_answer.h"

namespace perfpred {

[[nodiscard]] nlohmann::json to_json(const Quantiles& quantiles);

/// An answer as programs and the C interface give it (docs/formats.md).
[[nodiscard]] nlohmann::json to_json(const JobAnswer& answer);

/// The answer of such a document, without what a document does not say: the parts of its memory, and the fields of a
/// captured step that nobody knows. @throws InputError for another document
[[nodiscard]] JobAnswer answer_of(const nlohmann::json& document);

/// Of a row without an answer: its key, null where it is no workload, and the error.
[[nodiscard]] nlohmann::json to_json(const AskedRow& row);

}  // namespace perfpred
