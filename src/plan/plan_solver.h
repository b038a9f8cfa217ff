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

[[nodiscard]] bool has_groups(const JobGroups& group);

/// True if a job of each group has a device.
[[nodiscard]] bool covers_groups(const JobGroups& group, const JobDevices& device);

/// What the cheapest job of each group costs, summed; 0 without groups.
[[nodiscard]] std::int64_t cheapest_cover(const AssignmentProblem& problem);

/// How long a search on several devices goes on before it returns a bound.
struct PlanEffort {
  int rounds = 0;          ///< subgradient steps of the Lagrangian bound
  int restarts = 0;        ///< plans made from nothing, with random noise
  int reductions = 0;      ///< passes that remove places that no better plan can use
  std::int64_t nodes = 0;  ///< of the search tree
  double cut_sec = 0;      ///< seconds of branch and cut, if there is no time limit; 0: never
};
inline constexpr PlanEffort thorough = {1000, 3000, 20, 3'000'000, 10};
inline constexpr PlanEffort brief = {200, 20, 0, 20'000, 0};

/// The best sum of values with a job of each group. One device: exact. Several: a knapsack over the summed budget
/// (alike devices) or a Lagrangian relaxation bounds it; packing and re-solving one device at a time finds plans. With
/// at most 500 jobs, places that no better plan can use are removed, and a search tree closes the gap, or branch and
/// cut where it is registered, whose proofs hold to a relative 2e-9.
/// @throws InputError for values of very different magnitudes, with several devices or groups
[[nodiscard]] Assignment assign(const AssignmentProblem& problem, const PlanLimits& limits,
                                const PlanEffort& effort = thorough);

}  // namespace perfpred
