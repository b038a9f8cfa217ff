// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <cstddef>
#include <span>
#include <vector>

#include "model/hybrid/step_shape.h"
#include "statistics/gaussian_process.h"

namespace perfpred {

/// Places as a matrix, one row each.
[[nodiscard]] Eigen::MatrixXd place_matrix(std::span<const Place> places);

/// Covariance of the residuals of two workloads. d is the difference of an input over its length scale:
/// sf^2 exp(-sum_architecture (r |d| + (1 - r) d^2 / 2) - sum_others d^2 / 2).
/// The rough share r is fitted: r = 0 is a squared exponential, r = 1 an exponential kernel, with which one depth or
/// width says less about the next.
struct ResidualKernel {
  static constexpr int inputs = static_cast<int>(PlaceInput::count);
  static constexpr int architecture_inputs = static_cast<int>(PlaceInput::log2_batch);
  static constexpr int parameters = inputs + 3;
  using Parameters = Eigen::Matrix<double, parameters, 1>;

  Parameters theta;  ///< logs of the length scales, of the amplitude sf, of the noise of a single run; the logit of r

  [[nodiscard]] double amplitude2() const;
  [[nodiscard]] double noise2() const;
  [[nodiscard]] double rough_share() const;  ///< r

  /// Inputs divided by their length scales, one input per column. covariance() takes scaled inputs.
  [[nodiscard]] Eigen::MatrixXd scaled(const Eigen::MatrixXd& places) const;
  [[nodiscard]] Eigen::MatrixXd covariance(const Eigen::MatrixXd& scaled_a, const Eigen::MatrixXd& scaled_b) const;
  /// Covariance of each row of `scaled` with one scaled place, and its logarithm; they allocate nothing.
  void covariance_column(const Eigen::Ref<const Eigen::MatrixXd>& scaled, const double* place, double* out) const;
  void log_covariance_column(const Eigen::Ref<const Eigen::MatrixXd>& scaled, const double* place, double* out) const;
  /// The variances of labels, and a jitter of 1e-10.
  /// @param noise  variance of each row in units of a single run's
  [[nodiscard]] Eigen::VectorXd label_variance(const Eigen::VectorXd& noise) const;
  /// The covariance of rows with the variances of their labels on the diagonal.
  [[nodiscard]] Eigen::MatrixXd with_noise(Eigen::MatrixXd covariance, const Eigen::VectorXd& noise) const;
};

/// The inputs of rows over the kernel's length scales (GaussianProcess).
class ResidualInputs {
 public:
  using Input = Place;  ///< over the length scales

  ResidualInputs() = default;
  /// @param places  rows x inputs
  ResidualInputs(const ResidualKernel& kernel, const Eigen::MatrixXd& places);

  /// A place over the length scales.
  [[nodiscard]] Input scaled(const Place& place) const;
  [[nodiscard]] Eigen::Index size() const { return scaled_.rows(); }
  [[nodiscard]] Input of(Eigen::Index row) const;
  [[nodiscard]] double covariance(const Input& a, const Input& b) const;
  void column(const Input& input, double* out, Eigen::Index first = 0) const {
    kernel_.covariance_column(scaled_.bottomRows(size() - first), input.data(), out);
  }
  template <class Skip>
  [[nodiscard]] NearestRows nearest(const Input& input, const Skip& skip) const {
    thread_local std::vector<double> log_covariance;
    log_covariance.resize(static_cast<std::size_t>(size()));
    kernel_.log_covariance_column(scaled_, input.data(), log_covariance.data());
    return {size(), [&](Eigen::Index row) { return log_covariance[static_cast<std::size_t>(row)]; }, skip};
  }
  [[nodiscard]] NearCovariance among(const NearestRows& rows, const Input& input) const;

 private:
  ResidualKernel kernel_;
  Place per_length_{};
  Eigen::MatrixXd scaled_;
};

/// What measured rows tell about the residuals.
using ResidualProcess = GaussianProcess<ResidualInputs>;

/// Log-normal priors of a kernel's parameters; the rough share has a uniform prior.
struct KernelPrior {
  double length = 3;         ///< of every input
  double amplitude = 0.05;   ///< relative
  double run_noise = 0.008;  ///< relative standard deviation of a single run
  double deviation = 0.7;    ///< of the log of each
};

/// Maximum a posteriori hyper-parameters of a zero-mean process, by L-BFGS with gradients.
/// @param places  n x inputs
/// @param noise   variance of each row in units of a single run's
[[nodiscard]] ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                                        const Eigen::VectorXd& noise, const KernelPrior& prior,
                                        const ResidualKernel* start = nullptr);

/// The negative log posterior that fit_kernel() minimises, and its gradient.
[[nodiscard]] double kernel_objective(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                      const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                                      const KernelPrior& prior, ResidualKernel::Parameters* gradient);

/// Posterior covariance of the parameters at the maximum `kernel`, from the curvature there (Laplace approximation).
using KernelCovariance = Eigen::Matrix<double, ResidualKernel::parameters, ResidualKernel::parameters>;
[[nodiscard]] KernelCovariance laplace_covariance(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                                  const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                                                  const KernelPrior& prior);

/// Approximates fit_kernel() on a part of the rows that `kernel` and its `covariance` were fitted on, for the price of
/// one gradient: one Newton step, at most one prior deviation long (approximate cross-validation: Beirami et al.,
/// NeurIPS 2017).
[[nodiscard]] ResidualKernel refit_kernel(const ResidualKernel& kernel, const KernelCovariance& covariance,
                                          const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                                          const Eigen::VectorXd& noise, const KernelPrior& prior);

}  // namespace perfpred
