// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluation.h"

#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/format.h>

#include <algorithm>

#include "statistics/estimate.h"
#include "statistics/quantiles.h"

namespace perfpred {

TimeMetrics time_metrics(std::span<const AggregateRow> rows, const std::vector<double>& seconds) {
  std::vector<double> measured, measured_throughput, derived;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    measured.push_back(*rows[i].avg_time_mean);
    const ThroughputDeriver images_per_sec(rows[i].workload.train_images);
    measured_throughput.push_back(images_per_sec.derive(*rows[i].avg_time_mean));
    derived.push_back(images_per_sec.derive(seconds[i]));
  }
  return {error_metrics(measured, seconds), error_metrics(measured_throughput, derived)};
}

std::vector<AggregateRow> timed(std::span<const AggregateRow> rows) {
  std::vector<AggregateRow> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept),
               [](const AggregateRow& row) { return row.avg_time_mean.has_value(); });
  return kept;
}

Evaluation evaluate(std::span<const AggregateRow> measured, std::span<const Prediction> predictions) {
  if (measured.size() != predictions.size()) throw Error("evaluate: as many predictions as rows are needed");
  std::vector<AggregateRow> rows;
  std::vector<double> seconds, widths;
  double inside = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!measured[i].avg_time_mean) continue;
    const Quantiles& q = predictions[i].time_sec;
    rows.push_back(measured[i]);
    seconds.push_back(q.p50);
    widths.push_back((q.p95 - q.p05) / q.p50);
    if (covers(q, *measured[i].avg_time_mean)) inside += 1;
  }
  Evaluation evaluation{time_metrics(rows, seconds), std::nullopt, std::nullopt};
  if (!rows.empty()) {
    evaluation.coverage90 = inside / static_cast<double>(rows.size());
    evaluation.width90_median = median(std::move(widths));
  }
  return evaluation;
}

std::vector<Prediction> predict_rows(const TimeRegressor& model, std::span<const AggregateRow> rows) {
  std::vector<Workload> workloads;
  for (const AggregateRow& row : rows) workloads.push_back(row.workload);
  try {
    return model.predict(workloads);
  } catch (const InputError&) {  // one by one, to name the row
    for (const Workload& workload : workloads) {
      try {
        (void)model.predict(workload);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", workload.key(), error.what()));
      }
    }
    throw;
  }
}

std::size_t rows_fitted_on(const TimeRegressor& model, std::span<const AggregateRow> rows) {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const AggregateRow& row) {
    return row.avg_time_mean && model.was_fitted_on(row.workload);
  }));
}

std::map<std::string, std::size_t> rows_outside(std::span<const AggregateRow> measured,
                                                std::span<const Prediction> predictions) {
  std::map<std::string, std::size_t> counts;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].avg_time_mean && !predictions[i].in_domain())
      ++counts[std::string(to_string(predictions[i].reason))];
  }
  return counts;
}

}  // namespace perfpred
