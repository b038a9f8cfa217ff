// SPDX-License-Identifier: Apache-2.0
#include "evaluate/metrics.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace perfpred {

ErrorMetrics error_metrics(std::span<const double> measured, std::span<const double> predicted) {
  if (measured.size() != predicted.size()) throw Error("error_metrics: as many predictions as measurements are needed");
  ErrorMetrics metrics;
  metrics.n = measured.size();
  if (metrics.n == 0) return metrics;
  const auto n = static_cast<double>(metrics.n);
  const double mean = std::accumulate(measured.begin(), measured.end(), 0.0) / n;
  double absolute = 0, square = 0, relative = 0, spread = 0;
  for (std::size_t i = 0; i < metrics.n; ++i) {
    if (!std::isfinite(measured[i]) || !std::isfinite(predicted[i]) || measured[i] == 0) {
      throw InputError("metrics take finite values and measurements that are not 0");
    }
    const double error = predicted[i] - measured[i];
    absolute += std::abs(error);
    square += error * error;
    relative += std::abs(error / measured[i]);
    spread += (measured[i] - mean) * (measured[i] - mean);
  }
  metrics.mae = absolute / n;
  metrics.rmse = std::sqrt(square / n);
  metrics.mape = relative / n;
  const auto [low, high] = std::minmax_element(measured.begin(), measured.end());
  if (*low < *high) metrics.r2 = 1 - square / spread;
  return metrics;
}

}  // namespace perfpred
