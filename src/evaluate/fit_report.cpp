// SPDX-License-Identifier: Apache-2.0
#include "evaluate/fit_report.h"

#include <fmt/format.h>

#include <utility>

#include "model/kinds/features.h"
#include "optime/layer_time.h"
#include "optime/op_model_state.h"
#include "statistics/estimate.h"

namespace perfpred {
namespace {

constexpr std::size_t layer_folds = 5;
constexpr double least_coverage = 0.75;  // of a 90 % interval; with less it misleads

/// Measured steps beside what a model expects of them.
class ScoredSteps {
 public:
  void add(double samples, double measured_sec, const Quantiles& sec) {
    measured_.push_back(measured_sec);
    predicted_.push_back(sec.p50);
    measured_rate_.push_back(samples / measured_sec);
    predicted_rate_.push_back(samples / sec.p50);
    covered_ += covers(sec, measured_sec) ? 1 : 0;
  }

  /// Layers whose whole step was timed.
  void add(const OpTimeModel& model, const Device& device, const LayerRow& row) {
    if (!row.step_sec) return;
    add(static_cast<double>(row.layer.batch_size), *row.step_sec, predict_layer(model, row.layer, device).step);
  }

  [[nodiscard]] StepErrors errors() const {
    StepErrors errors = {{error_metrics(measured_, predicted_), error_metrics(measured_rate_, predicted_rate_)}, {}};
    if (!measured_.empty()) errors.coverage90 = covered_ / static_cast<double>(measured_.size());
    return errors;
  }

 private:
  std::vector<double> measured_, predicted_, measured_rate_, predicted_rate_;
  double covered_ = 0;
};

/// Scores a fold's layers by rates of the other layers; those of a group that is too small for this are not scored.
void score_left_out(const OpTimeModel& model, const LayerGroup& group, std::size_t fold, ScoredSteps& scored) {
  LayerGroup others = {group.key, group.device, {}, group.waiting};
  std::vector<const LayerRow*> own;
  const auto order = shuffled_rows(static_cast<Eigen::Index>(group.rows.size()), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const LayerRow& row = group.rows[static_cast<std::size_t>(order[i])];
    if (i % layer_folds == fold) {
      own.push_back(&row);
    } else {
      others.rows.push_back(row);
    }
  }
  if (parts_of(others.rows, group.device.kind).size() < LayerRates::min_parts) return;
  OpModelState state = OpModelAccess::state(model);
  state.measured.rates[group.key] = others.fit(state.steps.parameters);
  const OpTimeModel without = OpModelAccess::model(std::move(state));
  for (const LayerRow* row : own) scored.add(without, group.device, *row);
}

}  // namespace

FitReport report_fit(const TimeRegressor& model, const Split& split) {
  const auto score = [&](const std::vector<AggregateRow>& part) {
    return evaluate(part, predict_rows(model, part)).metrics;
  };
  FitReport report;
  report.train = score(split.train);
  if (model.uses_validation()) report.val = score(split.val);
  report.test = score(split.test);
  std::vector<AggregateRow> known = split.train;
  known.insert(known.end(), split.val.begin(), split.val.end());
  report.baselines = evaluate_baselines(known, split.test);
  for (const AggregateRow& row : known) {
    report.unstable += row.flags.unstable ? 1 : 0;
    report.disagree += row.flags.disagree ? 1 : 0;
  }
  return report;
}

OpFitReport report_op_fit(const OpTimeModel& model, const std::vector<std::string>& steps, const std::string& layers,
                          const DeviceCatalogue& devices) {
  ScoredSteps fitted, of_steps, left_out;
  std::size_t by_layers = 0;
  if (!steps.empty()) {
    const OpModelState& state = OpModelAccess::state(model);
    for (const StepRow& row : read_step_tables(steps, devices).rows) {
      by_layers += state.measured.rates.count({row.machine.device, row.machine.precision});
      const Quantiles sec = state.steps.predict(row).quantiles();
      for (ScoredSteps* scored : {&fitted, &of_steps}) scored->add(static_cast<double>(row.batch), row.sec, sec);
    }
  }
  if (!layers.empty()) {
    for (const LayerGroup& group : read_layer_groups(layers, devices).groups) {
      for (const LayerRow& row : group.rows) fitted.add(model, group.device, row);
      for (std::size_t fold = 0; fold < layer_folds; ++fold) score_left_out(model, group, fold, left_out);
    }
  }
  return {fitted.errors(), of_steps.errors(), by_layers, left_out.errors()};
}

std::string coverage_warning(const OpFitReport& report) {
  std::string text;
  for (const auto& [name, errors] : {std::pair("steps", &report.steps), std::pair("layers", &report.left_out_layers)}) {
    if (errors->coverage90.value_or(1) >= least_coverage) continue;
    text += fmt::format("{}the 90 % intervals hold {:.0f} % of the {} {} alone", text.empty() ? "" : "; ",
                        100 * *errors->coverage90, errors->metrics.time.n, name);
  }
  return text.empty() ? "" : text + ": expect larger errors than the intervals of this model say";
}

}  // namespace perfpred
