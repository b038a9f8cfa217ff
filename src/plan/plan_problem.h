// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run_plan.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perfpred {

/// A run that may be planned: as it would be on each device of the request, empty where it cannot go.
using PlanCandidate = std::vector<std::optional<PlannedRun>>;

/// A checked request and what it may choose from.
struct PlanProblem {
  PlanRequest request;
  std::vector<PlanCandidate> candidates;  ///< in the order of the rows
  /// With a confidence above 0.5: the joint distribution of the candidates' log seconds per epoch, measurement noise
  /// and the probability of a disturbed run included. One entry for each device, or one for all devices if every
  /// candidate is the same run on each. Of a candidate that cannot go to the device: 0, without variance.
  std::vector<JointPrediction> times = {};
  std::vector<RowLeftOut> left_out = {};  ///< rows that are no candidate, or not on every device
  std::vector<std::string> devices = {};  ///< RunPlan::devices
};

/// max(1, round(seconds)), ties to even; the largest cost there is for seconds that exceed it.
[[nodiscard]] std::int64_t whole_seconds(double seconds);

/// @param pools  whether equal jobs are one
/// @param model  its median times are planned with; null: measured times. @throws InputError, Error as plan_runs
[[nodiscard]] PlanProblem to_problem(std::span<const QueuedJob> jobs, bool pools, const PlanRequest& request,
                                     const TimeRegressor* model);

/// The same of measured rows, which are pooled.
[[nodiscard]] PlanProblem to_problem(std::span<const AggregateRow> rows, const PlanRequest& request,
                                     const TimeRegressor* model);

/// The best set of candidates, and what lies near it. @throws InputError if the objective is a cover and no candidate
/// has a depth
[[nodiscard]] RunPlan solve(const PlanProblem& problem);

}  // namespace perfpred
