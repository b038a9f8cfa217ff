#include "plan_solver.h"

namespace perfpred {
namespace {

/// One device: a knapsack.
Assignment assign_one(std::span<const PlanJob> jobs, std::int64_t budget, const PlanLimits& limits) {
  std::vector<PlanItem> items;
  std::vector<std::size_t> job_of;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (!jobs[j][0]) continue;
    items.push_back(*jobs[j][0]);
    job_of.push_back(j);
  }
  const Plan plan = KnapsackPlanner(budget, limits).plan(items);
  Assignment assignment;
  assignment.device.resize(jobs.size());
  for (const std::size_t index : plan.chosen) assignment.device[job_of[index]] = 0;
  assignment.value = plan.value;
  assignment.upper_bound = plan.upper_bound;
  assignment.optimal = plan.optimal;
  return assignment;
}

}  // namespace

Assignment assign_sum(std::span<const PlanJob> jobs, std::int64_t budget, const PlanLimits& limits) {
  return assign_one(jobs, budget, limits);
}

}  // namespace perfpred
