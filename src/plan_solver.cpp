#include "plan_solver.h"

#include <algorithm>
#include <map>

#include "cover_solver.h"
#include "exact_assignment.h"
#include "several_solver.h"

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
  assignment.optimal = plan.optimal;
  return assignment;
}

Assignment cover_on_one(const WholeProblem& problem, const knapsack::Limits& limits) {
  std::vector<Candidate> candidates;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const auto& item = problem.jobs[j][0];
    if (item) candidates.push_back({j, item->cost, item->profit});
  }
  Places places{JobDevices(problem.jobs.size()), -1};
  const auto chosen = solve_cover(candidates, problem.group, problem.budgets[0], limits);
  if (!chosen) return to_assignment(problem, places, -1);
  for (const std::size_t job : chosen->jobs) places.device[job] = 0;
  // A group none of whose jobs fits the budget has no candidate.
  if (!covers_groups(problem.group, places.device)) return to_assignment(problem, {places.device, -1}, -1);
  places.profit = chosen->profit;
  return to_assignment(problem, places, chosen->bound);
}

}  // namespace

bool covers_groups(const JobGroups& group, const JobDevices& device) {
  std::map<std::size_t, bool> covered;
  for (std::size_t j = 0; j < device.size(); ++j) {
    if (group[j]) covered[*group[j]] |= device[j].has_value();
  }
  return std::all_of(covered.begin(), covered.end(), [](const auto& one) { return one.second; });
}

std::int64_t least_cover(const AssignmentProblem& problem) {
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
  const bool covers =
      std::any_of(problem.group.begin(), problem.group.end(), [](const auto& group) { return group.has_value(); });
  if (problem.budgets.size() == 1 && !covers) return assign_to_one(problem, given);
  const auto limits = knapsack::Limits::from(given);
  WholeProblem whole(problem);
  if (problem.budgets.size() == 1) return cover_on_one(whole, limits);
  return assign_to_several(std::move(whole), limits, effort);
}

}  // namespace perfpred
