// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/limits.h"

namespace perfpred {

__extension__ typedef __int128 Int128;

/// Of a number >= 0.
[[nodiscard]] inline int bits_of(Int128 value) {
  const auto high = static_cast<std::uint64_t>(value >> 64U);
  return static_cast<int>(high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value)));
}

/// A unit in which positive doubles are whole numbers: divisor * 2^exponent. Where their sum would exceed 118 bits in
/// the exact unit, the unit is larger and each value is rounded to less than one unit of it, but not to 0.
class ValueUnit {
 public:
  /// @param value  > 0, finite; all are added before one is converted
  void add(double value);

  /// Whether no value is rounded.
  [[nodiscard]] bool exact() const { return dropped_bits() == 0; }

  [[nodiscard]] Int128 whole(double value) const;

  [[nodiscard]] double nearest(Int128 profit) const;
  /// No sum of added values that is within this profit exceeds it.
  [[nodiscard]] double at_least(Int128 profit) const;
  /// Whether the values with this profit can have this sum, rounded once.
  [[nodiscard]] bool can_be(Int128 profit, double sum) const;

 private:
  [[nodiscard]] int dropped_bits() const;

  int lowest_ = std::numeric_limits<int>::max();   // exponent of the last bit of any value
  int highest_ = std::numeric_limits<int>::min();  // exponent after the first bit of any value
  std::int64_t divisor_ = 0;
  std::size_t count_ = 0;
};

/// The sum of numbers >= 0, rounded once; infinite if it is too large (J. R. Shewchuk, Discrete Comput. Geom. 18,
/// 1997).
[[nodiscard]] double rounded_sum(std::span<const double> numbers);

/// A job with its cost and its value in whole units.
struct Candidate {
  std::size_t job;
  std::int64_t cost;  ///< > 0
  Int128 profit;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// Whether a has more profit per cost than b; exact. Costs are > 0, profits >= 0.
[[nodiscard]] bool better_ratio(const Candidate& a, const Candidate& b);

/// The share room / cost of a candidate's profit, 0 <= room < cost, rounded down; exact.
[[nodiscard]] Int128 share_of(const Candidate& candidate, std::int64_t room);

/// Candidates chosen within a budget, and a bound on the profit of every other choice.
struct Chosen {
  std::vector<std::size_t> jobs;
  Int128 profit = 0;
  Int128 bound = 0;
};

/// The 0/1 knapsack: the most profit within a budget, as far as the limits allow. Candidates whose profit is not
/// positive, or that cost more than the budget, are left out. The sum of the profits has at most 118 bits.
/// @throws Error if the set does not have the profit that the search says, or does not keep the budget
[[nodiscard]] Chosen solve_knapsack(std::span<const Candidate> candidates, std::int64_t budget, const Limits& limits);

}  // namespace perfpred
