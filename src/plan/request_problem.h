// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/assignment.h"
#include "plan/candidates.h"

namespace perfpred {

/// max(1, round(seconds)), ties to even; the largest cost there is for seconds that exceed it.
[[nodiscard]] std::int64_t whole_seconds(double seconds);

/// A request with what its confidence needs.
struct TimedRequest : PlanRequest {
  /// joint_times() of the candidates: one entry for each device, or one for all devices if every candidate has the same
  /// seconds and value on each. Empty for a confidence of 0.5.
  std::vector<JointPrediction> times = {};
};

/// @throws InputError as plan_runs
void check(const PlanRequest& request);
void check(std::span<const PlanCandidate> candidates, const TimedRequest& request);

/// Jobs and groups of a checked request.
[[nodiscard]] AssignmentProblem to_problem(std::span<const PlanCandidate> candidates, const PlanRequest& request);

/// The run of an option, starting at 0. Its device is called as the request calls it, else as its workload does.
[[nodiscard]] PlannedRun planned(const PlanOption& option, std::size_t device, const PlanRequest& request);

/// The best assignment by the objective and the confidence of the request. Budgets are those of the problem.
[[nodiscard]] Assignment solve(const AssignmentProblem& problem, const TimedRequest& request, const PlanLimits& limits,
                               const PlanEffort& effort);

}  // namespace perfpred
