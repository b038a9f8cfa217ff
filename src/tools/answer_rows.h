// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/workload_sweep.h"

namespace perfpred {

/// answer() of each row that has a workload, with what the row left unstated; nothing for the others and for those that
/// it refuses, whose error says why.
/// @param prepare  called before each answer; an InputError of it is the row's, too
/// @throws InputError, the first error, if no row has an answer; if there are prices and none is of a row's device
[[nodiscard]] std::vector<std::optional<Answer>> answer_rows(const TimeRegressor& model, std::span<AskedRow> rows,
                                                             AnswerTerms terms,
                                                             const std::function<void(const Workload&)>& prepare);

/// `2 of 10 rows have no answer; the first: configs.csv:3: ...`; empty if all have one.
[[nodiscard]] std::string unanswered_text(std::span<const AskedRow> rows);

/// Of a row without an answer: its key, null where it is no workload, and the error.
[[nodiscard]] nlohmann::json to_json(const AskedRow& row);

}  // namespace perfpred
