#pragma once
#include <perfpred/export.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>

namespace perfpred {

/// Covariance of the residual of two workloads: sf^2 exp(-sum_rough |d|/l - sum_smooth d^2/(2 l^2)), a length per input.
/// The architecture is rough (what one depth or width shows says less of the next), the batch smooth.
struct PERFPRED_API ResidualKernel {
  static constexpr int inputs = 5;
  static constexpr int rough_inputs = 2;
  static constexpr int parameters = inputs + 2;
  using Parameters = Eigen::Matrix<double, parameters, 1>;  ///< logs: lengths, amplitude sf, noise of a single run

  Parameters theta;

  [[nodiscard]] double amplitude2() const;
  [[nodiscard]] double noise2() const;

  /// Inputs divided by their lengths, an input a column. The covariance of scaled inputs follows without lengths.
  [[nodiscard]] Eigen::MatrixXd scaled(const Eigen::MatrixXd& places) const;
  [[nodiscard]] Eigen::MatrixXd covariance(const Eigen::MatrixXd& scaled_a, const Eigen::MatrixXd& scaled_b) const;
};

/// Maximum a posteriori hyper-parameters (log-normal priors) of a zero-mean process, by L-BFGS with gradients.
/// @param places   n x inputs
/// @param noise      variance of each row in units of a single run's
/// @param run_noise  relative standard deviation of a single run, as far as it is known beforehand
[[nodiscard]] PERFPRED_API ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                                                     const Eigen::VectorXd& noise, double run_noise,
                                                     const ResidualKernel* start = nullptr);

/// The negative log posterior and its gradient, for that search.
[[nodiscard]] PERFPRED_API double kernel_objective(const ResidualKernel::Parameters& theta, const Eigen::MatrixXd& places,
                                                   const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                                                   double run_noise, ResidualKernel::Parameters* gradient);

}  // namespace perfpred
