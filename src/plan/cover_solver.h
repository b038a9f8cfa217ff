// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "plan/devices/exact_assignment.h"

namespace perfpred {

/// The most profit on one device with a job of each group that a candidate belongs to. Profits are >= 0. If a limit is
/// met, the plan is a greedy one and the bound that of the knapsack without groups. Empty if the budget does not hold a
/// job of each group.
[[nodiscard]] std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group,
                                                std::int64_t budget, const Limits& limits);

}  // namespace perfpred
