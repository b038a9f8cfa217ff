// SPDX-License-Identifier: Apache-2.0
#include "plan/devices/exact_assignment.h"

#include <perfpred/error.h>

#include "plan/knapsack/solve.h"

namespace perfpred {

WholeProblem::WholeProblem(const AssignmentProblem& problem) : budgets(problem.budgets), group(problem.group) {
  for (const PlanJob& job : problem.jobs) {
    for (const auto& item : job) {
      if (item && item->value > 0) unit.add(item->value);
    }
  }
  if (unit.sum_bits() > 118) {
    throw InputError("values of magnitudes as different as these can be planned for one device and their sum only");
  }
  group.resize(problem.jobs.size());
  jobs.reserve(problem.jobs.size());
  for (const PlanJob& job : problem.jobs) {
    auto& row = jobs.emplace_back(job.size());
    for (std::size_t d = 0; d < job.size(); ++d) {
      if (!job[d] || job[d]->cost > budgets[d]) continue;
      row[d] = WholeItem{job[d]->cost, job[d]->value > 0 ? unit.whole<Int128>(job[d]->value) : 0};
    }
  }
}

bool WholeProblem::can_cover() const {
  JobDevices anywhere(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (const auto& item : jobs[j]) {
      if (item) anywhere[j] = 0;
    }
  }
  return covers_groups(group, anywhere);
}

std::vector<Candidate> WholeProblem::candidates_on(std::size_t device) const {
  std::vector<Candidate> candidates;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto& item = jobs[j][device];
    if (item) candidates.push_back({j, item->cost, item->profit});
  }
  return candidates;
}

Assignment to_assignment(const WholeProblem& problem, const Places& places, Int128 bound) {
  Assignment assignment;
  if (places.profit < 0) {
    assignment.device.resize(problem.jobs.size());
    assignment.status = bound < 0 ? PlanStatus::infeasible : PlanStatus::unknown;
    assignment.upper_bound = problem.unit.value(std::max(bound, Int128{0}), true);
    return assignment;
  }
  assignment.device = places.device;
  assignment.value = problem.unit.value(places.profit);
  assignment.status = bound <= places.profit ? PlanStatus::optimal : PlanStatus::feasible;
  assignment.upper_bound = assignment.optimal() ? assignment.value : problem.unit.value(bound, true);
  return assignment;
}

Chosen knapsack_of(std::span<const Candidate> candidates, std::int64_t budget, const Limits& limits) {
  knapsack::Problem<Int128> problem;
  problem.capacity = budget;
  for (const Candidate& candidate : candidates) {
    if (candidate.cost > budget || candidate.profit <= 0) continue;
    problem.items.push_back({0, candidate.profit, candidate.cost, static_cast<std::uint32_t>(candidate.job)});
  }
  knapsack::Incumbent<Int128> incumbent;
  Chosen chosen;
  chosen.bound = knapsack::solve(std::move(problem), incumbent, limits);
  chosen.profit = incumbent.profit;
  chosen.jobs.assign(incumbent.chosen.begin(), incumbent.chosen.end());
  return chosen;
}

}  // namespace perfpred
