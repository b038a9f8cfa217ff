// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <cstddef>
#include <vector>

#include "model/hybrid/residual_kernel.h"
#include "model/nearest_rows.h"

namespace perfpred {

/// Inverse of the Cholesky factor of the rows' covariance, noise included.
/// @param noise  variance of each row in units of a single run's
/// @throws ModelError if the covariance is not positive definite
[[nodiscard]] Eigen::MatrixXd inverse_factor_of(const ResidualKernel& kernel, const Eigen::MatrixXd& scaled,
                                                const Eigen::VectorXd& noise);
/// covariance^-1 * residuals
[[nodiscard]] Eigen::VectorXd solved(const Eigen::MatrixXd& inverse_factor, const Eigen::VectorXd& residuals);

/// The residual process given measured rows: exact, or by the nearest rows if there are more than exact_rows.
class ResidualPosterior {
 public:
  /// At one place.
  struct At {
    double correction = 0;  ///< mean of what the cost model leaves over
    double variance = 0;    ///< of the process, noise excluded
  };
  /// At several places.
  struct Joint {
    Eigen::VectorXd corrections;
    Eigen::MatrixXd covariance;
  };

  ResidualPosterior() = default;
  /// Takes O(rows^3) if it is exact.
  /// @param places     rows x inputs
  /// @param noise      variance of each row in units of a single run's
  /// @throws ModelError if the covariance of the rows is not positive definite
  ResidualPosterior(const ResidualKernel& kernel, const Eigen::MatrixXd& places, const Eigen::VectorXd& noise,
                    Eigen::VectorXd residuals, std::size_t max_exact = exact_rows);

  [[nodiscard]] At at(const Place& place) const;  ///< allocates nothing up to exact_rows rows
  [[nodiscard]] std::vector<At> at(const Eigen::MatrixXd& places) const;
  /// By the nearest rows this is the exact covariance of their predictions' errors.
  [[nodiscard]] Joint joint(const Eigen::MatrixXd& places) const;

  /// What the nearest other rows tell about a row, without those that are gone.
  [[nodiscard]] At at_row(std::size_t row, const std::vector<bool>& gone, NearestRows& others) const;
  /// Variance of a row's label about the process.
  [[nodiscard]] double label_variance(std::size_t row) const { return noise_[static_cast<Eigen::Index>(row)]; }

 private:
  ResidualKernel kernel_;
  Eigen::MatrixXd scaled_;  // places over the kernel's length scales
  Eigen::VectorXd noise_;   // variances
  Eigen::VectorXd residuals_;
  Eigen::MatrixXd inverse_factor_;  // of the Cholesky factor of the rows' covariance; empty if there are many rows
  Eigen::VectorXd alpha_;           // covariance^-1 * residuals

  [[nodiscard]] bool is_exact() const { return inverse_factor_.size() != 0; }
  /// @param skip  bool(row)
  template <class Skip>
  [[nodiscard]] NearestRows nearest(const Place& scaled, const Skip& skip) const;
  [[nodiscard]] At by_rows(const Place& scaled, const NearestRows& rows, NearVector& weights) const;
};

}  // namespace perfpred
