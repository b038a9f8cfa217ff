// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instances of the 0/1 knapsack problem as the literature tests solvers with them; for tests and benchmarks.
// The first eight classes and their parameters: S. Martello, D. Pisinger, P. Toth, Manag. Sci. 45 (1999);
// the last four: D. Pisinger, Where are the hard knapsack problems?, Comput. Oper. Res. 32 (2005).
#include <perfpred/knapsack_planner.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace perfpred::testing {

enum class KnapsackClass {
  uncorrelated,
  weakly_correlated,
  strongly_correlated,
  inverse_strongly_correlated,
  almost_strongly_correlated,
  subset_sum,
  even_odd,
  similar_weights,
  spanner,
  multiple_strongly_correlated,
  profit_ceiling,
  circle,
};

inline constexpr std::array knapsack_classes = {
    KnapsackClass::uncorrelated,
    KnapsackClass::weakly_correlated,
    KnapsackClass::strongly_correlated,
    KnapsackClass::inverse_strongly_correlated,
    KnapsackClass::almost_strongly_correlated,
    KnapsackClass::subset_sum,
    KnapsackClass::even_odd,
    KnapsackClass::similar_weights,
    KnapsackClass::spanner,
    KnapsackClass::multiple_strongly_correlated,
    KnapsackClass::profit_ceiling,
    KnapsackClass::circle,
};

inline std::string_view name(KnapsackClass kind) {
  constexpr std::array<std::string_view, knapsack_classes.size()> names = {
      "uncorrelated", "weakly",          "strongly", "inverse_strongly",  "almost_strongly", "subset_sum",
      "even_odd",     "similar_weights", "spanner",  "multiple_strongly", "profit_ceiling",  "circle"};
  return names[static_cast<std::size_t>(kind)];
}

struct KnapsackInstance {
  std::vector<PlanItem> items;
  std::int64_t budget = 0;
};

/// Instance `number` of a series of `series`: the budget is number/(series + 1) of the sum of the costs.
/// @param range  largest cost (coefficients of the correlated classes scale with it)
inline KnapsackInstance make_instance(KnapsackClass kind, std::size_t n, std::int64_t range, std::uint64_t seed,
                                      int number = 50, int series = 100) {
  std::mt19937_64 random(seed);
  const auto uniform = [&random](std::int64_t low, std::int64_t high) {
    // Not std::uniform_int_distribution: its results differ between standard libraries.
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  KnapsackInstance instance;
  instance.items.reserve(n);
  const auto add = [&](std::int64_t cost, std::int64_t value) {
    instance.items.push_back({std::max<std::int64_t>(1, cost), static_cast<double>(std::max<std::int64_t>(1, value))});
  };
  std::array<std::array<std::int64_t, 2>, 2>
      base{};  // of the spanner class: two (cost, value) pairs, weakly correlated
  constexpr std::int64_t multiplier = 10;
  for (auto& pair : base) {
    const std::int64_t cost = uniform(1, range);
    const std::int64_t value = std::max<std::int64_t>(1, uniform(cost - range / 10, cost + range / 10));
    pair = {std::max<std::int64_t>(1, 2 * cost / multiplier), std::max<std::int64_t>(1, 2 * value / multiplier)};
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t cost = uniform(1, range);
    switch (kind) {
      case KnapsackClass::uncorrelated:
        add(cost, uniform(1, range));
        break;
      case KnapsackClass::weakly_correlated:
        add(cost, uniform(cost - range / 10, cost + range / 10));
        break;
      case KnapsackClass::strongly_correlated:
        add(cost, cost + range / 10);
        break;
      case KnapsackClass::inverse_strongly_correlated:
        add(cost + range / 10, cost);
        break;
      case KnapsackClass::almost_strongly_correlated:
        add(cost, uniform(cost + range / 10 - range / 500, cost + range / 10 + range / 500));
        break;
      case KnapsackClass::subset_sum:
        add(cost, cost);
        break;
      case KnapsackClass::even_odd: {
        const std::int64_t even = std::max<std::int64_t>(2, cost / 2 * 2);
        add(even, even + range / 10);
        break;
      }
      case KnapsackClass::similar_weights:
        add(uniform(100 * range, 100 * range + range / 10), uniform(1, range));
        break;
      case KnapsackClass::spanner: {
        const auto& pair = base[static_cast<std::size_t>(uniform(0, 1))];
        const std::int64_t multiple = uniform(1, multiplier);
        add(multiple * pair[0], multiple * pair[1]);
        break;
      }
      case KnapsackClass::multiple_strongly_correlated:
        add(cost, cost + (cost % 6 == 0 ? 3 * range / 10 : 2 * range / 10));
        break;
      case KnapsackClass::profit_ceiling:
        add(cost, 3 * ((cost + 2) / 3));
        break;
      case KnapsackClass::circle: {
        const auto radius = static_cast<double>(2 * range);
        const double distance = static_cast<double>(cost) - radius;
        add(cost, static_cast<std::int64_t>(2.0 / 3.0 * std::sqrt(radius * radius - distance * distance)));
        break;
      }
    }
  }
  std::int64_t total = 0;
  for (const PlanItem& item : instance.items) total += item.cost;
  instance.budget = static_cast<std::int64_t>(static_cast<double>(total) * number / (series + 1));
  if (kind == KnapsackClass::even_odd) instance.budget |= 1;
  return instance;
}

}  // namespace perfpred::testing
