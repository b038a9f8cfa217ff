// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run_plan.h>

#include <cstdint>
#include <span>

#include "plan/plan_solver.h"

namespace perfpred {

/// max(1, round(seconds)), ties to even; the largest cost there is for seconds that exceed it.
[[nodiscard]] std::int64_t whole_seconds(double seconds);

/// @throws InputError as plan_runs
void check(std::span<const PlanCandidate> candidates, const PlanRequest& request);

/// Jobs and groups of a checked request.
[[nodiscard]] AssignmentProblem to_problem(std::span<const PlanCandidate> candidates, const PlanRequest& request);

/// The run of an option, starting at 0.
[[nodiscard]] PlannedRun planned(const PlanOption& option, std::size_t device, const PlanRequest& request);

/// The best assignment by the objective and the confidence of the request. Budgets are those of the problem.
[[nodiscard]] Assignment solve(const AssignmentProblem& problem, const PlanRequest& request, const PlanLimits& limits,
                               const PlanEffort& effort);

}  // namespace perfpred
