// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>

#include <algorithm>
#include <cmath>

#include "statistics/confidence.h"

namespace perfpred {

/// Quantiles of seconds, from the median of their logarithm and the half width of its 90 % interval. Both are clamped
/// so that the quantiles are finite and positive.
inline Quantiles quantiles_about(double log_median, double half_width) {
  constexpr double farthest = 350;  // e^700 is a double
  const double median = std::exp(std::clamp(log_median, -farthest, farthest));
  const double width = std::exp(std::min(half_width, farthest));
  return {median / width, median, median * width};
}

/// Standard deviation of the logarithm of a log-normal quantity with these quantiles.
inline double log_deviation(const Quantiles& q) { return std::log(q.p95 / q.p05) / (2 * z90); }

}  // namespace perfpred
