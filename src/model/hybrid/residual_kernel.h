// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>

namespace perfpred {

/// Covariance of the residual of two workloads, d their difference over the length of each input:
/// sf^2 exp(-sum_architecture (r |d| + (1 - r) d^2 / 2) - sum_others d^2 / 2).
/// The first two inputs are the architecture's. How rough the residual is there (r = 1: what one depth or width shows
/// says less of the next than a squared exponential has it) the rows decide.
struct PERFPRED_API ResidualKernel {
  static constexpr int inputs = 5;
  static constexpr int architecture_inputs = 2;
  static constexpr int parameters = inputs + 3;
  using Parameters = Eigen::Matrix<double, parameters, 1>;

  Parameters theta;  ///< logs of the lengths, of the amplitude sf, of the noise of a single run; the logit of r

  [[nodiscard]] double amplitude2() const;
  [[nodiscard]] double noise2() const;
  [[nodiscard]] double rough_share() const;  ///< r

  /// Inputs divided by their lengths, an input a column. The covariance of scaled inputs follows without lengths.
  [[nodiscard]] Eigen::MatrixXd scaled(const Eigen::MatrixXd& places) const;
  [[nodiscard]] Eigen::MatrixXd covariance(const Eigen::MatrixXd& scaled_a, const Eigen::MatrixXd& scaled_b) const;
  /// Of scaled places with one: a number a row of `scaled`, nothing allocated.
  void covariance_column(const Eigen::MatrixXd& scaled, const double* place, double* out) const;
};

/// What is assumed of a kernel before rows are seen: log-normal priors, and any rough share as likely as another.
struct KernelPrior {
  double length = 3;         ///< of every input
  double amplitude = 0.05;   ///< relative
  double run_noise = 0.008;  ///< relative standard deviation of a single run
  double deviation = 0.7;    ///< of the log of each
};

/// Maximum a posteriori hyper-parameters of a zero-mean process, by L-BFGS with gradients.
/// @param places  n x inputs
/// @param noise   variance of each row in units of a single run's
[[nodiscard]] PERFPRED_API ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                                                     const Eigen::VectorXd& noise, const KernelPrior& prior,
                                                     const ResidualKernel* start = nullptr);

/// The negative log posterior and its gradient, for that search.
[[nodiscard]] PERFPRED_API double kernel_objective(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                                   const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                                                   const KernelPrior& prior, ResidualKernel::Parameters* gradient);

/// Of the parameters under their posterior at its maximum `kernel`, by its curvature there (Laplace).
using KernelCovariance = Eigen::Matrix<double, ResidualKernel::parameters, ResidualKernel::parameters>;
[[nodiscard]] PERFPRED_API KernelCovariance laplace_covariance(const ResidualKernel& kernel,
                                                               const Eigen::MatrixXd& places,
                                                               const Eigen::VectorXd& residuals,
                                                               const Eigen::VectorXd& noise, const KernelPrior& prior);

/// Nearly what fit_kernel() finds for some of the rows that `kernel` and its `covariance` are of, for one gradient: a
/// Newton step, of at most a prior deviation (approximate cross-validation: Beirami et al., NeurIPS 2017).
[[nodiscard]] PERFPRED_API ResidualKernel refit_kernel(const ResidualKernel& kernel, const KernelCovariance& covariance,
                                                       const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                                                       const Eigen::VectorXd& noise, const KernelPrior& prior);

}  // namespace perfpred
