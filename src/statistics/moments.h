// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace perfpred {

/// An unevaluated sum of two doubles, about 106 bits (Dekker 1971; Knuth's two-sum).
struct DoubleDouble {
  double high = 0;
  double low = 0;

  void add(double x);
  void add(const DoubleDouble& x);
  void add_square(double x);
};

/// Number, mean and standard deviation of values that are added one by one or in parts. Sums in twice the precision of
/// a double make the result independent of their order to far below 1e-12, also if the values are nearly equal.
struct Moments {
  std::int64_t n = 0;
  DoubleDouble sum;
  DoubleDouble sum_of_squares;
  double min = 0;  ///< 0 without values
  double max = 0;

  void add(double x);
  void merge(const Moments& other);
  [[nodiscard]] double mean() const;       ///< n > 0
  [[nodiscard]] double deviation() const;  ///< of a sample: n - 1 in the denominator; 0 for one value; n > 0
};

}  // namespace perfpred
