// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/multiprecision/cpp_int.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace perfpred::knapsack {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

/// Holds any sum of 2^32 doubles in units of the smallest, times a weight.
using Wide = boost::multiprecision::number<
    boost::multiprecision::cpp_int_backend<2304, 2304, boost::multiprecision::signed_magnitude,
                                           boost::multiprecision::unchecked, void>,
    boost::multiprecision::et_off>;

/// Bits of a number >= 0.
template <class P>
int bit_width(const P& value) {
  if constexpr (std::is_same_v<P, Wide>) {
    return value == 0 ? 0 : static_cast<int>(msb(value)) + 1;
  } else {
    int bits = 0;
    for (auto rest = static_cast<Uint128>(value); rest != 0; rest >>= 1U) ++bits;
    return bits;
  }
}

template <class P>
P common_divisor(P a, P b) {
  while (b != 0) a = std::exchange(b, static_cast<P>(a % b));
  return a;
}

/// Sign of a/wa - b/wb for a, b >= 0 and wa, wb > 0, exactly.
template <class P>
int compare_ratios(const P& a, std::int64_t wa, const P& b, std::int64_t wb) {
  using Narrow = std::conditional_t<std::is_same_v<P, std::int64_t>, Int128, boost::multiprecision::int256_t>;
  using Product = std::conditional_t<std::is_same_v<P, Wide>, Wide, Narrow>;
  const Product left = Product(a) * wb;
  const Product right = Product(b) * wa;
  return left < right ? -1 : left > right ? 1 : 0;
}

/// An item of the integer problem. `ratio` approximates profit per (surrogate) weight.
template <class P>
struct Item {
  double ratio;
  P profit;
  std::int64_t weight;     ///< 0 < weight <= capacity
  std::uint32_t index;     ///< the caller's
  std::int32_t units = 1;  ///< what the surrogate relaxation counts
};

/// The best solution so far; all stages of a search share it.
template <class P>
struct Incumbent {
  P profit = 0;
  std::vector<std::uint32_t> chosen;
};

/// Max profit with sum of weights <= capacity, plus what is already decided. The surrogate form adds `shift` to each
/// weight per unit and shift * cardinality to the capacity: valid for solutions of at most (shift > 0) or at least
/// (shift < 0) `cardinality` units.
template <class P>
struct Problem {
  std::vector<Item<P>> items;
  std::int64_t capacity = 0;
  P fixed_profit = 0;
  std::vector<std::uint32_t> fixed;  ///< items that every better solution holds
  std::int64_t shift = 0;
  std::int64_t cardinality = 0;
};

}  // namespace perfpred::knapsack
