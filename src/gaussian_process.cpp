#include "gaussian_process.h"

#include <perfpred/error.h>

#include <nlopt.hpp>

#include <cmath>

namespace perfpred {
namespace {

// Priors of the logs of lengths, amplitude and noise: residuals of physics are smooth over a few octaves, some percent
// large, and measured to a fraction of a percent.
const double prior_length = std::log(4.0);
const double prior_architecture_length = std::log(3.0);  // depths, octaves of width
const double prior_batch_length = std::log(2.0);  // octaves
constexpr double prior_length_deviation = 0.4;
const double prior_amplitude = std::log(0.06);
constexpr double prior_amplitude_deviation = 0.7;
constexpr double prior_noise_deviation = 0.5;
constexpr double jitter = 1e-10;
constexpr int most_evaluations = 40;

ResidualKernel::Parameters prior_mean(double run_noise) {
  ResidualKernel::Parameters mean;
  mean.setConstant(prior_length);
  mean.head<ResidualKernel::rough_inputs>().setConstant(prior_architecture_length);
  mean[2] = prior_batch_length;
  mean[ResidualKernel::inputs] = prior_amplitude;
  mean[ResidualKernel::inputs + 1] = std::log(run_noise);
  return mean;
}

ResidualKernel::Parameters prior_deviation() {
  ResidualKernel::Parameters deviation;
  deviation.setConstant(prior_length_deviation);
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
      if (input < rough_inputs) {
        exponent.col(j).array() -= difference.abs();
      } else {
        exponent.col(j).array() -= 0.5 * difference.square();
      }
    }
  }
  return amplitude2() * exponent.array().exp();
}

double kernel_objective(const ResidualKernel::Parameters& theta, const Eigen::MatrixXd& places,
                        const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise, double run_noise,
                        ResidualKernel::Parameters* gradient) {
  const ResidualKernel kernel{theta};
  const Eigen::Index n = places.rows();
  const Eigen::MatrixXd scaled = kernel.scaled(places);
  const Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  Eigen::MatrixXd noisy = covariance;
  noisy.diagonal() += kernel.noise2() * noise + Eigen::VectorXd::Constant(n, jitter);
  const Eigen::LLT<Eigen::MatrixXd> factor(noisy);
  const Eigen::VectorXd alpha = factor.solve(residuals);
  double objective = 0.5 * residuals.dot(alpha) + Eigen::MatrixXd(factor.matrixL()).diagonal().array().log().sum();
  const ResidualKernel::Parameters away = (theta - prior_mean(run_noise)).cwiseQuotient(prior_deviation());
  objective += 0.5 * away.squaredNorm();
  if (gradient != nullptr) {
    // d/dp = -1/2 sum_ij (alpha alpha' - K^-1)_ij dK_ij/dp
    const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(n, n));
    const Eigen::MatrixXd weight = (alpha * alpha.transpose() - inverse).cwiseProduct(covariance);
    for (int input = 0; input < ResidualKernel::inputs; ++input) {
      double sum = 0;
      for (Eigen::Index j = 0; j < n; ++j) {
        const auto difference = scaled.col(input).array() - scaled(j, input);
        sum += input < ResidualKernel::rough_inputs ? (weight.col(j).array() * difference.abs()).sum()
                                                    : (weight.col(j).array() * difference.square()).sum();
      }
      (*gradient)[input] = -0.5 * sum;
    }
    (*gradient)[ResidualKernel::inputs] = -weight.sum();
    (*gradient)[ResidualKernel::inputs + 1] =
        -kernel.noise2() * (alpha.array().square() - inverse.diagonal().array()).matrix().dot(noise);
    *gradient += away.cwiseQuotient(prior_deviation());
  }
  return objective;
}

ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals, const Eigen::VectorXd& noise,
                          double run_noise, const ResidualKernel* start) {
  struct Problem {
    const Eigen::MatrixXd& places;
    const Eigen::VectorXd& residuals;
    const Eigen::VectorXd& noise;
    double run_noise;
  } problem{places, residuals, noise, run_noise};
  nlopt::opt search(nlopt::LD_LBFGS, ResidualKernel::parameters);
  search.set_min_objective(
      [](const std::vector<double>& x, std::vector<double>& gradient, void* data) {
        const auto& given = *static_cast<Problem*>(data);
        const ResidualKernel::Parameters theta = Eigen::Map<const ResidualKernel::Parameters>(x.data());
        ResidualKernel::Parameters slope;
        const double value = kernel_objective(theta, given.places, given.residuals, given.noise,
                                              given.run_noise, gradient.empty() ? nullptr : &slope);
        std::copy(slope.data(), slope.data() + gradient.size(), gradient.begin());
        return value;
      },
      &problem);
  search.set_ftol_abs(1e-3);  // of a log posterior
  search.set_maxeval(most_evaluations);
  const ResidualKernel::Parameters from = start != nullptr ? start->theta : prior_mean(run_noise);
  const ResidualKernel::Parameters reach = 8 * prior_deviation();
  const ResidualKernel::Parameters low = prior_mean(run_noise) - reach, high = prior_mean(run_noise) + reach;
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
  return {Eigen::Map<const ResidualKernel::Parameters>(x.data())};
}

}  // namespace perfpred
