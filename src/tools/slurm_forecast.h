// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>
#include <perfpred/prediction.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// 999 of 1,000 jobs are expected to end within the limit.
inline constexpr double limit_quantile = 0.999;

/// What was expected of a job of Slurm when it was submitted. It stands in the job's AdminComment, which slurmdbd keeps
/// and sacct prints.
struct SlurmForecast {
  Quantiles total_sec;             ///< of the job
  std::int64_t limit_minutes = 0;  ///< that hold its quantile limit_quantile
  double epochs = 0;               ///< > 0
  double other_sec = 0;  ///< of what is expected that which is no training: start-up, evaluations, checkpoints
  std::string verdict;   ///< of memory, to_string(MemoryVerdict); empty if it is not known
  std::string model;     ///< name of the model that answered
  std::string key;       ///< of the workload
};

/// @param answer  to terms that ask for the quantile limit_quantile
/// @param model   its name
/// @throws InputError for a workload that does not know its epoch
[[nodiscard]] SlurmForecast slurm_forecast(const Answer& answer, const AnswerTerms& terms, std::string model);

/// `perfpred:p05_sec=...;p50_sec=...;...;key=...`, without `|`, which divides the columns of `sacct -P`.
[[nodiscard]] std::string admin_comment(const SlurmForecast& forecast);

/// Nothing for a comment that others wrote. @throws InputError for a damaged one of admin_comment()
[[nodiscard]] std::optional<SlurmForecast> parse_admin_comment(std::string_view text);

}  // namespace perfpred
