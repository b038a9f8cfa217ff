// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <optional>
#include <vector>

#include "plan/assignment.h"

namespace perfpred {

/// What branch and cut finds above a given value.
struct CutAnswer {
  std::optional<JobDevices> device;  ///< the best plan above that value, if one was found
  double upper_bound = 0;            ///< of every plan, to a relative 1e-9; the given value if no plan is above it
  bool infeasible = false;           ///< no plan is above the given value
};

/// Solves an assignment problem for plans above `value` only, for all if it is negative. Empty if the solver ends
/// without a bound.
using BranchAndCut = std::optional<CutAnswer> (*)(const WholeProblem& problem, double value, double seconds);

/// Registers a solver. Without one, plans for several devices keep the gaps that are left.
PERFPRED_API void set_branch_and_cut(BranchAndCut solver);
[[nodiscard]] PERFPRED_API BranchAndCut branch_and_cut();  ///< null if no solver is registered

}  // namespace perfpred
