// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "evaluate/folds.h"

namespace perfpred {

/// One size of a learning curve.
struct CurvePoint {
  std::size_t rows = 0;   ///< fitted on: workloads, each with all its rows
  std::string selection;  ///< `random` subsets, or campaigns of `suggested` rows, grown step by step from nothing
  double mape_median = 0, mape_p90 = 0, coverage90 = 0;
};

/// Fits on few rows, scores all others.
/// @param subsets  of each size, and campaigns, each by a seed of its own
/// @throws InputError if a size is 0 or leaves no row to score; as evaluate_protocol
[[nodiscard]] std::vector<CurvePoint> evaluate_curve(std::span<const AggregateRow> rows,
                                                     std::span<const std::size_t> sizes, int subsets,
                                                     const FitOptions& fit, const ProtocolOptions& options = {});

}  // namespace perfpred
