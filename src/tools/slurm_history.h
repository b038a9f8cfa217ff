// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/slurm_forecast.h"

namespace perfpred {

/// A job that has ended, as sacct has it.
struct SlurmJob {
  std::string id;
  std::string state;  ///< COMPLETED, TIMEOUT, ...
  std::string end;    ///< as sacct prints it; empty without such a column
  double elapsed_sec = 0;
  std::optional<double> limit_sec = {};  ///< that it had; empty if unlimited or not known
  std::optional<SlurmForecast> forecast = {};
};

/// What sacct said of some time.
struct SlurmHistory {
  std::vector<SlurmJob> jobs;
  std::vector<std::string> damaged;  ///< a line for each AdminComment of perfpred that cannot be read
};

/// The columns that a history needs, for `sacct -P --format=`.
inline constexpr std::string_view sacct_columns = "JobIDRaw,State,ElapsedRaw,TimelimitRaw,End,AdminComment";

/// Reads what `sacct -P` printed: columns by their names in any order, `|` between them. `End` and `JobID` in place of
/// `JobIDRaw` may be there; steps of jobs (`123.batch`) are passed over. Of a job that stands there more than once its
/// last row counts.
/// @param name  of the text in messages
/// @throws InputError `name:line: ...` for a text without the columns, and for a row that is none
[[nodiscard]] SlurmHistory read_sacct(const std::string& name, std::string_view text);

/// How forecasts of jobs compare with what the jobs took.
struct SlurmReport {
  std::size_t jobs = 0;                          ///< all that were read
  std::map<std::string, std::size_t> left_out;   ///< by reason: `no_forecast`, or the state that the job ended in
  std::size_t completed = 0;                     ///< with a forecast: what all that follows is counted over
  std::size_t inside = 0, below = 0, above = 0;  ///< of the 90 % interval
  std::vector<std::string> killed;               ///< took longer than the forecast's limit, which would have ended them
  std::size_t timeouts = 0;                      ///< with a forecast, ended by the limit that they had
  std::size_t timeouts_saved = 0;                ///< of these, those whose forecast's limit was longer
  std::size_t limits = 0;                        ///< completed, with a limit, not killed: what the hours are of
  double used_hours = 0;                         ///< that these ran
  double own_hours = 0;                          ///< that their own limits reserved
  double forecast_hours = 0;                     ///< that the forecasts' limits would have reserved

  /// Hours that a backfill scheduler could have given to others with the forecasts' limits, beyond those that it had:
  /// negative if the jobs' own limits were the closer ones.
  [[nodiscard]] double won_hours() const { return own_hours - forecast_hours; }
};

/// @param grace_sec  that Slurm lets a job run beyond its limit (OverTimeLimit of slurm.conf)
[[nodiscard]] SlurmReport slurm_report(const SlurmHistory& history, double grace_sec = 0);

[[nodiscard]] nlohmann::ordered_json to_json(const SlurmReport& report);
[[nodiscard]] std::string text_of(const SlurmReport& report);

/// Finished jobs as a runs.csv (key, timestamp_utc, avg_time_sec, outcome): an epoch's share of the job's time without
/// what its forecast expects beside training. Jobs that did not complete, have no forecast, or took no longer than that
/// are left out. Jobs are told by their time stamps, so that a model that is taught an overlapping history counts each
/// once.
struct SlurmRuns {
  std::string csv;  ///< empty if there is none
  std::size_t rows = 0;
};
[[nodiscard]] SlurmRuns runs_of(const SlurmHistory& history);

}  // namespace perfpred
