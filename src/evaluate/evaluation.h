// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

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

/// Errors of predicted seconds per epoch and of the images a second that follow from them.
struct TimeMetrics {
  ErrorMetrics time;
  ErrorMetrics throughput;
};

struct NamedMetrics {
  std::string name;
  TimeMetrics metrics;
};

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

/// Trivial baselines: `mean` (of log time), `nearest_batch` (the line through the means of the two neighbouring batch
/// sizes, in logarithms; beyond the measured ones, the mean of the nearest), `linear` (the kind),
/// `throughput_linear` (images a second regressed directly). Baselines that cannot be fitted on the rows, or
/// cannot answer for all scored ones, are left out.
[[nodiscard]] std::vector<NamedMetrics> evaluate_baselines(std::span<const AggregateRow> fitted_on,
                                                           std::span<const AggregateRow> scored);

/// Rows to fit on, to choose a model by, and to test it with.
struct Split {
  std::vector<AggregateRow> train, val, test;
};

/// Drawn by the seed; the fractions are of all workloads, rounded; rows of one workload stay together. @throws
/// InputError if a fraction is not in [0, 1) or nothing is left to fit on
[[nodiscard]] Split split_rows(std::span<const AggregateRow> rows, double test_fraction, double val_fraction,
                               std::uint64_t seed);

/// From a table `key, split` or `depth, base_filters, batch_size, split`; rows that it does not name are left out.
/// @throws InputError for a split that is not train, val or test, for a row named twice, or if no row is for training
[[nodiscard]] Split read_split(const std::string& path, std::span<const AggregateRow> rows);

/// Random folds, or leave-one-group-out by architecture (network, depth and base_filters), depth, width, network.
enum class Protocol { kfold, loao, lodo, lowo, lono };

struct ProtocolOptions {
  int folds = 5;     ///< of kfold
  int repeats = 20;  ///< of kfold
  int own_rows = 0;  ///< of lono: workloads of the network that are fitted on and not scored, drawn by the seed
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: one for each usable CPU; the results do not depend on it
  std::stop_token stop{};
  std::function<void(std::size_t done, std::size_t all)> progress{};  ///< called from any thread, one at a time
};

struct FoldEvaluation {
  std::string left_out;  ///< `depth=5`, `repeat=3;fold=1`
  std::size_t n = 0;
  ErrorMetrics time;
  std::optional<double> coverage90;
};

/// Pooled over scored rows, averaged over repeats.
struct ProtocolEvaluation {
  Evaluation all;
  std::vector<NamedMetrics> baselines;
  std::vector<FoldEvaluation> folds;
  std::size_t seen = 0;                 ///< leaked rows, on which the model that scores them was fitted: 0
  std::vector<AggregateRow> scored;     ///< fold by fold; every repeat has every row once
  std::vector<Prediction> predictions;  ///< of those
};

/// Fits anew for every fold and scores what was left out. @throws InputError as TimeRegressor::fit, or if the rows do
/// not make two folds; Error if stopped
[[nodiscard]] ProtocolEvaluation evaluate_protocol(std::span<const AggregateRow> rows, Protocol protocol,
                                                   const FitOptions& fit, const ProtocolOptions& options = {});

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
