// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_candidates.h"

#include <algorithm>
#include <utility>

#include "plan/near_misses.h"

namespace perfpred {
namespace {

std::vector<PlannedRun> pareto_front(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  std::vector<PlannedRun> runs;
  for (const PlanCandidate& candidate : candidates) {
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (candidate[d]) runs.push_back(planned(*candidate[d], d, request));
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const PlannedRun& a, const PlannedRun& b) {
    return a.cost_sec != b.cost_sec ? a.cost_sec < b.cost_sec : a.value > b.value;
  });
  std::vector<PlannedRun> front;
  for (PlannedRun& run : runs) {
    if (front.empty() || run.value > front.back().value) front.push_back(std::move(run));
  }
  return front;
}

}  // namespace

RunPlan plan_candidates(std::span<const PlanCandidate> candidates, const TimedRequest& request) {
  check(request);
  check(candidates, request);
  const Limits limits(request.limits);
  const AssignmentProblem problem = to_problem(candidates, request);
  RunPlan plan;
  plan.candidates = candidates.size();
  plan.pareto = pareto_front(candidates, request);
  plan.cover_sec = cheapest_cover(problem);
  if (plan.cover_sec > summed(problem.budgets)) {
    plan.status = PlanStatus::infeasible;
    return plan;
  }
  const Assignment best = solve(problem, request, request.limits, thorough);
  plan.status = best.status;
  plan.value = best.value;
  plan.upper_bound = best.upper_bound;
  for (std::size_t d = 0; d < request.devices.size(); ++d) {
    std::int64_t start = 0;
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      if (best.device[j] != d) continue;
      PlannedRun run = planned(*candidates[j][d], d, request);
      run.start_sec = start;
      start += run.cost_sec;
      plan.runs.push_back(std::move(run));
    }
    plan.cost_sec += start;
  }
  // Without a proof of optimality, differences between plans would be noise of the heuristic.
  if (plan.status == PlanStatus::optimal) {
    plan.missed = missed_runs(candidates, problem, best, request, limits);
    if (plan.runs.size() < candidates.size()) {
      plan.marginal = larger_budgets(problem, best.value, request, limits);
    }
  }
  return plan;
}

}  // namespace perfpred
