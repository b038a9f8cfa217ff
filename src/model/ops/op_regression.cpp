// SPDX-License-Identifier: Apache-2.0
#include "model/ops/op_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "model/model_state.h"
#include "statistics/estimate.h"
#include "text/hash.h"

namespace perfpred {
namespace {

constexpr std::size_t rows_of_network = 8, max_rows = 5000;
// The part of an error that is not the device's: so much of its standard deviation, at most max_within. These and the
// constants that follow were chosen on measured rows with devices left out (docs/notes/optime.md, Runs that correct the
// op model).
constexpr double max_within = 0.21, within_share = 0.8;
/// Of what settings have in common, where their precisions differ.
constexpr double other_precision = 0.5;
/// Log-normal priors of ErrorSpread: medians and standard deviations of logarithms.
constexpr double scale_median = 1, scale_deviation = 0.5, noise_median = 0.03, noise_deviation = 0.7;

/// How much of a variance two workloads share that agree in device, setting or network; each group adds up to 1.
struct VarianceShares {
  double anything = 0.07, device = 0.29, setting = 0.64;
  double features = 0.51, features_in_setting = 0.33, network = 0.14, network_in_setting = 0.02;
};
constexpr VarianceShares shares;
/// Squared length scale of the features.
constexpr double length2 = 1.2 * 1.2;

constexpr double label_jitter = 1e-10;  // of a label's variance

double square(double x) { return x * x; }

/// The network with its sizes.
std::string network_text(const Workload& workload) {
  return fmt::format("{} {}", workload.network, shape_text(workload.input));
}

/// Rows of each network in each setting, so many of each, spread over the order that they come in.
std::vector<const AggregateRow*> spread_over(const std::vector<std::vector<const AggregateRow*>>& cells,
                                             std::size_t of_each) {
  std::vector<const AggregateRow*> kept;
  for (const auto& cell : cells) {
    const std::size_t n = std::min(of_each, cell.size());
    for (std::size_t i = 0; i < n; ++i) {
      kept.push_back(cell[n == 1 ? cell.size() / 2 : i * (cell.size() - 1) / (n - 1)]);
    }
  }
  return kept;
}

std::vector<const AggregateRow*> thinned(std::span<const AggregateRow> rows) {
  std::map<std::pair<std::string, std::string>, std::vector<const AggregateRow*>> by_cell;
  for (const AggregateRow& row : rows)
    by_cell[{group_text(row.workload), std::string(row.workload.network.family())}].push_back(&row);
  std::vector<std::vector<const AggregateRow*>> cells;
  for (auto& [name, cell] : by_cell) {
    std::stable_sort(cell.begin(), cell.end(), [](const AggregateRow* a, const AggregateRow* b) {
      const Workload &x = a->workload, &y = b->workload;
      return std::tuple(x.batch_size, x.depth(), x.base_filters()) <
             std::tuple(y.batch_size, y.depth(), y.base_filters());
    });
    cells.push_back(std::move(cell));
  }
  for (std::size_t of_each = rows_of_network;; of_each /= 2) {
    std::vector<const AggregateRow*> kept = spread_over(cells, of_each);
    if (kept.size() <= max_rows) return kept;
    if (of_each > 1) continue;
    std::vector<const AggregateRow*> some;
    for (std::size_t i = 0; i < max_rows; ++i) some.push_back(kept[i * kept.size() / max_rows]);
    return some;
  }
}

OpInput input_of(const Workload& workload, const OpStep& prior) {
  return {workload, prior.time.deviation(), prior.features, prior.slopes};
}

Eigen::VectorXd log_ratios(const std::vector<OpError>& rows) {
  Eigen::VectorXd ratios(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) ratios[static_cast<Eigen::Index>(i)] = rows[i].log_ratio;
  return ratios;
}

Eigen::VectorXd label_variances(const std::vector<OpError>& rows, const ErrorSpread& spread) {
  Eigen::VectorXd variances(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    variances[static_cast<Eigen::Index>(i)] = spread.variance_of_label(rows[i]);
  return variances;
}

/// Noise included.
Eigen::MatrixXd covariance_of(const std::vector<OpError>& rows, const ErrorSpread& errors) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      covariance(i, j) = covariance(j, i) =
          errors.covariance(rows[static_cast<std::size_t>(i)].input, rows[static_cast<std::size_t>(j)].input);
    }
  }
  covariance.diagonal() += label_variances(rows, errors);
  return covariance;
}

using NearFeatures = Eigen::Array<double, Eigen::Dynamic, OpFeature::count, Eigen::ColMajor, NearestRows::max_rows>;

/// How alike rows of features are to an input's, from row `first` on: many at once, for speed.
NearVector likeness(const NearFeatures& rows, Eigen::Index first, const OpFeatures& features) {
  Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, NearestRows::max_rows> distance2 =
      Eigen::ArrayXd::Zero(rows.rows() - first);
  for (int f = 0; f < OpFeature::count; ++f) distance2 += (rows.col(f).tail(distance2.size()) - features[f]).square();
  return (distance2 / (-2 * length2)).exp();
}

/// The op model's own intervals were calibrated on devices left out. A machine's effects are taken to spread wider than
/// those say, so that runs may move them far; that is no reason to be less sure.
JointNormal no_wider(JointNormal joint, const std::vector<OpInput>& inputs) {
  Eigen::VectorXd factor = Eigen::VectorXd::Ones(joint.mean.size());
  for (Eigen::Index i = 0; i < factor.size(); ++i) {
    const double own = square(inputs[static_cast<std::size_t>(i)].deviation), variance = joint.covariance(i, i);
    if (variance > own) factor[i] = std::sqrt(own / variance);
  }
  joint.covariance = factor.asDiagonal() * joint.covariance * factor.asDiagonal();
  return joint;
}

OpError op_error(const AggregateRow& measured, const OpStep& prior) {
  OpError row{measured.workload, input_of(measured.workload, prior)};
  row.log_ratio = std::log(*measured.avg_time_mean) - prior.time.log_sec;
  row.runs = std::max<std::int64_t>(measured.n, 1);
  row.label_variance = square(measured.epoch_rel_sem.value_or(0)) / static_cast<double>(row.runs);
  return row;
}

}  // namespace

OpInput::OpInput(const Workload& workload, double of_model, const OpFeatures& of_step, const ByEffect& by_effect)
    : device(fnv1a(workload.device)),
      setting(fnv1a(fmt::format("{} {} {} {} {}", workload.device, workload.threads.value_or(0),
                                to_string(workload.precision), to_string(workload.layout), workload.cuda_graph))),
      network(fnv1a(network_text(workload))),
      precision(fnv1a(to_string(workload.precision))),
      deviation(of_model),
      within(std::min(max_within, within_share * of_model)),
      shared(std::sqrt(square(of_model) - square(within))),
      rest(std::sqrt(std::max(0.0, square(shared) - by_effect.squaredNorm()))),
      features(of_step),
      slopes(by_effect) {}

ErrorSpread::Terms ErrorSpread::terms(const OpInput& a, const OpInput& b) const {
  const double device = a.device == b.device, setting = a.setting == b.setting;
  const double precision = a.precision == b.precision ? 1 : other_precision;
  return {shares.anything * precision + shares.device * device + shares.setting * setting,
          shares.features * precision + shares.features_in_setting * setting,
          shares.network * precision + shares.network_in_setting * setting};
}

double ErrorSpread::covariance(const OpInput& a, const OpInput& b) const {
  return covariance(a, b, std::exp(-(a.features - b.features).squaredNorm() / (2 * length2)));
}

double ErrorSpread::covariance(const OpInput& a, const OpInput& b, double alike) const {
  const Terms share = terms(a, b);
  const double network = a.network == b.network;
  return (a.slopes.dot(b.slopes) + a.rest * b.rest) * share.device +
         square(scale) * a.within * b.within * (alike * share.features + network * share.network);
}

double ErrorSpread::variance_of_label(const OpError& row) const {
  return square(noise) / static_cast<double>(row.runs) + row.label_variance + label_jitter;
}

void OpRegression::learn(std::span<const AggregateRow> measured, const DeviceCatalogue& devices) {
  std::vector<AggregateRow> all;  // those that are known already have their views
  for (const OpError& row : rows()) all.emplace_back().workload = row.workload;
  all.insert(all.end(), measured.begin(), measured.end());
  std::vector<OpError> taken;
  for (const AggregateRow* row : thinned(all)) {
    const auto at = static_cast<std::size_t>(row - all.data());
    if (at < rows().size()) {
      taken.push_back(rows()[at]);
    } else {
      PredictedSteps none;
      taken.push_back(op_error(*row, prior_->epoch(Job(row->workload, devices), none)));
    }
  }
  choose_spread(std::move(taken));
  drop_outliers();
}

void OpRegression::drop_outliers() {
  const auto outliers = process_.outliers(rows().size() / 10, [] {});
  if (outliers.empty()) return;
  std::vector<bool> is_dropped(rows().size(), false);
  for (const Outlier& outlier : outliers) {
    is_dropped[outlier.row] = true;
    dropped_.push_back({rows()[outlier.row].workload.key(), "outlier"});
  }
  std::vector<OpError> kept;
  for (std::size_t i = 0; i < rows().size(); ++i) {
    if (!is_dropped[i]) kept.push_back(rows()[i]);
  }
  choose_spread(std::move(kept));
}

bool OpRegression::is_outlier(const Job& job, double epoch_sec) const {
  PredictedSteps none;
  const Estimate expected = estimate(job, none);
  const double apart = std::log(epoch_sec) - expected.log_sec;
  return std::abs(apart) > outlier_deviations * expected.deviation();
}

void OpRegression::choose_spread(std::vector<OpError> rows) {
  std::vector<OpError> some = rows;
  if (some.size() > exact_rows) {
    std::mt19937_64 random(0);  // the same model from the same rows
    std::shuffle(some.begin(), some.end(), random);
    some.erase(some.begin() + exact_rows, some.end());
  }
  const Eigen::VectorXd ratios = log_ratios(some);
  // The covariance is linear in the squares of scale and noise.
  const Eigen::MatrixXd base = covariance_of(some, {0, 0});
  const Eigen::MatrixXd by_scale = covariance_of(some, {1, 0}) - base;
  const Eigen::VectorXd by_noise = (covariance_of(some, {0, 1}) - base).diagonal();
  double best = HUGE_VAL;
  ErrorSpread spread;
  for (const double scale : {0.5, 0.7, 1.0, 1.4, 2.0}) {
    for (const double noise : {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2}) {
      Eigen::MatrixXd covariance = base + square(scale) * by_scale;
      covariance.diagonal() += square(noise) * by_noise;
      const Eigen::LLT<Eigen::MatrixXd> factor(covariance);
      const double half_log_determinant = factor.matrixLLT().diagonal().array().log().sum();
      const double prior = square(std::log(scale / scale_median) / scale_deviation) / 2 +
                           square(std::log(noise / noise_median) / noise_deviation) / 2;
      const double posterior = half_log_determinant + ratios.dot(factor.solve(ratios)) / 2 + prior;
      if (posterior < best) {
        best = posterior;
        spread = {scale, noise};
      }
    }
  }
  solve(std::move(rows), spread);
}

void OpRegression::solve(std::vector<OpError> rows, const ErrorSpread& spread) {
  Eigen::VectorXd ratios = log_ratios(rows), variances = label_variances(rows, spread);
  process_ = {OpErrors(std::move(rows), spread), std::move(variances), std::move(ratios)};
}

OpErrors::OpErrors(std::vector<OpError> rows, const ErrorSpread& spread) : rows_(std::move(rows)), spread_(spread) {
  const Eigen::Index n = size();
  features_.resize(n, OpFeature::count);
  shared_.resize(n);
  within_.resize(n);
  std::map<std::uint64_t, std::size_t> found;
  for (Eigen::Index i = 0; i < n; ++i) {
    const OpInput& input = of(i);
    features_.row(i) = input.features.transpose().cast<float>();
    const double deviation = std::max(input.deviation, 1e-6);
    shared_[i] = static_cast<float>(input.shared / deviation);
    within_[i] = static_cast<float>(input.within / deviation);
    const auto [setting, is_new] = found.emplace(input.setting, settings_.size());
    if (is_new) settings_.push_back(input);
    setting_.push_back(setting->second);
  }
}

void OpErrors::column(const OpInput& input, double* out, Eigen::Index first) const {
  for (Eigen::Index row = first; row < size(); ++row) *out++ = spread_.covariance(input, of(row));
}

template <class Skip>
NearestRows OpErrors::nearest(const OpInput& input, const Skip& skip) const {
  thread_local Eigen::ArrayXf alike;
  alike = Eigen::ArrayXf::Zero(shared_.size());
  for (Eigen::Index f = 0; f < features_.cols(); ++f)
    alike -= (features_.col(f) - static_cast<float>(input.features[f])).square();
  alike = (alike / static_cast<float>(2 * length2)).exp();
  thread_local std::vector<ErrorSpread::Terms> terms;
  terms.clear();
  for (const OpInput& setting : settings_) terms.push_back(spread_.terms(input, setting));
  const double within = square(spread_.scale) * input.within;
  const auto correlation = [&](Eigen::Index row) {
    const ErrorSpread::Terms& share = terms[setting_[static_cast<std::size_t>(row)]];
    const double network = of(row).network == input.network ? share.network : 0;
    return input.shared * shared_[row] * share.device + within * within_[row] * (alike[row] * share.features + network);
  };
  return {size(), correlation, skip};
}

NearCovariance OpErrors::among(const NearestRows& rows, const OpInput& input) const {
  const Eigen::Index n = rows.size();
  NearFeatures features(n, OpFeature::count);
  for (Eigen::Index k = 0; k < n; ++k) features.row(k) = of(rows[k]).features.transpose();
  NearCovariance covariance{NearMatrix(n, n), NearVector(n)};
  NearVector alike(n);
  for (Eigen::Index k = 0; k < n; ++k) {
    const OpInput& near = of(rows[k]);
    alike.tail(n - k) = likeness(features, k, near.features);
    for (Eigen::Index j = k; j < n; ++j) covariance.rows(j, k) = spread_.covariance(of(rows[j]), near, alike[j]);
  }
  alike = likeness(features, 0, input.features);
  for (Eigen::Index k = 0; k < n; ++k) covariance.asked[k] = spread_.covariance(input, of(rows[k]), alike[k]);
  return covariance;
}

Estimate OpRegression::estimate(const Job& job, PredictedSteps& known) const {
  OpStep prior = prior_->epoch(job, known);
  if (rows().empty()) return std::move(prior.time);
  const OpInput input = input_of(job.workload(), prior);
  const auto error = process_.at(input);
  Estimate estimate = std::move(prior.time);
  estimate.scale(error.mean);
  const double variance = std::min(square(input.deviation), error.variance);
  estimate.widths.scale_to(z90 * std::sqrt(variance + square(spread().noise)));
  return estimate;
}

JointNormal OpRegression::joint(std::span<const Workload> workloads, const DeviceCatalogue& devices) const {
  std::vector<OpInput> inputs;
  Eigen::VectorXd expected(static_cast<Eigen::Index>(workloads.size()));
  for (const Workload& workload : workloads) {
    PredictedSteps none;
    const OpStep prior = prior_->epoch(Job(workload, devices), none);
    expected[static_cast<Eigen::Index>(inputs.size())] = prior.time.log_sec;
    inputs.push_back(input_of(workload, prior));
  }
  auto errors = process_.joint(inputs);
  return no_wider({expected + errors.mean, std::move(errors.covariance)}, inputs);
}

}  // namespace perfpred
