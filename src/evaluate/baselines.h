// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "evaluate/evaluation.h"

namespace perfpred {

/// What a baseline predicts for the scored rows.
struct BaselinePrediction {
  std::string name;
  std::vector<double> seconds;
};

struct NamedMetrics {
  std::string name;
  TimeMetrics metrics;
};

/// Trivial baselines: `mean` (of log time), `nearest_batch` (the line through the means of the two neighbouring batch
/// sizes, in logarithms; beyond the measured ones, the mean of the nearest), `linear` (the kind),
/// `throughput_linear` (images a second regressed directly). Baselines that cannot be fitted on the rows, or
/// cannot answer for all scored ones, are left out.
/// @param fitted_on, scored  rows with a time
[[nodiscard]] std::vector<BaselinePrediction> predict_baselines(std::span<const AggregateRow> fitted_on,
                                                                std::span<const AggregateRow> scored);

/// Their errors; rows without a time are left out.
[[nodiscard]] std::vector<NamedMetrics> evaluate_baselines(std::span<const AggregateRow> fitted_on,
                                                           std::span<const AggregateRow> scored);

}  // namespace perfpred
