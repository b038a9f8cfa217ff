// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "plan/devices/exact_assignment.h"

namespace perfpred {

/// Lagrange multipliers of an assignment problem, all >= 0.
struct Multipliers {
  std::vector<Int128> price;  ///< of each job, for being placed at most once
  std::vector<Int128> bonus;  ///< of each group, for being placed at least once; empty without groups

  /// What a job costs the relaxed problem wherever it goes.
  [[nodiscard]] Int128 of(const WholeProblem& problem, std::size_t job) const {
    return price[job] - (problem.group[job] ? bonus[*problem.group[job]] : 0);
  }
};

/// Depth-first branch and bound on the places of all jobs. Devices that are alike: Dantzig's bound over the summed
/// room. Others: that of each device by profits less the prices, plus the prices.
/// @param needed     of each job: whether every better plan contains it
/// @param best       improved where a better plan is found
/// @param bound      on the profit; the search ends where the best plan reaches it
/// @param max_nodes  the search gives up when the tree is larger
/// @returns whether no plan is better than `best`
[[nodiscard]] bool search_assignment_tree(const WholeProblem& problem, bool alike, const Multipliers& multipliers,
                                          const std::vector<bool>& needed, Places& best, Int128 bound,
                                          std::int64_t max_nodes, const Limits& limits);

}  // namespace perfpred
