#pragma once
#include <perfpred/export.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>

namespace perfpred {

/// Covariance of the residual of two workloads: sf^2 exp(-sum_rough |d|/l - sum_smooth d^2/(2 l^2)), a length per
/// input. The first `rough` inputs are rough (what one depth or width shows says less of the next), the others smooth.
struct PERFPRED_API ResidualKernel {
  static constexpr int inputs = 5;
  static constexpr int parameters = inputs + 2;
  using Parameters = Eigen::Matrix<double, parameters, 1>;  ///< logs: lengths, amplitude sf, noise of a single run

  Parameters theta;
  int rough = 2;

  [[nodiscard]] double amplitude2() const;
  [[nodiscard]] double noise2() const;

  /// Inputs divided by their lengths, an input a column. The covariance of scaled inputs follows without lengths.
  [[nodiscard]] Eigen::MatrixXd scaled(const Eigen::MatrixXd& places) const;
  [[nodiscard]] Eigen::MatrixXd covariance(const Eigen::MatrixXd& scaled_a, const Eigen::MatrixXd& scaled_b) const;
};

/// What is assumed of a kernel before rows are seen: log-normal priors of its parameters.
struct KernelPrior {
  int rough = 2;                   ///< inputs that are rough: 2 (depth and width) or 0
  double architecture_length = 3;  ///< depths, octaves of width
  double batch_length = 3;         ///< octaves
  double power_of_two_length = 4;  ///< batches that are powers of two and others are 1 apart
  double positions_length = 4;     ///< octaves
  double length_deviation = 0.4;   ///< of a log length
  double amplitude = 0.05;         ///< relative
  double run_noise = 0.008;        ///< relative standard deviation of a single run
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

}  // namespace perfpred
