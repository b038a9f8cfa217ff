// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "plan/exact_assignment.h"

namespace perfpred {

/// What branch and cut finds above a given value.
struct CutAnswer {
  std::optional<JobDevices> device;  ///< the best plan above that value, if one was found
  double upper_bound = 0;            ///< of every plan, to a relative 1e-9; the given value if none is above it
};

/// CBC (COIN-OR's branch and cut) on an assignment problem, plans above `value` only, all if it is negative. `needed`
/// of each job: it must be chosen. Empty in a build without CBC, and if CBC ends without a bound.
[[nodiscard]] std::optional<CutAnswer> branch_and_cut(const WholeProblem& problem, const std::vector<bool>& needed,
                                                      double value, double seconds);

}  // namespace perfpred
