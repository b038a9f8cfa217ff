// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "plan/knapsack/problem.h"
#include "plan/limits.h"

namespace perfpred::knapsack {

/// Solves a problem without fixed items as far as the limits allow. Starts from an empty incumbent.
/// @returns an upper bound on every solution's profit
template <class P>
P solve(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits);

extern template std::int64_t solve(Problem<std::int64_t>, Incumbent<std::int64_t>&, const Limits&);
extern template Int128 solve(Problem<Int128>, Incumbent<Int128>&, const Limits&);
extern template Wide solve(Problem<Wide>, Incumbent<Wide>&, const Limits&);

}  // namespace perfpred::knapsack
