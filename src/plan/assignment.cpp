// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.h"

#include <algorithm>
#include <map>

namespace perfpred {
namespace {

/// Whether every group has a job that fits a device alone.
bool can_cover(const WholeProblem& problem) {
  JobDevices anywhere(problem.jobs.size());
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const auto& job = problem.jobs[j];
    if (std::any_of(job.begin(), job.end(), [](const auto& item) { return item.has_value(); })) anywhere[j] = 0;
  }
  return covers_groups(problem.group, anywhere);
}

Assignment assign_to_one(const WholeProblem& problem, const Limits& limits) {
  Places places{JobDevices(problem.jobs.size()), -1};
  const std::vector<Candidate> candidates = problem.candidates_on(0);
  const auto chosen = solve_cover(candidates, problem.group, problem.budgets[0], limits);
  if (!chosen) return to_assignment(problem, places, -1);
  for (const std::size_t job : chosen->jobs) places.device[job] = 0;
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

void sum_again(const AssignmentProblem& problem, Assignment& assignment, bool costs) {
  std::vector<double> values;
  std::vector<std::int64_t> room = problem.budgets;
  bool holds = !assignment.found() || covers_groups(problem.group, assignment.device);
  for (std::size_t j = 0; j < assignment.device.size() && holds; ++j) {
    if (!assignment.device[j]) continue;
    const std::size_t d = *assignment.device[j];
    const auto& item = problem.jobs[j][d];
    holds = assignment.found() && item && (!costs || item->cost <= room[d]);
    if (!holds) break;
    room[d] -= costs ? item->cost : 0;
    values.push_back(item->value);
  }
  assignment.value = rounded_sum(values);
  if (assignment.optimal()) assignment.upper_bound = assignment.value;
  if (!holds || assignment.value > assignment.upper_bound) {
    throw Error("the planner failed: the plan that it found is not what its search says");
  }
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

WholeProblem::WholeProblem(const AssignmentProblem& problem) : budgets(problem.budgets), group(problem.group) {
  group.resize(problem.jobs.size());
  std::map<std::size_t, std::size_t> number;
  for (auto& one : group) {
    if (one) one = number.emplace(*one, number.size()).first->second;
  }
  groups = number.size();
  for (const PlanJob& job : problem.jobs) {
    for (std::size_t d = 0; d < job.size(); ++d) {
      if (job[d] && job[d]->value > 0 && job[d]->cost <= budgets[d]) unit.add(job[d]->value);
    }
  }
  jobs.resize(problem.jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const PlanJob& job = problem.jobs[j];
    jobs[j].resize(job.size());
    for (std::size_t d = 0; d < job.size(); ++d) {
      if (!job[d] || job[d]->cost > budgets[d]) continue;
      jobs[j][d] = Candidate{j, job[d]->cost, job[d]->value > 0 ? unit.whole(job[d]->value) : 0};
    }
  }
}

std::vector<Candidate> WholeProblem::candidates_on(std::size_t device) const {
  std::vector<Candidate> candidates;
  for (const auto& job : jobs) {
    if (job[device]) candidates.push_back(*job[device]);
  }
  return candidates;
}

Int128 WholeProblem::profit_of_all() const {
  Int128 all = 0;
  for (const auto& job : jobs) {
    Int128 most = 0;
    for (const auto& item : job) most = std::max(most, item ? item->profit : 0);
    all += most;
  }
  return all;
}

Assignment to_assignment(const WholeProblem& problem, const Places& places, Int128 bound) {
  Assignment assignment;
  if (places.profit < 0) {
    assignment.device.resize(problem.jobs.size());
    assignment.status = bound < 0 ? PlanStatus::infeasible : PlanStatus::unknown;
    assignment.upper_bound = problem.unit.at_least(std::max(bound, Int128{0}));
    return assignment;
  }
  if (bound < places.profit) throw Error("the planner failed: a plan is worth more than the bound on all plans");
  assignment.device = places.device;
  assignment.value = problem.unit.nearest(places.profit);
  assignment.status = bound <= places.profit && problem.unit.exact() ? PlanStatus::optimal : PlanStatus::feasible;
  assignment.upper_bound = assignment.optimal() ? assignment.value : problem.unit.at_least(bound);
  return assignment;
}

Assignment assign(const AssignmentProblem& problem, const Limits& limits, const PlanEffort& effort) {
  const WholeProblem whole(problem);
  Assignment found = [&] {
    if (!can_cover(whole)) return to_assignment(whole, {JobDevices(whole.jobs.size()), -1}, -1);
    return problem.budgets.size() == 1 ? assign_to_one(whole, limits) : assign_to_several(whole, limits, effort);
  }();
  const double said = found.value;
  sum_again(problem, found);
  if (whole.unit.exact() && said != found.value) {
    throw Error("the planner failed: its plan does not have the value that its search says");
  }
  return found;
}

}  // namespace perfpred
