// SPDX-License-Identifier: Apache-2.0
#include "evaluate/layer_study.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "statistics/estimate.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr std::size_t fewest_rows = 25;  // of a type: five folds of the 20 that are not kept for the test

using RowNumbers = std::vector<Eigen::Index>;

/// Relative errors of some rows' predictions.
std::vector<double> errors_of(const FeatureRegressor& function, const FeatureTask& task, const RowNumbers& rows) {
  std::vector<double> errors;
  for (const Eigen::Index i : rows) {
    const double predicted = function.log_time(task.features.row(i).transpose());
    errors.push_back(std::abs(std::exp(predicted - task.log_times[i]) - 1));
  }
  return errors;
}

LayerScore score_of(LayerType type, const FeatureKind& kind, const LayerInputs& inputs, std::string by,
                    std::vector<double> errors) {
  LayerScore score = {type, std::string(kind.name), inputs, std::move(by), errors.size(), 0, 0};
  score.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  score.median_ape = quantile(std::move(errors), 0.5);
  return score;
}

/// Errors on rows that the fits of a cross-validation leave out.
std::vector<double> cross_validated(const FeatureKind& kind, const FeatureTask& task, const RowNumbers& rows,
                                    int folds) {
  std::vector<double> errors;
  for (int fold = 0; fold < folds; ++fold) {
    const RowFold split(rows, static_cast<std::size_t>(fold), static_cast<std::size_t>(folds));
    FeatureTask part = task.rows(split.in);
    part.wants_interval = false;
    const std::vector<double> some = errors_of(*kind.fit(part), task, split.out);
    errors.insert(errors.end(), some.begin(), some.end());
  }
  return errors;
}

std::vector<const FeatureKind*> kinds_named(const std::vector<std::string>& names) {
  std::vector<const FeatureKind*> all = fittable_kinds();
  if (names.empty()) return all;
  std::vector<const FeatureKind*> kinds;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &FeatureKind::name);
    if (found == all.end()) {
      std::vector<std::string_view> known;
      for (const FeatureKind* kind : all) known.push_back(kind->name);
      throw InputError(
          fmt::format("kind \"{}\" is not one that this build fits on layers: {}", name, fmt::join(known, ", ")));
    }
    kinds.push_back(*found);
  }
  return kinds;
}

/// The study of one type.
class TypeStudy {
 public:
  TypeStudy(LayerStudy& study, std::vector<LayerRow> rows, const DeviceCatalogue& devices,
            const LayerStudyOptions& options)
      : study_(study), rows_(std::move(rows)), devices_(devices), options_(options), type_(rows_.front().layer.type) {
    const RowNumbers order = shuffled_rows(static_cast<Eigen::Index>(rows_.size()), options.seed);
    const auto kept = static_cast<std::ptrdiff_t>(std::ceil(options.test_fraction * static_cast<double>(rows_.size())));
    test_.assign(order.begin(), order.begin() + kept);
    learned_.assign(order.begin() + kept, order.end());
  }

  void run(const std::vector<const FeatureKind*>& kinds) {
    const FeatureTask task = layer_task(rows_, devices_, {}, options_.seed);
    std::vector<double> errors;
    for (const FeatureKind* kind : kinds) errors.push_back(score(*kind, {}, task));
    const FeatureKind* const best =
        kinds.at(static_cast<std::size_t>(std::ranges::min_element(errors) - errors.begin()));
    if (options_.ablation) leave_inputs_out(*best, task);
    if (options_.devices) leave_devices_out(*best, task);
    const std::shared_ptr<const FeatureRegressor> function = best->fit(task.rows(learned_));
    for (const Eigen::Index i : test_) {
      const double log_time = function->log_time(task.features.row(i).transpose());
      study_.predictions.push_back(
          {rows_[static_cast<std::size_t>(i)], quantiles_about(log_time, function->half_width)});
    }
    if (!test_.empty()) {
      study_.scores.push_back(score_of(type_, *best, {}, "test", errors_of(*function, task, test_)));
    }
    study_.models.set(type_, {best, {}, function});
  }

 private:
  double score(const FeatureKind& kind, const LayerInputs& inputs, const FeatureTask& task) {
    study_.scores.push_back(
        score_of(type_, kind, inputs, "cross-validation", cross_validated(kind, task, learned_, options_.folds)));
    return study_.scores.back().mape;
  }

  void leave_inputs_out(const FeatureKind& kind, const FeatureTask& all) {
    for (const LayerInputs& inputs :
         {LayerInputs{false, false, false}, LayerInputs{true, false, false}, LayerInputs{true, true, false}}) {
      FeatureTask some = all;
      some.features = all.features.leftCols(static_cast<Eigen::Index>(layer_feature_names(type_, inputs).size()));
      score(kind, inputs, some);
    }
  }

  void leave_devices_out(const FeatureKind& kind, const FeatureTask& task) {
    std::map<std::string, RowNumbers> by_device;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      by_device[rows_[i].device].push_back(static_cast<Eigen::Index>(i));
    }
    if (by_device.size() < 2) return;
    for (const auto& [device, out] : by_device) {
      RowNumbers in;
      for (const auto& [other, rows] : by_device) {
        if (other != device) in.insert(in.end(), rows.begin(), rows.end());
      }
      if (in.size() < fewest_rows) continue;
      study_.scores.push_back(
          score_of(type_, kind, {}, "without " + device, errors_of(*kind.fit(task.rows(in)), task, out)));
    }
  }

  LayerStudy& study_;
  std::vector<LayerRow> rows_;
  const DeviceCatalogue& devices_;
  const LayerStudyOptions& options_;
  LayerType type_;
  RowNumbers test_, learned_;
};

}  // namespace

LayerStudy study_layers(const std::vector<LayerRow>& rows, const DeviceCatalogue& devices,
                        const LayerStudyOptions& options) {
  if (options.folds < 2) throw InputError(fmt::format("folds {} is not at least 2", options.folds));
  if (!(options.test_fraction >= 0 && options.test_fraction < 1)) {
    throw InputError(fmt::format("test fraction {} is not in 0..1", options.test_fraction));
  }
  const std::vector<const FeatureKind*> kinds = kinds_named(options.kinds);
  LayerStudy study;
  std::map<LayerType, std::vector<LayerRow>> by_type;
  std::size_t untimed = 0;
  for (const LayerRow& row : rows) {
    if (row.outcome == "ok" && row.step_sec) {
      by_type[row.layer.type].push_back(row);
    } else {
      ++untimed;
    }
  }
  if (untimed > 0) study.notes.push_back(fmt::format("{} rows without a trusted step time were left out", untimed));
  for (const auto& [type, some] : by_type) {
    if (some.size() >= fewest_rows) continue;
    study.notes.push_back(fmt::format("{}: {} rows are too few for a regression, which takes {}", to_string(type),
                                      some.size(), fewest_rows));
  }
  std::erase_if(by_type, [](const auto& one) { return one.second.size() < fewest_rows; });
  if (by_type.empty()) throw InputError(fmt::format("no type of layer has {} timed rows", fewest_rows));
  std::size_t done = 0;
  for (auto& [type, some] : by_type) {
    if (options.progress) options.progress(done++, by_type.size());
    TypeStudy(study, std::move(some), devices, options).run(kinds);
  }
  if (options.progress) options.progress(done, by_type.size());
  return study;
}

}  // namespace perfpred
