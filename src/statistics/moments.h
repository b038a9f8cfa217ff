// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace perfpred {

/// Number, mean and standard deviation of values that are added one by one (Welford 1962, Technometrics 4:419) or in
/// parts (Chan, Golub, LeVeque 1983, The American Statistician 37:242). All is counted from the first value, as the
/// latter advise, so that nearly equal values keep their digits.
class Moments {
 public:
  std::int64_t n = 0;
  double min = 0;  ///< 0 without values
  double max = 0;

  void add(double x);
  void merge(const Moments& other);
  [[nodiscard]] double mean() const;       ///< n > 0
  [[nodiscard]] double deviation() const;  ///< of a sample: n - 1 in the denominator; 0 for one value; n > 0

 private:
  double first_ = 0;
  double mean_ = 0;     // of the differences from first_
  double squares_ = 0;  // sum of the squared deviations from the mean
};

}  // namespace perfpred
