// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "plan/exact_assignment.h"

namespace perfpred {

/// The most profit on one device with a job of each group that a candidate belongs to. Profits are >= 0. Empty if the
/// budget does not hold a job of each.
[[nodiscard]] std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group,
                                                std::int64_t budget, const knapsack::Limits& limits);

}  // namespace perfpred
