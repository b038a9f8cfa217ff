// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/suggestion.h>
#include <perfpred/throughput_deriver.h>

#include <Eigen/QR>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "evaluate/evaluation.h"
#include "evaluate/folds.h"
#include "model/kinds/features.h"
#include "statistics/quantiles.h"
#include "text/csv.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

double images_per_sec(const AggregateRow& row) {
  return ThroughputDeriver(row.workload.train_images).derive(*row.avg_time_mean);
}

TimeMetrics time_metrics(std::span<const AggregateRow> rows, const std::vector<double>& seconds) {
  std::vector<double> measured, measured_throughput, derived;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    measured.push_back(*rows[i].avg_time_mean);
    measured_throughput.push_back(images_per_sec(rows[i]));
    derived.push_back(ThroughputDeriver(rows[i].workload.train_images).derive(seconds[i]));
  }
  return {error_metrics(measured, seconds), error_metrics(measured_throughput, derived)};
}

std::vector<AggregateRow> timed(std::span<const AggregateRow> rows) {
  std::vector<AggregateRow> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept),
               [](const AggregateRow& row) { return row.avg_time_mean.has_value(); });
  return kept;
}

/// What a baseline predicts for the scored rows.
struct BaselinePrediction {
  std::string name;
  std::vector<double> seconds;
};

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

}  // namespace

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
    if (*measured[i].avg_time_mean >= q.p05 && *measured[i].avg_time_mean <= q.p95) inside += 1;
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

Split split_rows(std::span<const AggregateRow> rows, double test_fraction, double val_fraction, std::uint64_t seed) {
  for (const double fraction : {test_fraction, val_fraction}) {
    if (!(fraction >= 0 && fraction < 1)) throw InputError(fmt::format("fraction {} is not in [0, 1)", fraction));
  }
  const std::vector<AggregateRow> kept = timed(rows);
  std::vector<std::vector<std::size_t>> order = rows_by_workload(kept);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto n = static_cast<double>(order.size());
  const auto test = static_cast<std::size_t>(std::lround(test_fraction * n));
  const auto val = static_cast<std::size_t>(std::lround(val_fraction * n));
  if (test + val >= order.size()) throw InputError(fmt::format("no row of {} is left to fit on", kept.size()));
  const std::span all(order);
  return {pick(kept, flatten(all.subspan(test + val))), pick(kept, flatten(all.subspan(test, val))),
          pick(kept, flatten(all.first(test)))};
}

Split read_split(const std::string& path, std::span<const AggregateRow> rows) {
  CsvReader csv(path);
  const CsvColumn split_column = csv.required("split");
  const CsvColumn key_column = csv.optional("key");
  CsvColumn depth, base_filters, batch_size;
  if (!key_column.index) {
    depth = csv.required("depth");
    base_filters = csv.required("base_filters");
    batch_size = csv.required("batch_size");
  }
  Split split;
  std::vector<std::size_t> line_of(rows.size());  // that names the row; 0: not named yet
  while (csv.next()) {
    const std::string_view part = csv.text(split_column);
    if (part != "train" && part != "val" && part != "test")
      throw_bad_value(csv.place("split"), part, "train, val or test");
    std::vector<AggregateRow>& rows_of_part = part == "train" ? split.train : part == "val" ? split.val : split.test;
    std::optional<Workload> keyed;
    try {
      if (key_column.index) keyed = Workload::from_key(csv.text(key_column));
    } catch (const InputError& error) {
      throw InputError(csv.place("").prefix() + error.what());
    }
    bool found = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Workload& workload = rows[i].workload;
      const bool named = keyed ? workload == *keyed
                               : workload.depth() == csv.positive_integer(depth) &&
                                     workload.base_filters() == csv.positive_integer(base_filters) &&
                                     workload.batch_size == csv.positive_integer(batch_size);
      if (!named) continue;
      const ValuePlace place = csv.place("");
      if (line_of[i] != 0)
        throw InputError(fmt::format("{}names the row of line {} again", place.prefix(), line_of[i]));
      line_of[i] = place.line;
      found = true;
      if (rows[i].avg_time_mean) rows_of_part.push_back(rows[i]);
    }
    if (!found) throw InputError(csv.place("").prefix() + "names no measured row");
  }
  if (split.train.empty()) throw InputError(fmt::format("{}: no row has the split train", path));
  return split;
}

ProtocolEvaluation evaluate_protocol(std::span<const AggregateRow> all_rows, Protocol protocol, const FitOptions& fit,
                                     const ProtocolOptions& options) {
  const std::vector<AggregateRow> rows = timed(all_rows);
  const std::vector<Fold> folds = make_folds(rows, protocol, options);
  struct Result {
    std::vector<Prediction> predictions;
    std::vector<BaselinePrediction> baselines;
    std::size_t seen = 0;
  };
  std::vector<Result> results(folds.size());
  parallel_for(folds.size(), options, [&](std::size_t i) {
    const std::vector<AggregateRow> train = pick(rows, folds[i].train);
    const std::vector<AggregateRow> test = pick(rows, folds[i].test);
    const TimeRegressor model = TimeRegressor::fit(train, fit);
    results[i].seen = rows_fitted_on(model, test);
    results[i].predictions = predict_rows(model, test);
    results[i].baselines = predict_baselines(train, test);
  });

  ProtocolEvaluation out;
  std::vector<TimeMetrics> pools;
  double coverage = 0, width = 0;
  std::map<std::string, std::vector<TimeMetrics>> baselines;
  std::vector<std::string> baseline_order;
  const int repeats = folds.back().repeat + 1;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<AggregateRow> measured;
    std::vector<Prediction> predictions;
    std::map<std::string, std::vector<double>> pooled;  // seconds, by baseline
    for (std::size_t i = 0; i < folds.size(); ++i) {
      if (folds[i].repeat != repeat) continue;
      const std::vector<AggregateRow> test = pick(rows, folds[i].test);
      const Evaluation fold = evaluate(test, results[i].predictions);
      out.folds.push_back({folds[i].left_out, test.size(), fold.metrics.time, fold.coverage90});
      out.seen += results[i].seen;
      measured.insert(measured.end(), test.begin(), test.end());
      predictions.insert(predictions.end(), results[i].predictions.begin(), results[i].predictions.end());
      for (const BaselinePrediction& baseline : results[i].baselines) {
        std::vector<double>& pool = pooled[baseline.name];
        pool.insert(pool.end(), baseline.seconds.begin(), baseline.seconds.end());
        if (std::find(baseline_order.begin(), baseline_order.end(), baseline.name) == baseline_order.end())
          baseline_order.push_back(baseline.name);
      }
    }
    const Evaluation pool = evaluate(measured, predictions);
    out.scored.insert(out.scored.end(), measured.begin(), measured.end());
    out.predictions.insert(out.predictions.end(), predictions.begin(), predictions.end());
    pools.push_back(pool.metrics);
    coverage += pool.coverage90.value_or(0) / repeats;
    width += pool.width90_median.value_or(0) / repeats;
    for (const auto& [name, seconds] : pooled) {
      if (seconds.size() != measured.size()) continue;  // not fitted in every fold
      baselines[name].push_back(time_metrics(measured, seconds));
    }
  }
  out.all = {average(pools), coverage, width};
  for (const std::string& name : baseline_order) {
    if (const auto found = baselines.find(name); found != baselines.end()) {
      out.baselines.push_back({name, average(found->second)});
    }
  }
  return out;
}

std::vector<CurvePoint> evaluate_curve(std::span<const AggregateRow> all_rows, std::span<const std::size_t> sizes,
                                       int subsets, const FitOptions& fit, const ProtocolOptions& options) {
  const std::vector<AggregateRow> rows = timed(all_rows);
  const std::vector<std::vector<std::size_t>> workloads = rows_by_workload(rows);
  if (subsets < 1) throw InputError("subsets is not positive");
  for (const std::size_t size : sizes) {
    if (size >= 1 && size < workloads.size()) continue;
    throw InputError(
        fmt::format("a curve of {} rows has sizes from 1 to {}, not {}", workloads.size(), workloads.size() - 1, size));
  }
  std::vector<std::size_t> used(sizes.begin(), sizes.end());
  std::sort(used.begin(), used.end());

  const auto score = [&](const std::vector<std::size_t>& chosen, const FitOptions& by) {
    const std::vector<AggregateRow> test = pick(rows, all_but(chosen, rows.size()));
    return evaluate(test, predict_rows(TimeRegressor::fit(pick(rows, chosen), by), test));
  };

  const auto per_size = static_cast<std::size_t>(subsets);
  std::vector<std::vector<Evaluation>> random_scores(used.size(), std::vector<Evaluation>(per_size));
  std::vector<std::vector<Evaluation>> suggested_scores = random_scores;
  parallel_for(per_size + used.size() * per_size, options, [&](std::size_t task) {
    const std::uint64_t seed = options.seed * 1'000'003U + task % per_size;  // larger subsets hold the smaller ones
    if (task >= per_size) {
      const std::size_t i = task / per_size - 1;
      std::vector<std::vector<std::size_t>> order = workloads;
      std::mt19937_64 random(seed);
      std::shuffle(order.begin(), order.end(), random);
      random_scores[i][task % per_size] = score(flatten(std::span(order).first(used[i])), fit);
      return;
    }
    // A campaign: measure the suggestions, five at a time, and ask again. The longest tasks, so they start first.
    constexpr std::size_t batch = 5;
    FitOptions own = fit;
    own.seed = seed;
    std::vector<Workload> grid;
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < workloads.size(); ++i) {
      grid.push_back(rows[workloads[i].front()].workload);
      place[grid.back().key()] = i;
    }
    std::vector<std::vector<std::size_t>> chosen;
    for (std::size_t i = 0; i < used.size(); ++i) {
      while (chosen.size() < used[i]) {
        const std::size_t first = std::min<std::size_t>(used.front(), 10);
        const std::size_t wanted = std::min(used[i] - chosen.size(), chosen.empty() ? first : batch);
        const std::vector<Suggestion> next = suggest(pick(rows, flatten(chosen)), grid, wanted, own);
        for (const Suggestion& suggestion : next) chosen.push_back(workloads[place.at(suggestion.workload.key())]);
      }
      suggested_scores[i][task] = score(flatten(chosen), own);
    }
  });

  std::vector<CurvePoint> curve;
  const auto add = [&](std::size_t size, const char* selection, const std::vector<Evaluation>& scores) {
    std::vector<double> mape;
    double coverage = 0;
    for (const Evaluation& one : scores) {
      mape.push_back(*one.metrics.time.mape);
      coverage += *one.coverage90 / static_cast<double>(scores.size());
    }
    curve.push_back({size, selection, median(mape), quantile(mape, 0.9), coverage});
  };
  for (std::size_t i = 0; i < used.size(); ++i) {
    add(used[i], "random", random_scores[i]);
    add(used[i], "suggested", suggested_scores[i]);
  }
  return curve;
}

}  // namespace perfpred
