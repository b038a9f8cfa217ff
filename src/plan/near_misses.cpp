// SPDX-License-Identifier: Apache-2.0
#include "plan/near_misses.h"

#include <algorithm>
#include <optional>

namespace perfpred {
namespace {

/// The value of the best plan that holds this job on this device; empty if none was found.
std::optional<double> value_with(AssignmentProblem problem, std::size_t job, std::size_t device,
                                 const TimedRequest& request, const PlanLimits& limits) {
  PlanItem& item = *problem.jobs[job][device];
  if (request.objective == PlanObjective::best && request.confidence <= 0.5) return item.value;
  if (request.confidence > 0.5) {
    // An uncertain time does not leave a certain rest of the budget, so the run gets a value that outweighs all others.
    const double own = item.value;
    double all = 0;
    for (const PlanJob& other : problem.jobs) all += other[device]->value;
    item.value += all;
    const Assignment with = solve(problem, request, limits, brief);
    if (with.device[job] != device) return std::nullopt;
    item.value = own;
    double value = 0;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      if (const auto place = with.device[j]) value += problem.jobs[j][*place]->value;
    }
    return value;
  }
  const PlanItem taken = item;
  problem.budgets[device] -= taken.cost;
  problem.jobs[job].assign(problem.budgets.size(), std::nullopt);
  if (const auto covered = problem.group[job]) {
    for (auto& group : problem.group) {
      if (group == covered) group.reset();
    }
  }
  const Assignment rest = assign(problem, limits, brief);
  return rest.found() ? std::optional(taken.value + rest.value) : std::nullopt;
}

std::int64_t cost_of_all(std::span<const PlanJob> jobs) {
  std::int64_t total = 0;
  for (const PlanJob& job : jobs) {
    std::int64_t cost = 0;
    for (const auto& item : job) cost = std::max(cost, item ? item->cost : 0);
    total = saturated_sum(total, cost);
  }
  return total;
}

/// max_cost if there is no job.
std::int64_t cheapest(std::span<const PlanJob> jobs) {
  std::int64_t cost = max_cost;
  for (const PlanJob& job : jobs) {
    for (const auto& item : job) cost = std::min(cost, item ? item->cost : cost);
  }
  return cost;
}

/// A run outside the plan on the device where it ranks highest.
struct Left {
  std::size_t job;
  std::size_t device;
  double rank;
};

/// The jobs outside a plan, by falling value per cost, or by value where a plan is one run.
std::vector<Left> left_out(const AssignmentProblem& problem, const Assignment& plan, PlanObjective objective) {
  std::vector<Left> left;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (plan.device[j]) continue;
    std::optional<Left> option;
    for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
      const auto& item = problem.jobs[j][d];
      if (!item || item->cost > problem.budgets[d] || !(item->value > 0)) continue;
      const double per = objective == PlanObjective::best ? 1 : static_cast<double>(item->cost);
      if (!option || item->value / per > option->rank) option = Left{j, d, item->value / per};
    }
    if (option) left.push_back(*option);
  }
  std::stable_sort(left.begin(), left.end(), [](const Left& a, const Left& b) { return a.rank > b.rank; });
  return left;
}

}  // namespace

std::vector<PlannedRun> missed_runs(std::span<const PlanCandidate> candidates, const AssignmentProblem& problem,
                                    const Assignment& best, const TimedRequest& request, const Limits& limits) {
  constexpr std::size_t max_shown = 5;
  constexpr std::size_t max_solved = 40;
  std::vector<Left> left = left_out(problem, best, request.objective);
  if (left.size() > max_solved) left.resize(max_solved);
  std::vector<PlannedRun> missed;
  for (const Left& run : left) {
    const auto with = value_with(problem, run.job, run.device, request, limits.remaining());
    if (limits.expired()) return {};
    if (!with) continue;
    missed.push_back(planned(*candidates[run.job][run.device], run.device, request));
    missed.back().loss = std::max(0.0, best.value - *with);
  }
  std::stable_sort(missed.begin(), missed.end(),
                   [](const PlannedRun& a, const PlannedRun& b) { return a.loss < b.loss; });
  if (missed.size() > max_shown) missed.resize(max_shown);
  return missed;
}

std::vector<LargerBudget> larger_budgets(const AssignmentProblem& problem, double value, const TimedRequest& request,
                                         const Limits& limits) {
  std::vector<LargerBudget> values;
  const auto [smallest, largest] = std::minmax_element(problem.budgets.begin(), problem.budgets.end());
  const std::int64_t first_run = cheapest(problem.jobs);
  if (first_run == max_cost) return values;
  const std::int64_t enough = request.confidence > 0.5 ? max_cost : cost_of_all(problem.jobs);
  if (*smallest >= enough) return values;
  const std::int64_t max_extra = std::min(enough - *smallest, max_cost - *largest);
  const auto base = static_cast<double>(std::max(*largest, first_run));
  for (const double factor : {1.0, 1.05, 1.1, 1.25, 1.5, 2.0}) {
    const std::int64_t before = values.empty() ? 0 : values.back().extra_sec;
    const std::int64_t extra = std::min(max_extra, whole_seconds(base * factor) - *largest);
    if (extra <= before) continue;
    AssignmentProblem more = problem;
    for (std::int64_t& budget : more.budgets) budget += extra;
    const Assignment assignment = solve(more, request, limits.remaining(), brief);
    if (limits.expired()) break;
    // A plan for a smaller budget keeps this one, too.
    const double best = std::max(values.empty() ? value : values.back().value, assignment.value);
    values.push_back({extra, best, 60 * (best - value) / static_cast<double>(extra)});
  }
  return values;
}

}  // namespace perfpred
