// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include <algorithm>
#include <cmath>

#include "plan/knapsack.h"

namespace perfpred {

KnapsackPlanner::KnapsackPlanner(std::int64_t budget, PlanLimits limits) : budget_(budget), limits_(limits) {
  if (budget < 0) throw InputError(fmt::format("budget {} is negative", budget));
  static_cast<void>(Limits(limits_));  // refuses a bad limit now
}

Plan KnapsackPlanner::plan(std::span<const PlanItem> items) const {
  const Limits limits(limits_);
  ValueUnit unit;
  std::vector<Candidate> candidates;
  candidates.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    if (item.cost <= 0) throw InputError(fmt::format("item {}: cost {} is not positive", i, item.cost));
    if (!(item.value >= 0) || std::isinf(item.value)) {
      throw InputError(fmt::format("item {}: value {} is not a number >= 0", i, item.value));
    }
    if (item.value == 0 || item.cost > budget_) continue;
    unit.add(item.value);
    candidates.push_back({i, item.cost, 0});
  }
  for (Candidate& candidate : candidates) candidate.profit = unit.whole(items[candidate.job].value);
  Chosen best = solve_knapsack(candidates, budget_, limits);
  Plan plan;
  plan.chosen = std::move(best.jobs);
  std::sort(plan.chosen.begin(), plan.chosen.end());
  std::vector<double> values;
  for (const std::size_t index : plan.chosen) {
    plan.cost += items[index].cost;
    values.push_back(items[index].value);
  }
  plan.value = rounded_sum(values);
  if (!unit.can_be(best.profit, plan.value)) throw Error("the planner failed: its set does not have the value it says");
  plan.optimal = best.bound <= best.profit && (unit.exact() || plan.chosen.size() == candidates.size());
  plan.upper_bound = plan.optimal ? plan.value : unit.at_least(best.bound);
  return plan;
}

}  // namespace perfpred
