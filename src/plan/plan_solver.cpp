// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_solver.h"

#include <algorithm>
#include <map>

#include "plan/cover_solver.h"
#include "plan/devices/exact_assignment.h"
#include "plan/devices/multi_device.h"
#include "plan/limits.h"

namespace perfpred {
namespace {

Assignment assign_to_one(const AssignmentProblem& problem, const PlanLimits& limits) {
  std::vector<PlanItem> items;
  std::vector<std::size_t> job_of;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (!problem.jobs[j][0]) continue;
    items.push_back(*problem.jobs[j][0]);
    job_of.push_back(j);
  }
  const Plan plan = KnapsackPlanner(problem.budgets[0], limits).plan(items);
  Assignment assignment;
  assignment.device.resize(problem.jobs.size());
  for (const std::size_t index : plan.chosen) assignment.device[job_of[index]] = 0;
  assignment.value = plan.value;
  assignment.upper_bound = plan.upper_bound;
  assignment.status = plan.optimal ? PlanStatus::optimal : PlanStatus::feasible;
  return assignment;
}

Assignment cover_on_one(const WholeProblem& problem, const Limits& limits) {
  Places places{JobDevices(problem.jobs.size()), -1};
  const auto chosen = solve_cover(problem.candidates_on(0), problem.group, problem.budgets[0], limits);
  if (!chosen) return to_assignment(problem, places, -1);
  for (const std::size_t job : chosen->jobs) places.device[job] = 0;
  places.profit = chosen->profit;
  return to_assignment(problem, places, chosen->bound);
}

}  // namespace

bool has_groups(const JobGroups& group) {
  return std::any_of(group.begin(), group.end(), [](const auto& one) { return one.has_value(); });
}

bool covers_groups(const JobGroups& group, const JobDevices& device) {
  std::map<std::size_t, bool> covered;
  for (std::size_t j = 0; j < device.size(); ++j) {
    if (group[j]) covered[*group[j]] |= device[j].has_value();
  }
  return std::all_of(covered.begin(), covered.end(), [](const auto& one) { return one.second; });
}

std::int64_t cheapest_cover(const AssignmentProblem& problem) {
  std::map<std::size_t, std::int64_t> least;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (!problem.group[j]) continue;
    for (const auto& item : problem.jobs[j]) {
      if (!item) continue;
      const auto [place, is_new] = least.emplace(*problem.group[j], item->cost);
      if (!is_new) place->second = std::min(place->second, item->cost);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [group, cost] : least) sum = saturated_sum(sum, cost);
  return sum;
}

Assignment assign(const AssignmentProblem& problem, const PlanLimits& given, const PlanEffort& effort) {
  if (problem.budgets.size() == 1 && !has_groups(problem.group)) return assign_to_one(problem, given);
  const Limits limits(given);
  WholeProblem whole(problem);
  if (!whole.can_cover()) return to_assignment(whole, {JobDevices(whole.jobs.size()), -1}, -1);
  if (problem.budgets.size() == 1) return cover_on_one(whole, limits);
  return assign_to_several(std::move(whole), limits, effort);
}

}  // namespace perfpred
