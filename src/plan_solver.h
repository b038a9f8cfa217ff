#pragma once
#include <perfpred/export.h>
#include <perfpred/knapsack_planner.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace perfpred {

/// A job with its cost and value on each device; empty where it cannot run.
using PlanJob = std::vector<std::optional<PlanItem>>;

/// Jobs for several devices, each with a budget of its own. Costs are positive, values >= 0 and finite.
struct AssignmentProblem {
  std::vector<PlanJob> jobs;
  std::vector<std::int64_t> budgets;              ///< of each device, >= 0
  std::vector<std::optional<std::size_t>> group;  ///< of each job: at least one job of each group must be chosen
};

/// Where each job goes, and the proof.
struct Assignment {
  std::vector<std::optional<std::size_t>> device;  ///< of each job; empty if it is not chosen
  double value = 0;
  double upper_bound = 0;
  bool optimal = false;
};

/// What one job of each group costs at least; 0 without groups.
[[nodiscard]] PERFPRED_API std::int64_t least_cover(const AssignmentProblem& problem);

/// The best sum of values. One device: exact. Several: a knapsack over the summed budget (alike devices) or a
/// Lagrangian relaxation bounds it, packing and re-solving one device at a time finds plans, and branch and bound
/// closes what gap is left if the problem is small and the tree has at most `most_nodes`. Groups: one device, whose
/// budget must hold least_cover().
[[nodiscard]] PERFPRED_API Assignment assign(const AssignmentProblem& problem, const PlanLimits& limits,
                                             std::int64_t most_nodes = 3'000'000);

}  // namespace perfpred
