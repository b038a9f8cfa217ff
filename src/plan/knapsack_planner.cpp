// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include "plan/knapsack/exact_values.h"
#include "plan/knapsack/solve.h"
#include "plan/limits.h"

namespace perfpred {
namespace {

using knapsack::Int128;

bool is_candidate(const PlanItem& item, std::int64_t budget) { return item.value > 0 && item.cost <= budget; }

/// Properties of all candidates: items worth more than 0 that fit the budget.
struct Survey {
  knapsack::ValueUnit unit;
  std::int64_t cost_divisor = 0;
  std::size_t candidates = 0;
};

Survey survey_of(std::span<const PlanItem> items, std::int64_t budget) {
  Survey survey;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    if (item.cost <= 0) throw InputError(fmt::format("item {}: cost {} is not positive", i, item.cost));
    if (!(item.value >= 0) || std::isinf(item.value)) {
      throw InputError(fmt::format("item {}: value {} is not a number >= 0", i, item.value));
    }
    if (!is_candidate(item, budget)) continue;
    survey.unit.add(item.value);
    if (survey.cost_divisor != 1) survey.cost_divisor = std::gcd(survey.cost_divisor, item.cost);
    ++survey.candidates;
  }
  return survey;
}

template <class P>
Plan plan_exactly(std::span<const PlanItem> items, std::int64_t budget, const Survey& survey, const Limits& limits) {
  knapsack::Problem<P> problem;
  problem.capacity = budget / survey.cost_divisor;
  problem.items.reserve(survey.candidates);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!is_candidate(items[i], budget)) continue;
    problem.items.push_back(
        {0, survey.unit.whole<P>(items[i].value), items[i].cost / survey.cost_divisor, static_cast<std::uint32_t>(i)});
  }
  knapsack::Incumbent<P> incumbent;
  const P bound = knapsack::solve(std::move(problem), incumbent, limits);
  Plan plan;
  plan.chosen.assign(incumbent.chosen.begin(), incumbent.chosen.end());
  std::sort(plan.chosen.begin(), plan.chosen.end());
  for (const std::size_t index : plan.chosen) plan.cost += items[index].cost;
  plan.value = survey.unit.value(incumbent.profit);
  plan.optimal = bound <= incumbent.profit;
  plan.upper_bound = plan.optimal ? plan.value : survey.unit.value(bound, true);
  return plan;
}

}  // namespace

KnapsackPlanner::KnapsackPlanner(std::int64_t budget, PlanLimits limits) : budget_(budget), limits_(limits) {
  if (budget < 0) throw InputError(fmt::format("budget {} is negative", budget));
  static_cast<void>(Limits(limits_));  // refuses a bad limit now
}

Plan KnapsackPlanner::plan(std::span<const PlanItem> items) const {
  const Limits limits(limits_);
  const Survey survey = survey_of(items, budget_);
  if (survey.candidates == 0) {
    Plan nothing;
    nothing.optimal = true;
    return nothing;
  }
  const int bits = survey.unit.sum_bits();
  if (bits <= 61) return plan_exactly<std::int64_t>(items, budget_, survey, limits);
  if (bits <= 120) return plan_exactly<Int128>(items, budget_, survey, limits);
  return plan_exactly<knapsack::Wide>(items, budget_, survey, limits);
}

}  // namespace perfpred
