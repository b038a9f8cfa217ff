// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace perfpred {

/// One job that may be run: what it costs and what it is worth.
struct PlanItem {
  std::int64_t cost;  ///< whole units of the budget (the programs use seconds), > 0
  double value;       ///< what it is worth, >= 0 (accuracy, images/s, ...)
};

/// A set of jobs and the proof that goes with it.
struct Plan {
  std::vector<std::size_t> chosen;  ///< indices into the items, ascending; a job worth 0 is never chosen
  std::int64_t cost = 0;            ///< sum of the chosen costs, <= budget
  double value = 0;                 ///< sum of the chosen values, rounded once
  double upper_bound = 0;           ///< no plan within the budget is worth more; equals value if optimal
  bool optimal = false;             ///< nothing better exists: proved, in exact arithmetic
};

/// When to stop without a proof. What was found until then is returned with its bound.
struct PlanLimits {
  double time_sec = std::numeric_limits<double>::infinity();  ///< wall time, >= 0
  std::size_t memory_bytes = std::size_t{1} << 30U;           ///< for partial plans kept at once; the items come on top
};

/// Chooses jobs under a budget: 0/1 knapsack, solved exactly. Values are taken as the doubles that they are: sums and
/// comparisons do not round.
///
/// Method: dynamic programming with dominance over a core that grows outwards from the break item (Pisinger, Oper. Res.
/// 45, 1997), surrogate relaxation with a bound on the number of jobs and completion of partial plans (Martello,
/// Pisinger, Toth, Manag. Sci. 45, 1999). Worst-case time and memory grow with the budget; see PlanLimits.
class PERFPRED_API KnapsackPlanner {
 public:
  /// @param budget  same units as the costs, >= 0; 0 gives the empty plan
  /// @throws InputError if budget < 0 or a limit is negative or not a number
  explicit KnapsackPlanner(std::int64_t budget, PlanLimits limits = {});

  /// Up to 2^32 - 2 items; thread-safe.
  /// @throws InputError if a cost is not positive or a value is negative or not finite; names the item
  [[nodiscard]] Plan plan(std::span<const PlanItem> items) const;

 private:
  std::int64_t budget_;
  PlanLimits limits_;
};

}  // namespace perfpred
