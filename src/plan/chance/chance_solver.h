// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/knapsack_planner.h>

#include <cstdint>

#include "plan/chance/chance_problem.h"

namespace perfpred {

/// The best set of runs for one device. The knapsack of each tangent gives an upper bound; its solutions are repaired
/// and improved by exchanges; a branch and bound over the best tangent closes the gap if its tree has at most
/// `max_nodes`. The plan counts as optimal if no other is better by more than chance_tolerance of the value. Runs worth
/// 0 are not candidates, though where errors are large such a run may lower what the others need: bound and proof leave
/// that out.
[[nodiscard]] Plan solve_chance(const ChanceProblem& problem, const PlanLimits& limits, std::int64_t max_nodes);

}  // namespace perfpred
