// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <span>

namespace perfpred {

/// How far predictions are from measurements.
struct ErrorMetrics {
  std::size_t n = 0;
  std::optional<double> mae;   ///< mean |predicted - measured|; empty, as the others, if n is 0
  std::optional<double> rmse;  ///< root of the mean square
  std::optional<double> r2;    ///< 1 - squares about the prediction / squares about the mean; empty if all are equal
  std::optional<double> mape;  ///< mean |predicted / measured - 1|, a fraction
};

/// @throws Error if the sizes differ; InputError if a measurement is 0 or a value is not finite
[[nodiscard]] ErrorMetrics error_metrics(std::span<const double> measured, std::span<const double> predicted);

}  // namespace perfpred
