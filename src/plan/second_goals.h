// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/assignment.h"
#include "plan/dated.h"
#include "plan/limits.h"

namespace perfpred {

/// What plans of one value are told apart by: when their last run ends, then what they cost.
struct SecondGoals {
  std::vector<std::int64_t> free_from;      ///< of each device, seconds from the begin of the plan, >= 0
  JobWindows windows = {};                  ///< from where each device is free; empty: none
  std::vector<std::vector<double>> prices;  ///< of each job on each device, >= 0; empty: each second costs 1
};

/// How far a plan reaches the second goals.
struct SecondBounds {
  std::int64_t makespan = 0;        ///< last end of a run, from the begin of the plan; 0 without a run
  std::int64_t makespan_bound = 0;  ///< no plan that is worth as much ends sooner
  double price = 0;
  /// No plan that is worth as much and ends as soon is cheaper. Known for the only set of jobs that is worth as much,
  /// and on one device where each second costs 1.
  std::optional<double> price_bound = {};
};

/// When a plan ends and what it costs; no bounds.
[[nodiscard]] SecondBounds second_goals_of(const AssignmentProblem& problem, const SecondGoals& goals,
                                           const Assignment& plan);

/// Replaces a plan by one of the same value that ends sooner, or as soon for a lower price, as far as it finds one. One
/// device without windows: a knapsack over value, then time, exact where both have at most 118 bits. Else the plan of
/// the same jobs that local search finds; and plans and bounds for smaller budgets.
[[nodiscard]] SecondBounds reach_second_goals(const AssignmentProblem& problem, const SecondGoals& goals,
                                              Assignment& plan, const Limits& limits);

}  // namespace perfpred
