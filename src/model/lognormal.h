// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/prediction.h>

#include <algorithm>
#include <cmath>

#include "statistics/confidence.h"

namespace perfpred {

/// Quantiles of seconds, from the median of their logarithm and the half width of its 90 % interval. Both are clamped
/// so that the quantiles are finite and positive. @throws ModelError if one is not a number, as of a damaged model
inline Quantiles quantiles_about(double log_median, double half_width) {
  constexpr double farthest = 350;  // e^700 is a double
  if (std::isnan(log_median + half_width)) throw ModelError("the model is damaged: it gives no time for this workload");
  const double median = std::exp(std::clamp(log_median, -farthest, farthest));
  const double width = std::exp(std::min(half_width, farthest));
  return {median / width, median, median * width};
}

/// Half width of the interval of log time where no measurement bounds how much slower a workload is.
inline const double foreign_half_width = std::log(3.0);

/// With a half width of the interval of log time that is at least `least`.
inline Quantiles widened(Quantiles quantiles, double least) {
  quantiles.p05 = std::min(quantiles.p05, quantiles.p50 * std::exp(-least));
  quantiles.p95 = std::max(quantiles.p95, quantiles.p50 * std::exp(least));
  return quantiles;
}

/// Whether a value lies in the 90 % interval.
inline bool covers(const Quantiles& q, double value) { return q.p05 <= value && value <= q.p95; }

/// Half width of the 90 % interval of the logarithm.
inline double half_width(const Quantiles& q) { return std::log(q.p95 / q.p05) / 2; }

/// Standard deviation of the logarithm of a log-normal quantity with these quantiles.
inline double log_deviation(const Quantiles& q) { return half_width(q) / z90; }

}  // namespace perfpred
