// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <Eigen/Core>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/regressor_kind.h"

namespace perfpred {

/// Inputs of the kinds that have no cost model; defined for the cifar_cnn family only.
inline constexpr std::array<std::string_view, 5> feature_names = {"depth", "base_filters", "log2_batch_size",
                                                                  "log10_params", "log10_steps_per_epoch"};
inline constexpr int max_features = 32;
using Features = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, max_features, 1>;  ///< one row's inputs

/// @throws InputError if the network is not cifar_cnn
[[nodiscard]] Features features_of(const Workload& workload);

[[nodiscard]] Eigen::MatrixXd feature_matrix(std::span<const AggregateRow> rows);  ///< a row each
[[nodiscard]] Eigen::VectorXd log_times(std::span<const AggregateRow> rows);

/// What fitting on features takes. Kinds that stop early do so by the validation part, which may be empty.
struct FeatureTask {
  Eigen::MatrixXd features, val_features;  ///< a row each, at most max_features columns
  Eigen::VectorXd log_times, val_log_times;
  std::uint64_t seed = 0;
  FitControl control = {};
  bool wants_interval = true;  ///< otherwise the half width may stay 0, which saves fits

  /// Some of the rows, in this order, without a validation part.
  [[nodiscard]] FeatureTask rows(std::span<const Eigen::Index> which) const;
};

/// The numbers of n rows in a random order.
[[nodiscard]] std::vector<Eigen::Index> shuffled_rows(Eigen::Index n, std::uint64_t seed);

/// Rows of which every `folds`-th, from `fold` on, is left out of a fit.
struct RowFold {
  std::vector<Eigen::Index> in, out;

  RowFold(std::span<const Eigen::Index> order, std::size_t fold, std::size_t folds);
};

/// Standardises columns; constant ones become 0.
struct Standardizer {
  Features mean, inverse_scale;

  explicit Standardizer(const Eigen::MatrixXd& features);
  Standardizer(const nlohmann::json& model, Eigen::Index features);  ///< from the fields `mean` and `inverse_scale`
  Standardizer() = default;
  [[nodiscard]] Features operator()(const Features& features) const {
    return (features - mean).cwiseProduct(inverse_scale);
  }
  [[nodiscard]] Eigen::MatrixXd design(const Eigen::MatrixXd& features) const;  ///< rows of 1 and standardised features
};

}  // namespace perfpred
