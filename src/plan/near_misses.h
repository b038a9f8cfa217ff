// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "plan/limits.h"
#include "plan/request_problem.h"

namespace perfpred {

/// The five candidates outside an optimal plan whose inclusion costs it the least value. Empty if the time is up.
[[nodiscard]] std::vector<PlannedRun> missed_runs(std::span<const PlanCandidate> candidates,
                                                  const AssignmentProblem& problem, const Assignment& best,
                                                  const TimedRequest& request, const Limits& limits);

/// Values for larger budgets. The first holds the cheapest run if the request's budgets do not; then come steps of 5 to
/// 100 per cent, until all candidates fit or the time is up.
[[nodiscard]] std::vector<LargerBudget> larger_budgets(const AssignmentProblem& problem, double value,
                                                       const TimedRequest& request, const Limits& limits);

}  // namespace perfpred
