// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "plan/request_problem.h"

namespace perfpred {

/// The best set of candidates, and what lies near it. @throws InputError as plan_runs
[[nodiscard]] RunPlan plan_candidates(std::span<const PlanCandidate> candidates, const TimedRequest& request);

}  // namespace perfpred
