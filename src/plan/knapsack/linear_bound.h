// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "plan/knapsack/problem.h"

namespace perfpred::knapsack {

/// An upper bound on the share room / cost of a profit, 0 <= room < cost. Profits are whole, so it is rounded down.
template <class P>
P partial_profit(const P& profit, std::int64_t room, std::int64_t cost) {
  if constexpr (std::is_same_v<P, std::int64_t>) {
    return static_cast<P>(static_cast<Int128>(profit) * room / cost);
  } else {
    constexpr long double rounding = 1e-15L;  // more than three roundings of a long double
    const long double share = static_cast<long double>(room) / static_cast<long double>(cost);
    return static_cast<P>(static_cast<long double>(profit) * share * (1 + rounding));
  }
}

/// Dantzig's bound: items in order of falling profit per cost fill the room, the first that does not fit in part.
/// Running sums answer for any room and any first item by bisection.
template <class P>
class LinearBound {
 public:
  void add(const P& profit, std::int64_t cost) {
    profits_.push_back(profits_.back() + profit);
    costs_.push_back(costs_.back() + cost);
  }

  struct Filled {
    std::size_t end;    ///< the items from `first` to here fit
    P profit;           ///< of those
    std::int64_t room;  ///< what they leave
  };
  [[nodiscard]] Filled fill(std::size_t first, std::int64_t room) const {
    const auto after =
        std::upper_bound(costs_.begin() + static_cast<std::ptrdiff_t>(first), costs_.end(), costs_[first] + room);
    const auto end = static_cast<std::size_t>(after - costs_.begin() - 1);
    return {end, profits_[end] - profits_[first], static_cast<std::int64_t>(room - (costs_[end] - costs_[first]))};
  }

  /// What fits plus a part of the next item.
  [[nodiscard]] P bound(const Filled& filled) const {
    if (filled.end == size()) return filled.profit;
    return filled.profit + partial_profit<P>(profits_[filled.end + 1] - profits_[filled.end], filled.room,
                                             static_cast<std::int64_t>(costs_[filled.end + 1] - costs_[filled.end]));
  }

  [[nodiscard]] std::size_t size() const { return costs_.size() - 1; }

 private:
  std::vector<Int128> costs_ = {0};  // of the items before
  std::vector<P> profits_ = {0};
};

}  // namespace perfpred::knapsack
