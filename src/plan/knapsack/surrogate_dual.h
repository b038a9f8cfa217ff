// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/knapsack/problem.h"

namespace perfpred::knapsack {

/// The linear relaxation of a problem in its surrogate form, in floating point, as a function of the shift.
class SurrogateDual {
 public:
  template <class P>
  explicit SurrogateDual(const Problem<P>& problem) : capacity_(static_cast<double>(problem.capacity)) {
    entries_.reserve(problem.items.size());
    for (const Item<P>& item : problem.items) {
      entries_.push_back(
          {0, static_cast<double>(item.profit), static_cast<double>(item.weight), static_cast<double>(item.units)});
      heaviest_ = std::max(heaviest_, item.weight);
      units_ += item.units;
    }
  }

  [[nodiscard]] std::int64_t units() const { return units_; }

  /// Units in the relaxation without shift, rounded down.
  [[nodiscard]] std::int64_t relaxed_units() { return static_cast<std::int64_t>(relax(0, 0).units + 1e-9); }

  /// The whole number that gives about the lowest bound for solutions of at most (sign 1) or at least (sign -1)
  /// `cardinality` units. Any shift gives a valid bound.
  [[nodiscard]] std::int64_t best_shift(std::int64_t cardinality, int sign);

 private:
  struct Entry {
    double ratio;
    double profit;
    double weight;
    double units;
  };
  struct Sum {
    double value = 0;
    double units = 0;
  };
  [[nodiscard]] Sum relax(std::int64_t shift, std::int64_t cardinality);

  std::vector<Entry> entries_;
  double capacity_;
  std::int64_t heaviest_ = 0;
  std::int64_t units_ = 0;
};

}  // namespace perfpred::knapsack
