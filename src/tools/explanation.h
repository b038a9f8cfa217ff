// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a measured step does not take the expected time: what programs, C and Python ask, and what they show of it.
#include <perfpred/explanation.h>
#include <perfpred/time_regressor.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/answer_text.h"
#include "tools/json_request.h"

namespace perfpred {

/// A job that was measured: a run, or a step that took so long.
struct MeasuredJob {
  std::string source;  ///< the file that has it; empty: none
  AskedJob asked;
  std::optional<Run> run = {};
  double step_sec = 0;  ///< where there is no run
};

/// The request has one of `runs` (a runs.csv, or a list of them), `log` (a log that other software wrote, or a list of
/// them), `files` (either, told apart by their content), `row` (an object of columns of runs.csv) and `measured_ms` (of
/// a step). With `log` and `measured_ms` it has
/// the fields of a workload, as read_request() takes them; of a log also what add_fact() takes.
/// @throws InputError as read_runs(), read_training_log() and read_request(), and for another request
[[nodiscard]] std::vector<MeasuredJob> read_measured(const ModelRequests& requests, nlohmann::json request);

/// What perfpred-explain --json says of a measured job (docs/formats.md). @throws InputError as answer()
[[nodiscard]] nlohmann::json explained(const TimeRegressor& model, const MeasuredJob& job);

/// The document of one, or a list of those of several, in which a job without an answer has its `key` and the `error`.
/// @param explain_one  gives the document of a job, and throws InputError where it has none
/// @throws InputError, the first one, if no job has an answer
[[nodiscard]] nlohmann::json explained_all(const std::vector<MeasuredJob>& jobs,
                                           const std::function<nlohmann::json(const MeasuredJob&)>& explain_one);

/// The document of one as lines, a list of several as a table with a line each. @throws InputError for another document
[[nodiscard]] std::string explanation_text(const nlohmann::json& document, Reader reader);

}  // namespace perfpred
