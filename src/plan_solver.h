#pragma once
#include <perfpred/export.h>
#include <perfpred/knapsack_planner.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perfpred {

/// A job with its cost and value on each device; empty where it cannot run.
using PlanJob = std::vector<std::optional<PlanItem>>;

/// Where each job goes, and the proof.
struct Assignment {
  std::vector<std::optional<std::size_t>> device;  ///< of each job; empty if it is not planned
  double value = 0;
  double upper_bound = 0;
  bool optimal = false;
};

/// The best sum of values with each device under the budget.
[[nodiscard]] PERFPRED_API Assignment assign_sum(std::span<const PlanJob> jobs, std::int64_t budget,
                                                 const PlanLimits& limits);

}  // namespace perfpred
