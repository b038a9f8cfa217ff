#include "gaussian_process.h"

#include <perfpred/error.h>

#include <nlopt.hpp>

#include <cmath>

namespace perfpred {
namespace {

constexpr double prior_amplitude_deviation = 0.7;  // of logs
constexpr double prior_noise_deviation = 0.5;
constexpr double jitter = 1e-10;
constexpr int most_evaluations = 40;

ResidualKernel::Parameters prior_mean(const KernelPrior& prior) {
  ResidualKernel::Parameters mean;
  mean << prior.architecture_length, prior.architecture_length, prior.batch_length, prior.power_of_two_length,
      prior.positions_length, prior.amplitude, prior.run_noise;
  return mean.array().log();
}

ResidualKernel::Parameters prior_deviation(const KernelPrior& prior) {
  ResidualKernel::Parameters deviation;
  deviation.setConstant(prior.length_deviation);
  deviation[ResidualKernel::inputs] = prior_amplitude_deviation;
  deviation[ResidualKernel::inputs + 1] = prior_noise_deviation;
  return deviation;
}

}  // namespace

double ResidualKernel::amplitude2() const { return std::exp(2 * theta[inputs]); }
double ResidualKernel::noise2() const { return std::exp(2 * theta[inputs + 1]); }

Eigen::MatrixXd ResidualKernel::scaled(const Eigen::MatrixXd& places) const {
  return places * (-theta.head<inputs>()).array().exp().matrix().asDiagonal();
}

Eigen::MatrixXd ResidualKernel::covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const {
  Eigen::MatrixXd exponent = Eigen::MatrixXd::Zero(a.rows(), b.rows());
  for (int input = 0; input < inputs; ++input) {
    for (Eigen::Index j = 0; j < b.rows(); ++j) {
      const auto difference = a.col(input).array() - b(j, input);
      if (input < rough) {
        exponent.col(j).array() -= difference.abs();
      } else {
        exponent.col(j).array() -= 0.5 * difference.square();
      }
    }
  }
  return amplitude2() * exponent.array().exp();
}

double kernel_objective(const ResidualKernel& kernel, const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                        const Eigen::VectorXd& noise, const KernelPrior& prior, ResidualKernel::Parameters* gradient) {
  const Eigen::Index n = places.rows();
  const Eigen::MatrixXd scaled = kernel.scaled(places);
  const Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  Eigen::MatrixXd noisy = covariance;
  noisy.diagonal() += kernel.noise2() * noise + Eigen::VectorXd::Constant(n, jitter);
  const Eigen::LLT<Eigen::MatrixXd> factor(noisy);
  const Eigen::VectorXd alpha = factor.solve(residuals);
  double objective = 0.5 * residuals.dot(alpha) + Eigen::MatrixXd(factor.matrixL()).diagonal().array().log().sum();
  const ResidualKernel::Parameters away = (kernel.theta - prior_mean(prior)).cwiseQuotient(prior_deviation(prior));
  objective += 0.5 * away.squaredNorm();
  if (gradient != nullptr) {
    // d/dp = -1/2 sum_ij (alpha alpha' - K^-1)_ij dK_ij/dp
    const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(n, n));
    const Eigen::MatrixXd weight = (alpha * alpha.transpose() - inverse).cwiseProduct(covariance);
    for (int input = 0; input < ResidualKernel::inputs; ++input) {
      double sum = 0;
      for (Eigen::Index j = 0; j < n; ++j) {
        const auto difference = scaled.col(input).array() - scaled(j, input);
        sum += input < kernel.rough ? (weight.col(j).array() * difference.abs()).sum()
                                    : (weight.col(j).array() * difference.square()).sum();
      }
      (*gradient)[input] = -0.5 * sum;
    }
    (*gradient)[ResidualKernel::inputs] = -weight.sum();
    (*gradient)[ResidualKernel::inputs + 1] =
        -kernel.noise2() * (alpha.array().square() - inverse.diagonal().array()).matrix().dot(noise);
    *gradient += away.cwiseQuotient(prior_deviation(prior));
  }
  return objective;
}

ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                          const KernelPrior& prior, const ResidualKernel* start) {
  struct Problem {
    const Eigen::MatrixXd& places;
    const Eigen::VectorXd& residuals;
    const Eigen::VectorXd& noise;
    const KernelPrior& prior;
  } problem{places, residuals, noise, prior};
  nlopt::opt search(nlopt::LD_LBFGS, ResidualKernel::parameters);
  search.set_min_objective(
      [](const std::vector<double>& x, std::vector<double>& gradient, void* data) {
        const auto& given = *static_cast<Problem*>(data);
        const ResidualKernel::Parameters theta = Eigen::Map<const ResidualKernel::Parameters>(x.data());
        ResidualKernel::Parameters slope;
        const double value = kernel_objective({theta, given.prior.rough}, given.places, given.residuals, given.noise,
                                              given.prior, gradient.empty() ? nullptr : &slope);
        std::copy(slope.data(), slope.data() + gradient.size(), gradient.begin());
        return value;
      },
      &problem);
  search.set_ftol_abs(1e-3);  // of a log posterior
  search.set_maxeval(most_evaluations);
  const ResidualKernel::Parameters from = start != nullptr ? start->theta : prior_mean(prior);
  const ResidualKernel::Parameters reach = 8 * prior_deviation(prior);
  const ResidualKernel::Parameters low = prior_mean(prior) - reach, high = prior_mean(prior) + reach;
  search.set_lower_bounds({low.data(), low.data() + low.size()});
  search.set_upper_bounds({high.data(), high.data() + high.size()});
  std::vector<double> x(from.data(), from.data() + from.size());
  double value = 0;
  try {
    search.optimize(x, value);
  } catch (const nlopt::roundoff_limited&) {
    // As near as the arithmetic goes; x holds the best point.
  } catch (const std::exception& error) {
    throw Error(std::string("the search for the residual process's parameters failed: ") + error.what());
  }
  return {Eigen::Map<const ResidualKernel::Parameters>(x.data()), prior.rough};
}

}  // namespace perfpred
