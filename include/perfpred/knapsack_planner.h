// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <vector>

namespace perfpred {

/// One job: what it costs and what it is worth.
struct PlanItem {
  std::int64_t cost;  ///< whole units of the budget (the programs use seconds), > 0
  double value;       ///< >= 0, in any unit (accuracy, images/s, ...)
};

/// A set of jobs, and an upper bound on the value of every other set.
struct Plan {
  std::vector<std::size_t> chosen;  ///< indices into the items, ascending; a job worth 0 is never chosen
  std::int64_t cost = 0;            ///< sum of the chosen costs, <= budget
  double value = 0;                 ///< sum of the chosen values, rounded once
  double upper_bound = 0;           ///< no plan within the budget is worth more; equals value if optimal
  /// Proved in integers, without rounding: nothing better exists. False where 118 bits do not hold the sum of the
  /// values in one unit (values 1e18 apart with all their digits); value and upper_bound then differ by that rounding
  /// only.
  bool optimal = false;
};

/// How much is known of a plan. `infeasible`: there is provably none. `unknown`: the search stopped before it found a
/// plan or a proof.
enum class PlanStatus { optimal, feasible, infeasible, unknown };

/// When a search stops without a proof. It then returns the best plan so far and its upper bound.
struct PlanLimits {
  double time_sec = std::numeric_limits<double>::infinity();  ///< wall time, >= 0
  std::size_t memory_bytes = std::size_t{1} << 30U;           ///< for partial plans; the items come on top
  std::stop_token stop = {};                                  ///< a request to stop acts as if the time were up
};

/// Chooses jobs under a budget: the 0/1 knapsack problem, solved exactly. Values become whole numbers of 128
/// bits; see Plan::optimal.
///
/// Method: dynamic programming with dominance over a core that grows outwards from the break item (Pisinger, Oper. Res.
/// 45, 1997), surrogate relaxation with a bound on the number of jobs (Martello, Pisinger, Toth, Manag. Sci. 45, 1999).
/// Worst-case time and memory grow with the budget; see PlanLimits.
class PERFPRED_API KnapsackPlanner {
 public:
  /// @param budget  same units as the costs, >= 0; 0 gives the empty plan
  /// @throws InputError if budget < 0 or a limit is negative or not a number
  explicit KnapsackPlanner(std::int64_t budget, PlanLimits limits = {});

  /// Takes up to 2^32 - 2 items; may be called from several threads.
  /// @throws InputError if a cost is not positive or a value is negative or not finite; names the item
  [[nodiscard]] Plan plan(std::span<const PlanItem> items) const;

 private:
  std::int64_t budget_;
  PlanLimits limits_;
};

}  // namespace perfpred
