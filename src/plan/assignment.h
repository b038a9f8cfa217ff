// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/knapsack_planner.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "plan/knapsack.h"

namespace perfpred {

/// A job with its cost and value on each device; empty where it cannot run.
using PlanJob = std::vector<std::optional<PlanItem>>;

using JobGroups = std::vector<std::optional<std::size_t>>;   ///< of each job, its group
using JobDevices = std::vector<std::optional<std::size_t>>;  ///< of each job, the device it is given to

/// Jobs for devices that each have a budget. Costs are positive, values >= 0 and finite.
struct AssignmentProblem {
  std::vector<PlanJob> jobs;
  std::vector<std::int64_t> budgets;  ///< of each device, >= 0
  JobGroups group;                    ///< at least one job of each group must be chosen
};

/// Where each job goes, and a bound on every other assignment. No job is placed unless found().
struct Assignment {
  JobDevices device;
  double value = 0;
  double upper_bound = 0;
  PlanStatus status = PlanStatus::unknown;

  [[nodiscard]] bool optimal() const { return status == PlanStatus::optimal; }
  /// True if each group has a job that is placed.
  [[nodiscard]] bool found() const { return optimal() || status == PlanStatus::feasible; }
};

constexpr std::int64_t max_cost = std::numeric_limits<std::int64_t>::max();

[[nodiscard]] constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return a > max_cost - b ? max_cost : a + b;
}

/// The budgets of all devices together.
[[nodiscard]] inline std::int64_t summed(std::span<const std::int64_t> budgets) {
  return std::accumulate(budgets.begin(), budgets.end(), std::int64_t{0}, saturated_sum);
}

/// True if a job of each group has a device.
[[nodiscard]] bool covers_groups(const JobGroups& group, const JobDevices& device);

/// What the cheapest job of each group costs, summed; 0 without groups.
[[nodiscard]] std::int64_t cheapest_cover(const AssignmentProblem& problem);

/// Sums an assignment again, from where its jobs are: its value becomes the sum of theirs, rounded once.
/// @throws Error if a job is where it cannot run, if a device's costs exceed its budget (`costs`), if a found one has
/// no
///         job of a group, or if the value is above the upper bound
void sum_again(const AssignmentProblem& problem, Assignment& assignment, bool costs = true);

/// How long a search on several devices goes on before it returns a bound.
struct PlanEffort {
  int rounds = 0;          ///< subgradient steps of the Lagrangian bound
  int restarts = 0;        ///< plans made from nothing, with random noise
  std::int64_t nodes = 0;  ///< of the branch and bound of a plan with a confidence
  double cut_sec = 0;      ///< seconds of branch and cut, if there is no time limit; 0: never
};
inline constexpr PlanEffort thorough = {1000, 3000, 3'000'000, 10};
inline constexpr PlanEffort brief = {200, 20, 20'000, 0};

/// The best sum of values with a job of each group, as sum_again() has it. One device: exact. Several: a knapsack over
/// the summed budget (alike devices) or a Lagrangian relaxation bounds it; re-solving one device at a time finds plans;
/// branch and cut, where it is registered, closes the gap of at most 500 jobs, to a relative 2e-9.
[[nodiscard]] Assignment assign(const AssignmentProblem& problem, const Limits& limits,
                                const PlanEffort& effort = thorough);

/// An assignment problem in whole units. Items that cost more than their device's budget are left out; groups are
/// numbered from 0.
struct WholeProblem {
  explicit WholeProblem(const AssignmentProblem& problem);

  /// The jobs that a device can run.
  [[nodiscard]] std::vector<Candidate> candidates_on(std::size_t device) const;
  /// What all jobs bring, each where it is worth most.
  [[nodiscard]] Int128 profit_of_all() const;

  ValueUnit unit;
  std::vector<std::vector<std::optional<Candidate>>> jobs;
  std::vector<std::int64_t> budgets;
  JobGroups group;
  std::size_t groups = 0;
};

/// Places of all jobs and their total profit; a negative profit stands for no plan.
struct Places {
  JobDevices device;
  Int128 profit = 0;
};

/// @param bound  on the profit of every plan; negative if there is proved to be no plan
[[nodiscard]] Assignment to_assignment(const WholeProblem& problem, const Places& places, Int128 bound);

/// The most profit on one device with a job of each group that a candidate belongs to. Profits are >= 0. If a limit is
/// met, the plan is a greedy one and the bound that of the knapsack without groups. Empty if the budget does not hold a
/// job of each group.
[[nodiscard]] std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group,
                                                std::int64_t budget, const Limits& limits);

/// assign() for two devices or more.
[[nodiscard]] Assignment assign_to_several(WholeProblem problem, const Limits& limits, const PlanEffort& effort);

}  // namespace perfpred
