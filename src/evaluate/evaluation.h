// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluate/metrics.h"

namespace perfpred {

/// Errors of predicted seconds per epoch and of the images a second that follow from them.
struct TimeMetrics {
  ErrorMetrics time;
  ErrorMetrics throughput;
};

/// @param seconds  predicted for the rows, which all have a time
[[nodiscard]] TimeMetrics time_metrics(std::span<const AggregateRow> rows, const std::vector<double>& seconds);

/// The rows that have a time.
[[nodiscard]] std::vector<AggregateRow> timed(std::span<const AggregateRow> rows);

/// How well predictions agree with measured rows. Rows without a time are left out.
struct Evaluation {
  TimeMetrics metrics;
  std::optional<double> coverage90;      ///< share of rows inside [p05, p95]; empty without rows
  std::optional<double> width90_median;  ///< of (p95 - p05) / p50
};

/// @throws Error if the sizes differ
[[nodiscard]] Evaluation evaluate(std::span<const AggregateRow> measured, std::span<const Prediction> predictions);

/// What the model expects of the rows. @throws InputError that names the row which cannot be predicted
[[nodiscard]] std::vector<Prediction> predict_rows(const TimeRegressor& model, std::span<const AggregateRow> rows);

/// How many rows with a time the model was fitted on.
[[nodiscard]] std::size_t rows_fitted_on(const TimeRegressor& model, std::span<const AggregateRow> rows);

/// How many rows with a time are outside the model's domain, by reason.
[[nodiscard]] std::map<std::string, std::size_t> rows_outside(std::span<const AggregateRow> measured,
                                                              std::span<const Prediction> predictions);

}  // namespace perfpred
