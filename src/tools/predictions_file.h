// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/answer.h>
#include <perfpred/prediction.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/workload_sweep.h"

namespace perfpred {

/// Writes predictions.csv: the workload's fields, the quantiles of seconds per epoch and images/s, in_domain, reason,
/// provenance and error, then step, tokens/s, memory, verdict, total, price and the epochs that fit a budget, empty
/// where an answer has none. What is not known of a captured step stays empty. A row without an
/// answer has its error.
/// @throws Error if the sizes differ or the disk refuses, InputError if no file can be made there
void write_predictions(const std::string& path, std::span<const AskedRow> rows,
                       std::span<const std::optional<Answer>> answers);

/// The same up to provenance of measured rows, with measured_time_sec, measured_images_per_sec and time_error, empty
/// where a row has no time.
void write_predictions(const std::string& path, std::span<const AggregateRow> measured,
                       std::span<const Prediction> predictions);

/// (predicted - measured) / measured time; empty for a row without a time.
[[nodiscard]] std::optional<double> time_error(const AggregateRow& measured, const Prediction& prediction);

/// The error of each measured row, a line each, for people.
[[nodiscard]] std::string errors_text(std::span<const AggregateRow> measured, std::span<const Prediction> predictions);

/// One row of predictions.csv.
struct PredictionRow {
  Workload workload;
  Quantiles time_sec, images_per_sec;  ///< per epoch; rising and > 0
  bool in_domain = true;
  std::optional<double> measured_time_sec, measured_images_per_sec;
};

/// All rows of a predictions.csv but those with an error, with or without the measured columns.
/// @throws InputError, `file:line: ...`, for a file that cannot be read, lacks a column, has no row or a row that is
/// no prediction
[[nodiscard]] std::vector<PredictionRow> read_predictions(const std::string& path);

/// The rows of these networks, by any of their names; of none: all. @throws InputError if there is no such row
[[nodiscard]] std::vector<PredictionRow> of_networks(std::vector<PredictionRow> rows,
                                                     const std::vector<std::string>& networks);

}  // namespace perfpred
