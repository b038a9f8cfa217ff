// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace perfpred {

/// Median: of an even number of values the mean of the two in the middle. `values` must not be empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

/// Quantile by nearest rank, which is always one of the values: the smallest value that at least the fraction `share`
/// of the values does not exceed (type 1 of Hyndman and Fan, The American Statistician 50, 1996).
/// @param values  not empty
/// @param share   0 to 1
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  const double rank = std::ceil(share * static_cast<double>(values.size()));  // from 1
  const auto place = static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

}  // namespace perfpred
