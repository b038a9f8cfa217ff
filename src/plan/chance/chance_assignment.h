// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

#include "plan/assignment.h"
#include "plan/chance/chance_problem.h"

namespace perfpred {

/// Runs of uncertain length on several devices, each of which keeps its own budget, with a run of each group. The
/// tangents of all devices make an assignment problem whose bound holds here too; its plans are repaired and then each
/// device is solved again. Runs worth 0 are placed for their group only.
/// @param problems    one for each device, or one for all devices if they differ in the budget only
/// @param budgets     seconds, > 0, of each device; they replace those of the problems
/// @param max_nodes   of the branch and bound of each device
[[nodiscard]] Assignment assign_chance(std::span<const ChanceProblem> problems, std::span<const double> budgets,
                                       const JobGroups& group, const PlanLimits& limits, std::int64_t max_nodes);

}  // namespace perfpred
