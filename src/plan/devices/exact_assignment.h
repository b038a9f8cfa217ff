// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/knapsack/exact_values.h"
#include "plan/limits.h"
#include "plan/plan_solver.h"

namespace perfpred {

using knapsack::Int128;

/// One job on one device, in whole units.
struct WholeItem {
  std::int64_t cost;
  Int128 profit;
  friend bool operator==(const WholeItem&, const WholeItem&) = default;
};

struct Candidate {
  std::size_t job;
  std::int64_t cost;
  Int128 profit;
};

/// An assignment problem in exact arithmetic. Items that cost more than their device's budget are left out.
struct WholeProblem {
  /// @throws InputError if no common unit of the values makes their sum fit
  explicit WholeProblem(const AssignmentProblem& problem);

  /// True if every group has a job that fits a device alone.
  [[nodiscard]] bool can_cover() const;

  /// The jobs that a device can run.
  [[nodiscard]] std::vector<Candidate> candidates_on(std::size_t device) const;

  knapsack::ValueUnit unit;
  std::vector<std::vector<std::optional<WholeItem>>> jobs;
  std::vector<std::int64_t> budgets;
  JobGroups group;
};

/// Places of all jobs and their total profit; a negative profit stands for no plan.
struct Places {
  JobDevices device;
  Int128 profit = 0;
};

/// @param bound  on the profit of every plan; negative if there is proved to be no plan
[[nodiscard]] Assignment to_assignment(const WholeProblem& problem, const Places& places, Int128 bound);

[[nodiscard]] inline bool better_ratio(const Candidate& a, const Candidate& b) {
  return knapsack::compare_ratios(a.profit, a.cost, b.profit, b.cost) > 0;
}

/// Candidates chosen for one device, and the bound on their profit.
struct Chosen {
  std::vector<std::size_t> jobs;
  Int128 profit = 0;
  Int128 bound = 0;
};

[[nodiscard]] Chosen knapsack_of(std::span<const Candidate> candidates, std::int64_t budget, const Limits& limits);

}  // namespace perfpred
