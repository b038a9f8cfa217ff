// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/devices/exact_assignment.h"

namespace perfpred {

/// assign() for two devices or more.
[[nodiscard]] Assignment assign_to_several(WholeProblem problem, const Limits& limits, const PlanEffort& effort);

}  // namespace perfpred
