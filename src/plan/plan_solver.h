// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
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

/// Jobs for several devices, each with a budget of its own. Costs are positive, values >= 0 and finite.
struct AssignmentProblem {
  std::vector<PlanJob> jobs;
  std::vector<std::int64_t> budgets;  ///< of each device, >= 0
  JobGroups group;                    ///< at least one job of each group must be chosen
};

/// Where each job goes, and the proof.
struct Assignment {
  JobDevices device;
  double value = 0;
  double upper_bound = 0;
  bool optimal = false;
  bool covers = true;  ///< false if no plan was found that holds a job of each group; then none is chosen
};

constexpr std::int64_t most_cost = std::numeric_limits<std::int64_t>::max();

[[nodiscard]] constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return a > most_cost - b ? most_cost : a + b;
}

/// The budgets of all devices together.
[[nodiscard]] inline std::int64_t summed(std::span<const std::int64_t> budgets) {
  return std::accumulate(budgets.begin(), budgets.end(), std::int64_t{0}, saturated_sum);
}

[[nodiscard]] PERFPRED_API bool has_groups(const JobGroups& group);

/// True if a job of each group has a device.
[[nodiscard]] PERFPRED_API bool covers_groups(const JobGroups& group, const JobDevices& device);

/// What one job of each group costs at least; 0 without groups.
[[nodiscard]] PERFPRED_API std::int64_t least_cover(const AssignmentProblem& problem);

/// How far a search on several devices goes before it settles for a bound.
struct PlanEffort {
  int rounds = 0;          ///< of the Lagrangian bound
  int restarts = 0;        ///< plans made from nothing
  int reductions = 0;      ///< passes that take away places
  std::int64_t nodes = 0;  ///< of the search tree
  double cut_sec = 0;      ///< seconds of branch and cut by CBC, if there is no time limit; 0: never
};
inline constexpr PlanEffort thorough = {1000, 3000, 20, 3'000'000, 10};
inline constexpr PlanEffort brief = {200, 20, 0, 20'000, 0};

/// The best sum of values with a job of each group. One device: exact. Several: a knapsack over the summed budget
/// (alike devices) or a Lagrangian relaxation bounds it; packing and re-solving one device at a time finds plans. Among
/// at most 500 jobs, places that no better plan has are taken away, and a search tree closes what gap is left, or
/// branch and cut, where the build has CBC, whose proofs hold to a relative 2e-9.
/// @throws InputError for values of very different magnitudes, with several devices or groups
[[nodiscard]] PERFPRED_API Assignment assign(const AssignmentProblem& problem, const PlanLimits& limits,
                                             const PlanEffort& effort = thorough);

}  // namespace perfpred
