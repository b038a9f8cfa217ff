// SPDX-License-Identifier: Apache-2.0
#include "evaluate/protocol.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace perfpred {
namespace {

/// Means over repeats of metrics that were pooled within a repeat.
ErrorMetrics average(std::span<const TimeMetrics> parts, ErrorMetrics TimeMetrics::*metrics) {
  ErrorMetrics mean = parts.front().*metrics;
  for (const auto field : {&ErrorMetrics::mae, &ErrorMetrics::rmse, &ErrorMetrics::r2, &ErrorMetrics::mape}) {
    double sum = 0;
    for (const TimeMetrics& part : parts) sum += (part.*metrics.*field).value_or(NAN);
    if (!std::isnan(sum)) mean.*field = sum / static_cast<double>(parts.size());
  }
  return mean;
}

TimeMetrics average(std::span<const TimeMetrics> parts) {
  return {average(parts, &TimeMetrics::time), average(parts, &TimeMetrics::throughput)};
}

/// The value of this name, added at the end if there is none: what is printed keeps the order of the baselines.
template <class Value>
Value& named(std::vector<std::pair<std::string, Value>>& list, const std::string& name) {
  for (auto& [known, value] : list) {
    if (known == name) return value;
  }
  return list.emplace_back(name, Value{}).second;
}

/// What a model fitted on one fold's rows says of the rows left out.
struct FoldResult {
  std::vector<AggregateRow> measured;
  std::vector<Prediction> predictions;
  std::vector<BaselinePrediction> baselines;
  std::size_t seen = 0;
};

FoldResult fit_and_predict(std::span<const AggregateRow> rows, const Fold& fold, const FitOptions& fit) {
  const std::vector<AggregateRow> train = pick(rows, fold.train);
  FoldResult result;
  result.measured = pick(rows, fold.test);
  const TimeRegressor model = TimeRegressor::fit(train, fit);
  result.seen = rows_fitted_on(model, result.measured);
  result.predictions = predict_rows(model, result.measured);
  result.baselines = predict_baselines(train, result.measured);
  return result;
}

/// All folds of one repeat: every row once.
struct Pool {
  std::vector<AggregateRow> measured;
  std::vector<Prediction> predictions;
  std::vector<std::pair<std::string, std::vector<double>>> baselines;  // seconds

  void take(const FoldResult& fold) {
    measured.insert(measured.end(), fold.measured.begin(), fold.measured.end());
    predictions.insert(predictions.end(), fold.predictions.begin(), fold.predictions.end());
    for (const BaselinePrediction& baseline : fold.baselines) {
      std::vector<double>& seconds = named(baselines, baseline.name);
      seconds.insert(seconds.end(), baseline.seconds.begin(), baseline.seconds.end());
    }
  }
};

/// The pools of the repeats, scored one by one and averaged.
void score(std::span<const Pool> pools, ProtocolEvaluation& out) {
  std::vector<TimeMetrics> metrics;
  std::vector<std::pair<std::string, std::vector<TimeMetrics>>> baselines;
  double coverage = 0, width = 0;
  const auto repeats = static_cast<double>(pools.size());
  for (const Pool& pool : pools) {
    const Evaluation all = evaluate(pool.measured, pool.predictions);
    metrics.push_back(all.metrics);
    coverage += all.coverage90.value_or(0) / repeats;
    width += all.width90_median.value_or(0) / repeats;
    out.scored.insert(out.scored.end(), pool.measured.begin(), pool.measured.end());
    out.predictions.insert(out.predictions.end(), pool.predictions.begin(), pool.predictions.end());
    for (const auto& [name, seconds] : pool.baselines) {
      if (seconds.size() == pool.measured.size())  // else not fitted in every fold
        named(baselines, name).push_back(time_metrics(pool.measured, seconds));
    }
  }
  out.all = {average(metrics), coverage, width};
  for (const auto& [name, parts] : baselines) out.baselines.push_back({name, average(parts)});
}

}  // namespace

ProtocolEvaluation evaluate_protocol(std::span<const AggregateRow> all_rows, Protocol protocol, const FitOptions& fit,
                                     const ProtocolOptions& options) {
  const std::vector<AggregateRow> rows = timed(all_rows);
  const std::vector<Fold> folds = make_folds(rows, protocol, options);
  std::vector<FoldResult> results(folds.size());
  parallel_for(folds.size(), options, [&](std::size_t i) { results[i] = fit_and_predict(rows, folds[i], fit); });

  ProtocolEvaluation out;
  std::vector<Pool> pools(static_cast<std::size_t>(folds.back().repeat) + 1);
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Evaluation fold = evaluate(results[i].measured, results[i].predictions);
    out.folds.push_back({folds[i].left_out, results[i].measured.size(), fold.metrics.time, fold.coverage90});
    out.seen += results[i].seen;
    pools[static_cast<std::size_t>(folds[i].repeat)].take(results[i]);
  }
  score(pools, out);
  return out;
}

}  // namespace perfpred
