// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <Eigen/Core>

#include <array>
#include <span>
#include <string_view>

namespace perfpred {

/// What the kinds without physics see of a member of the CIFAR family.
inline constexpr std::array<std::string_view, 5> feature_names = {"depth", "base_filters", "log2_batch_size",
                                                                  "log10_params", "log10_steps_per_epoch"};
using Features = Eigen::Matrix<double, 5, 1>;

/// @throws InputError if the network is not cifar_cnn
[[nodiscard]] PERFPRED_API Features features_of(const Workload& workload);

[[nodiscard]] PERFPRED_API Eigen::MatrixXd feature_matrix(std::span<const AggregateRow> rows);  ///< a row each
[[nodiscard]] PERFPRED_API Eigen::VectorXd log_times(std::span<const AggregateRow> rows);

/// Standardises columns; constant ones become 0.
struct PERFPRED_API Standardizer {
  Features mean = Features::Zero();
  Features inverse_scale = Features::Zero();

  explicit Standardizer(const Eigen::MatrixXd& features);
  Standardizer() = default;
  [[nodiscard]] Features operator()(const Features& features) const {
    return (features - mean).cwiseProduct(inverse_scale);
  }
};

}  // namespace perfpred
