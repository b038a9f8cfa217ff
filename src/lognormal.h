#pragma once
#include <perfpred/prediction.h>

#include <cmath>

#include "confidence.h"

namespace perfpred {

/// Seconds whose logarithm has this median and a 90 % interval of `half_width` to either side.
inline Quantiles quantiles_about(double log_median, double half_width) {
  const double median = std::exp(log_median);
  const double width = std::exp(half_width);
  return {median / width, median, median * width};
}

/// Standard deviation of the logarithm of what has these quantiles, if it is log-normal.
inline double log_deviation(const Quantiles& q) { return std::log(q.p95 / q.p05) / (2 * z90); }

}  // namespace perfpred
