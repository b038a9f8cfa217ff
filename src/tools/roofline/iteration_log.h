// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Training steps of one workload in one environment.
struct TimedSteps {
  std::string environment;                       ///< a tag such as "lab"; may be empty
  Workload workload;                             ///< `device` as the measurement names it; precision may be unknown
  std::int64_t accumulate = 1;                   ///< batches of a step, whose gradients one update sums up
  std::int64_t iterations = 0;                   ///< the figures below come from so many steps
  double mean_ms = 0;                            ///< time of a step
  std::optional<double> std_ms, min_ms, max_ms;  ///< std with n - 1; empty where not known
  double images_per_sec = 0;
};

struct IterationSummary {
  std::vector<TimedSteps> rows;       ///< in order of appearance
  std::vector<std::string> warnings;  ///< one line each
  /// Which of the columns input, classes, optimizer, precision some log lacks. There `workload` has the network's own
  /// input and classes, optimizer nesterov, precision unknown.
  std::set<std::string> missing_columns;
};

/// Sums up iteration logs in one pass and constant memory. The first `warmup` iterations of a run are dropped, and its
/// last, which may have been a partial batch; so is every other iteration whose imgs_per_sec shows a partial batch.
/// Rows that differ in `threads` or `accumulate` are of different steps, as those that differ in anything else.
/// Where the timestamps are more than 2 % further apart than the timer says, the timer did not wait for the device:
/// then the differences of the timestamps are used, and a warning says so.
/// @throws InputError, `file:line: ...`, for a file that cannot be read, an unknown network, a number that is not
/// positive, a run with no iteration left, or one that an earlier file has
[[nodiscard]] IterationSummary summarise_iterations(std::span<const std::string> paths, int warmup = 5);

}  // namespace perfpred
