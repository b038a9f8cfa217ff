// SPDX-License-Identifier: Apache-2.0
#include "evaluate/baselines.h"

#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/kinds/features.h"

namespace perfpred {
namespace {

double images_per_sec(const AggregateRow& row) {
  return ThroughputDeriver(row.workload.train_images).derive(*row.avg_time_mean);
}

bool same_architecture(const Workload& a, const Workload& b) { return a.network == b.network && a.input == b.input; }

double nearest_batch_log_time(std::span<const AggregateRow> rows, const Workload& asked) {
  std::map<double, std::pair<double, double>> by_batch;  // log batch -> sum of log time, count
  const bool known = std::any_of(rows.begin(), rows.end(),
                                 [&](const AggregateRow& row) { return same_architecture(row.workload, asked); });
  for (const AggregateRow& row : rows) {
    if (known && !same_architecture(row.workload, asked)) continue;
    auto& [sum, count] = by_batch[std::log(static_cast<double>(row.workload.batch_size))];
    sum += std::log(*row.avg_time_mean);
    count += 1;
  }
  const double x = std::log(static_cast<double>(asked.batch_size));
  const auto mean = [](const auto& entry) { return entry.second.first / entry.second.second; };
  const auto above = by_batch.lower_bound(x);
  if (above == by_batch.end()) return mean(*std::prev(above));
  if (above == by_batch.begin() || above->first == x) return mean(*above);
  const auto below = std::prev(above);
  const double weight = (x - below->first) / (above->first - below->first);
  return (1 - weight) * mean(*below) + weight * mean(*above);
}

}  // namespace

std::vector<BaselinePrediction> predict_baselines(std::span<const AggregateRow> fitted_on,
                                                  std::span<const AggregateRow> scored) {
  std::vector<BaselinePrediction> all;
  if (fitted_on.empty()) return all;
  const auto add = [&](const char* name, const auto& seconds_of) {
    BaselinePrediction baseline{name, {}};
    for (const AggregateRow& row : scored) baseline.seconds.push_back(seconds_of(row.workload));
    all.push_back(std::move(baseline));
  };
  add("mean", [mean = log_times(fitted_on).mean()](const Workload&) { return std::exp(mean); });
  add("nearest_batch", [&](const Workload& asked) { return std::exp(nearest_batch_log_time(fitted_on, asked)); });
  try {
    const TimeRegressor linear = TimeRegressor::fit(fitted_on, {.kind = "linear", .seed = 0});
    add("linear", [&](const Workload& asked) {
      const Prediction answer = linear.predict(asked);
      if (answer.provenance != Provenance::runs) throw InputError("the op model answers");
      return answer.time_sec.p50;
    });

    const Eigen::MatrixXd features = feature_matrix(fitted_on);
    const Standardizer standardize(features);
    Eigen::VectorXd throughput(features.rows());
    for (Eigen::Index i = 0; i < features.rows(); ++i) {
      throughput[i] = images_per_sec(fitted_on[static_cast<std::size_t>(i)]);
    }
    const Eigen::VectorXd coefficients =
        standardize.design(features).completeOrthogonalDecomposition().solve(throughput);
    add("throughput_linear", [&](const Workload& asked) {
      const double predicted =
          coefficients[0] + coefficients.tail(features.cols()).dot(standardize(features_of(asked)));
      return static_cast<double>(asked.train_images) /
             std::max(predicted, throughput.minCoeff());  // a straight line may reach 0
    });
  } catch (const InputError&) {
    // Too few rows, or networks that the rows do not answer for: said in the contract of evaluate_baselines.
  }
  return all;
}

std::vector<NamedMetrics> evaluate_baselines(std::span<const AggregateRow> fitted_on,
                                             std::span<const AggregateRow> scored) {
  const std::vector<AggregateRow> fit_rows = timed(fitted_on);
  const std::vector<AggregateRow> score_rows = timed(scored);
  std::vector<NamedMetrics> metrics;
  for (const BaselinePrediction& baseline : predict_baselines(fit_rows, score_rows)) {
    metrics.push_back({baseline.name, time_metrics(score_rows, baseline.seconds)});
  }
  return metrics;
}

}  // namespace perfpred
