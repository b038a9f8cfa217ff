// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/training_log.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// What is aggregated: files by kind, and a folder of logs (empty: none).
struct AggregateInputs {
  std::vector<std::string> runs;
  std::string logs, label = "robust";
  std::vector<std::string> from = {};  ///< logs that other software wrote
  RunFacts facts = {};                 ///< what those logs do not say
  std::string runs_out = {};           ///< where their runs go as runs.csv; empty: nowhere
};

/// What the refusals of `merge` and `partial` say.
inline constexpr const char* instead_of_parts =
    "runs of several machines are aggregated at once (--runs a.csv --runs b.csv)";

/// RunFacts::counted of `steps` or `epochs`. @param name  for messages @throws InputError for another word
[[nodiscard]] Timing parse_counted(std::string_view text, std::string_view name);

/// Adds what a log does not say: a field of a workload, `config`, params, env, counted or step_tokens.
/// @throws InputError for another name, or a value that is none of it
void add_fact(RunFacts& facts, const std::string& name, const nlohmann::json& value);

/// All inputs together. @param notes  gets lines that say what was skipped
/// @throws InputError as Aggregator does, and if there is no input or none holds a run
[[nodiscard]] Aggregator aggregate(const AggregateInputs& inputs, std::vector<std::string>& notes);

/// The document of perfpred-aggregate --json, piece by piece: the list of rejected runs may be long.
void write_json(const Aggregator& aggregator, const std::vector<AggregateRow>& rows,
                const std::function<void(std::string_view)>& write);

/// Rows that a fit or observe() set aside: a list of keys and reasons.
[[nodiscard]] nlohmann::json to_json(const std::vector<RejectedRun>& rows);

}  // namespace perfpred
