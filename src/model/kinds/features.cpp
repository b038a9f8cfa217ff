// SPDX-License-Identifier: Apache-2.0
#include "model/kinds/features.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "text/model_json.h"
#include "text/parse.h"

namespace perfpred {

Features features_of(const Workload& workload) {
  const auto depth = workload.depth(), base_filters = workload.base_filters();
  if (!depth || !base_filters) {
    throw InputError(
        fmt::format("network \"{}\" has no depth and base_filters: this kind of model knows the cifar_cnn "
                    "family only",
                    shown(workload.network)));
  }
  return Features{{static_cast<double>(*depth), static_cast<double>(*base_filters),
                   std::log2(static_cast<double>(workload.batch_size)),
                   std::log10(static_cast<double>(workload.params())),
                   std::log10(static_cast<double>(workload.steps_per_epoch()))}};
}

Eigen::MatrixXd feature_matrix(std::span<const AggregateRow> rows) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(feature_names.size()));
  Eigen::Index i = 0;
  for (const AggregateRow& row : rows) matrix.row(i++) = features_of(row.workload).transpose();
  return matrix;
}

Eigen::VectorXd log_times(std::span<const AggregateRow> rows) {
  Eigen::VectorXd times(static_cast<Eigen::Index>(rows.size()));
  Eigen::Index i = 0;
  for (const AggregateRow& row : rows) times[i++] = std::log(*row.avg_time_mean);
  return times;
}

std::vector<Eigen::Index> shuffled_rows(Eigen::Index n, std::uint64_t seed) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

RowFold::RowFold(std::span<const Eigen::Index> order, std::size_t fold, std::size_t folds) {
  for (std::size_t i = 0; i < order.size(); ++i) (i % folds == fold ? out : in).push_back(order[i]);
}

Standardizer::Standardizer(const Eigen::MatrixXd& features) {
  mean = features.colwise().mean().transpose();
  inverse_scale = Features::Zero(mean.size());
  for (Eigen::Index column = 0; column < features.cols(); ++column) {
    const Eigen::ArrayXd centred = features.col(column).array() - mean[column];
    const double scale = std::sqrt(centred.square().mean());
    const bool constant = scale <= 1e-12 * std::max(1.0, std::abs(mean[column]));
    inverse_scale[column] = constant ? 0.0 : 1.0 / scale;
  }
}

Eigen::MatrixXd Standardizer::design(const Eigen::MatrixXd& features) const {
  Eigen::MatrixXd rows(features.rows(), 1 + features.cols());
  rows.col(0).setOnes();
  rows.rightCols(features.cols()) =
      (features.rowwise() - mean.transpose()).array().rowwise() * inverse_scale.transpose().array();
  return rows;
}

Standardizer::Standardizer(const nlohmann::json& model, Eigen::Index features)
    : mean(json_vector(model, "mean", features)), inverse_scale(json_vector(model, "inverse_scale", features)) {}

FeatureTask FeatureTask::rows(std::span<const Eigen::Index> which) const {
  const std::vector<Eigen::Index> index(which.begin(), which.end());
  return {features(index, Eigen::all),
          Eigen::MatrixXd(0, features.cols()),
          log_times(index),
          {},
          seed,
          control,
          wants_interval};
}

}  // namespace perfpred
