// SPDX-License-Identifier: Apache-2.0
#include "model/ops/op_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "model/lognormal.h"
#include "model/model_state.h"
#include "text/hash.h"

namespace perfpred {
namespace {

constexpr std::size_t rows_of_network = 8, most_rows = 400;
constexpr double outlier_deviations = 4;
/// Largest standard deviation of the part of an error that is not the device's.
constexpr double most_within = 0.21;

/// How much of a variance two workloads share that agree in device, setting or network; each group adds up to 1.
struct Shares {
  double anything = 0.07, device = 0.29, setting = 0.64;
  double features = 0.51, features_in_setting = 0.33, network = 0.14, network_in_setting = 0.02;
};
constexpr Shares shares;
/// Squared length scale of the features.
constexpr double length2 = 1.2 * 1.2;

double square(double x) { return x * x; }

/// The network with its sizes.
std::string network_text(const Workload& workload) {
  return fmt::format("{} {} {} {}", workload.network, workload.depth.value_or(0), workload.base_filters.value_or(0),
                     shape_text(workload.input));
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
  for (const AggregateRow& row : rows) by_cell[{group_text(row.workload), row.workload.network}].push_back(&row);
  std::vector<std::vector<const AggregateRow*>> cells;
  for (auto& [name, cell] : by_cell) {
    std::stable_sort(cell.begin(), cell.end(), [](const AggregateRow* a, const AggregateRow* b) {
      const Workload &x = a->workload, &y = b->workload;
      return std::tie(x.batch_size, x.depth, x.base_filters) < std::tie(y.batch_size, y.depth, y.base_filters);
    });
    cells.push_back(std::move(cell));
  }
  for (std::size_t of_each = rows_of_network;; of_each /= 2) {
    std::vector<const AggregateRow*> kept = spread_over(cells, of_each);
    if (kept.size() <= most_rows) return kept;
    if (of_each > 1) continue;
    std::vector<const AggregateRow*> some;
    for (std::size_t i = 0; i < most_rows; ++i) some.push_back(kept[i * kept.size() / most_rows]);
    return some;
  }
}

OpPlace place_of(const Workload& workload, const OpView& view) { return {workload, view.deviation(), view.features}; }

OpError op_error(const AggregateRow& measured, const OpView& view) {
  OpError row{measured.workload, place_of(measured.workload, view)};
  row.log_ratio = std::log(*measured.avg_time_mean) - view.log_sec();
  row.runs = std::max<std::int64_t>(measured.n, 1);
  row.label_variance = square(measured.epoch_rel_sem.value_or(0)) / static_cast<double>(row.runs);
  return row;
}

}  // namespace

OpPlace::OpPlace(const Workload& workload, double of_model, const OpFeatures& of_step)
    : device(fnv1a(workload.device)),
      setting(fnv1a(fmt::format("{} {} {} {} {}", workload.device, workload.threads.value_or(0),
                                to_string(workload.precision), to_string(workload.layout), workload.cuda_graph))),
      network(fnv1a(network_text(workload))),
      precision(fnv1a(to_string(workload.precision))),
      deviation(of_model),
      features(of_step) {}

double ErrorSpread::covariance(const OpPlace& a, const OpPlace& b) const {
  const auto within = [](const OpPlace& place) { return std::min(most_within, 0.8 * place.deviation); };
  const auto shared = [&](const OpPlace& place) { return std::sqrt(square(place.deviation) - square(within(place))); };
  const double device = a.device == b.device, setting = a.setting == b.setting, network = a.network == b.network;
  const double precision = a.precision == b.precision ? 1 : 0.5;
  const double alike = std::exp(-(a.features - b.features).squaredNorm() / (2 * length2));
  return shared(a) * shared(b) * (shares.anything * precision + shares.device * device + shares.setting * setting) +
         square(scale) * within(a) * within(b) *
             (alike * (shares.features * precision + shares.features_in_setting * setting) +
              network * (shares.network * precision + shares.network_in_setting * setting));
}

double ErrorSpread::variance_of_label(const OpError& row) const {
  return square(noise) / static_cast<double>(row.runs) + row.label_variance;
}

Quantiles OpRegression::Estimate::quantiles() const { return quantiles_about(log_sec, z90 * std::sqrt(variance)); }

void OpRegression::learn(std::span<const AggregateRow> measured) {
  std::vector<AggregateRow> all;  // those that are known already have their views
  for (const OpError& row : rows_) all.emplace_back().workload = row.workload;
  all.insert(all.end(), measured.begin(), measured.end());
  std::vector<OpError> rows;
  for (const AggregateRow* row : thinned(all)) {
    const auto at = static_cast<std::size_t>(row - all.data());
    rows.push_back(at < rows_.size() ? rows_[at] : op_error(*row, prior_->view(row->workload, nullptr)));
  }
  rows_ = std::move(rows);
  choose_spread();
  const std::size_t before = rows_.size(), most_dropped = before / 10;
  for (std::size_t count = 0; count < most_dropped; ++count) {
    const Eigen::VectorXd precision = factor_.solve(Eigen::MatrixXd::Identity(alpha_.size(), alpha_.size())).diagonal();
    Eigen::Index worst = 0;  // its leave-one-out residual is alpha / precision, with variance 1 / precision
    const double deviations = (alpha_.array().square() / precision.array()).maxCoeff(&worst);
    if (deviations <= square(outlier_deviations)) break;
    const auto place = rows_.begin() + worst;
    dropped_.push_back({place->workload.key(), "outlier"});
    rows_.erase(place);
    solve();
  }
  if (rows_.size() < before) choose_spread();
}

bool OpRegression::is_outlier(const AggregateRow& measured) const {
  const Estimate expected = estimate(measured.workload, nullptr);
  const double apart = std::log(*measured.avg_time_mean) - expected.log_sec;
  return square(apart) > square(outlier_deviations) * expected.variance;
}

Eigen::MatrixXd OpRegression::covariance_of_rows(const ErrorSpread& errors) const {
  const auto n = static_cast<Eigen::Index>(rows_.size());
  Eigen::MatrixXd covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const OpError& row = rows_[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j <= i; ++j) {
      covariance(i, j) = covariance(j, i) = errors.covariance(row.place, rows_[static_cast<std::size_t>(j)].place);
    }
    covariance(i, i) += errors.variance_of_label(row) + 1e-10;
  }
  return covariance;
}

Eigen::VectorXd OpRegression::log_ratios() const {
  Eigen::VectorXd ratios(static_cast<Eigen::Index>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) ratios[static_cast<Eigen::Index>(i)] = rows_[i].log_ratio;
  return ratios;
}

void OpRegression::choose_spread() {
  const Eigen::VectorXd ratios = log_ratios();
  // The covariance is linear in the squares of scale and noise.
  const Eigen::MatrixXd base = covariance_of_rows({0, 0});
  const Eigen::MatrixXd by_scale = covariance_of_rows({1, 0}) - base;
  const Eigen::VectorXd by_noise = (covariance_of_rows({0, 1}) - base).diagonal();
  double best = HUGE_VAL;
  for (const double scale : {0.5, 0.7, 1.0, 1.4, 2.0}) {
    for (const double noise : {0.005, 0.01, 0.02, 0.03, 0.05, 0.1}) {
      Eigen::MatrixXd covariance = base + square(scale) * by_scale;
      covariance.diagonal() += square(noise) * by_noise;
      const Eigen::LLT<Eigen::MatrixXd> factor(covariance);
      const double half_log_determinant = factor.matrixLLT().diagonal().array().log().sum();
      const double prior = square(std::log(scale) / 0.5) / 2 + square(std::log(noise / 0.03) / 0.7) / 2;
      const double posterior = half_log_determinant + ratios.dot(factor.solve(ratios)) / 2 + prior;
      if (posterior < best) {
        best = posterior;
        spread_ = {scale, noise};
      }
    }
  }
  solve();
}

void OpRegression::solve() {
  factor_.compute(covariance_of_rows(spread_));
  alpha_ = factor_.solve(log_ratios());
}

OpRegression::Estimate OpRegression::estimate(const Workload& workload, const OpGraph* step) const {
  Estimate estimate{prior_->view(workload, step)};
  const OpPlace place = place_of(workload, estimate.view);
  estimate.log_sec = estimate.view.log_sec();
  estimate.variance = spread_.covariance(place, place);
  if (rows_.empty()) return estimate;
  Eigen::VectorXd shared(alpha_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    shared[static_cast<Eigen::Index>(i)] = spread_.covariance(place, rows_[i].place);
  }
  estimate.log_sec += shared.dot(alpha_);
  estimate.variance += square(spread_.noise) - factor_.matrixL().solve(shared).squaredNorm();
  return estimate;
}

JointNormal OpRegression::joint(std::span<const Workload> workloads) const {
  const auto n = static_cast<Eigen::Index>(workloads.size()), known = static_cast<Eigen::Index>(rows_.size());
  JointNormal joint{Eigen::VectorXd(n), Eigen::MatrixXd(n, n)};
  std::vector<OpPlace> places;
  Eigen::MatrixXd shared(known, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Workload& workload = workloads[static_cast<std::size_t>(i)];
    const OpView view = prior_->view(workload, nullptr);
    places.push_back(place_of(workload, view));
    for (Eigen::Index k = 0; k < known; ++k) {
      shared(k, i) = spread_.covariance(rows_[static_cast<std::size_t>(k)].place, places.back());
    }
    for (Eigen::Index j = 0; j <= i; ++j) {
      joint.covariance(i, j) = joint.covariance(j, i) =
          spread_.covariance(places.back(), places[static_cast<std::size_t>(j)]);
    }
    joint.mean[i] = view.log_sec();
  }
  if (known == 0) return joint;
  joint.mean += shared.transpose() * alpha_;
  const Eigen::MatrixXd explained = factor_.matrixL().solve(shared);
  joint.covariance -= explained.transpose() * explained;
  return joint;
}

}  // namespace perfpred
