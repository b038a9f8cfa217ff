// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/residual_kernel.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>

#include "statistics/minimum.h"

namespace perfpred {
namespace {

constexpr double jitter = 1e-10;
constexpr int max_evaluations = 40;

constexpr int amplitude = ResidualKernel::inputs, noise = amplitude + 1, rough = noise + 1;

/// Prior of every parameter but the logit of the rough share, whose entries only start and scale the search.
struct ParameterPrior {
  ResidualKernel::Parameters mean, deviation;

  explicit ParameterPrior(const KernelPrior& prior) {
    mean.setConstant(std::log(prior.length));
    mean[amplitude] = std::log(prior.amplitude);
    mean[noise] = std::log(prior.run_noise);
    mean[rough] = 0;
    deviation.setConstant(prior.deviation);
  }
};

}  // namespace

Eigen::MatrixXd place_matrix(std::span<const Place> places) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(places.size()), ResidualKernel::inputs);
  for (Eigen::Index i = 0; i < matrix.rows(); ++i)
    matrix.row(i) = Eigen::Map<const Eigen::RowVectorXd>(places[static_cast<std::size_t>(i)].data(), matrix.cols());
  return matrix;
}

double ResidualKernel::amplitude2() const { return std::exp(2 * theta[amplitude]); }
double ResidualKernel::noise2() const { return std::exp(2 * theta[noise]); }
double ResidualKernel::rough_share() const { return 1 / (1 + std::exp(-theta[rough])); }

Eigen::MatrixXd ResidualKernel::scaled(const Eigen::MatrixXd& places) const {
  return places * (-theta.head<inputs>()).array().exp().matrix().asDiagonal();
}

void ResidualKernel::log_covariance_column(const Eigen::Ref<const Eigen::MatrixXd>& scaled, const double* place,
                                           double* out) const {
  Eigen::Map<Eigen::ArrayXd> exponent(out, scaled.rows());
  exponent.setConstant(2 * theta[amplitude]);
  const double share = rough_share();
  for (int input = 0; input < inputs; ++input) {
    const auto difference = scaled.col(input).array() - place[input];
    if (input < architecture_inputs) {
      exponent -= share * difference.abs() + (0.5 - 0.5 * share) * difference.square();
    } else {
      exponent -= 0.5 * difference.square();
    }
  }
}

void ResidualKernel::covariance_column(const Eigen::Ref<const Eigen::MatrixXd>& scaled, const double* place,
                                       double* out) const {
  log_covariance_column(scaled, place, out);
  Eigen::Map<Eigen::ArrayXd> values(out, scaled.rows());
  values = values.exp();
}

Eigen::MatrixXd ResidualKernel::covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const {
  Eigen::MatrixXd all(a.rows(), b.rows());
  for (Eigen::Index j = 0; j < b.rows(); ++j) {
    const Eigen::Matrix<double, inputs, 1> place = b.row(j);
    covariance_column(a, place.data(), all.col(j).data());
  }
  return all;
}

Eigen::VectorXd ResidualKernel::label_variance(const Eigen::VectorXd& run_noise) const {
  return noise2() * run_noise + Eigen::VectorXd::Constant(run_noise.size(), jitter);
}

Eigen::MatrixXd ResidualKernel::with_noise(Eigen::MatrixXd covariance, const Eigen::VectorXd& run_noise) const {
  covariance.diagonal() += label_variance(run_noise);
  return covariance;
}

ResidualInputs::ResidualInputs(const ResidualKernel& kernel, const Eigen::MatrixXd& places)
    : kernel_(kernel), scaled_(kernel.scaled(places)) {
  for (std::size_t i = 0; i < per_length_.size(); ++i)
    per_length_[i] = std::exp(-kernel.theta[static_cast<Eigen::Index>(i)]);
}

Place ResidualInputs::scaled(const Place& place) const {
  Place scaled;
  for (std::size_t i = 0; i < place.size(); ++i) scaled[i] = place[i] * per_length_[i];
  return scaled;
}

Place ResidualInputs::of(Eigen::Index row) const {
  Place place;
  Eigen::Map<Eigen::RowVectorXd>(place.data(), scaled_.cols()) = scaled_.row(row);
  return place;
}

double ResidualInputs::covariance(const Place& a, const Place& b) const {
  double value = 0;
  kernel_.covariance_column(Eigen::Map<const Eigen::RowVectorXd>(a.data(), ResidualKernel::inputs), b.data(), &value);
  return value;
}

NearCovariance ResidualInputs::among(const NearestRows& rows, const Place& input) const {
  const Eigen::Index n = rows.size();
  Eigen::Matrix<double, Eigen::Dynamic, ResidualKernel::inputs, Eigen::ColMajor, NearestRows::max_rows> near(
      n, ResidualKernel::inputs);
  for (Eigen::Index k = 0; k < n; ++k) near.row(k) = scaled_.row(rows[k]);
  NearCovariance covariance{NearMatrix(n, n), NearVector(n)};
  for (Eigen::Index k = 0; k < n; ++k)
    kernel_.covariance_column(near.bottomRows(n - k), of(rows[k]).data(), &covariance.rows(k, k));
  kernel_.covariance_column(near, input.data(), covariance.asked.data());
  return covariance;
}

double kernel_objective(const ResidualKernel& kernel, const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                        const Eigen::VectorXd& run_noise, const KernelPrior& prior,
                        ResidualKernel::Parameters* gradient) {
  const Eigen::Index n = places.rows();
  const Eigen::MatrixXd scaled = kernel.scaled(places);
  const Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  const Eigen::LLT<Eigen::MatrixXd> factor(kernel.with_noise(covariance, run_noise));
  const Eigen::VectorXd alpha = factor.solve(residuals);
  double objective = 0.5 * residuals.dot(alpha) + Eigen::MatrixXd(factor.matrixL()).diagonal().array().log().sum();
  const ParameterPrior normal(prior);
  ResidualKernel::Parameters away = (kernel.theta - normal.mean).cwiseQuotient(normal.deviation);
  away[rough] = 0;
  // A uniform share has the density share (1 - share) of its logit.
  const double share = kernel.rough_share();
  objective += 0.5 * away.squaredNorm() - std::log(share * (1 - share));
  if (gradient != nullptr) {
    // d/dp = -1/2 sum_ij (alpha alpha' - K^-1)_ij dK_ij/dp
    const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(n, n));
    const Eigen::MatrixXd weight = (alpha * alpha.transpose() - inverse).cwiseProduct(covariance);
    *gradient = away.cwiseQuotient(normal.deviation);
    for (int input = 0; input < ResidualKernel::inputs; ++input) {
      double absolute = 0, square = 0;
      for (Eigen::Index j = 0; j < n; ++j) {
        const auto difference = scaled.col(input).array() - scaled(j, input);
        square += (weight.col(j).array() * difference.square()).sum();
        if (input < ResidualKernel::architecture_inputs) absolute += (weight.col(j).array() * difference.abs()).sum();
      }
      if (input < ResidualKernel::architecture_inputs) {
        (*gradient)[input] -= 0.5 * (share * absolute + (1 - share) * square);
        (*gradient)[rough] += 0.5 * share * (1 - share) * (absolute - 0.5 * square);
      } else {
        (*gradient)[input] -= 0.5 * square;
      }
    }
    (*gradient)[amplitude] -= weight.sum();
    (*gradient)[noise] -=
        kernel.noise2() * (alpha.array().square() - inverse.diagonal().array()).matrix().dot(run_noise);
    (*gradient)[rough] += 2 * share - 1;
  }
  return objective;
}

ResidualKernel fit_kernel(const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                          const Eigen::VectorXd& run_noise, const KernelPrior& prior, const ResidualKernel* start) {
  nlopt::opt search(nlopt::LD_LBFGS, ResidualKernel::parameters);
  search.set_ftol_abs(1e-3);  // of a log posterior
  search.set_maxeval(max_evaluations);
  const ParameterPrior normal(prior);
  const ResidualKernel::Parameters from = start != nullptr ? start->theta : normal.mean;
  const ResidualKernel::Parameters low = normal.mean - 8 * normal.deviation, high = normal.mean + 8 * normal.deviation;
  search.set_lower_bounds({low.data(), low.data() + low.size()});
  search.set_upper_bounds({high.data(), high.data() + high.size()});
  const std::vector<double> x =
      minimum(search, {from.data(), from.data() + from.size()}, [&](const double* at, double* gradient) {
        const ResidualKernel::Parameters theta = Eigen::Map<const ResidualKernel::Parameters>(at);
        ResidualKernel::Parameters slope;
        const double value =
            kernel_objective({theta}, places, residuals, run_noise, prior, gradient == nullptr ? nullptr : &slope);
        if (gradient != nullptr) std::copy(slope.data(), slope.data() + slope.size(), gradient);
        return value;
      });
  return {Eigen::Map<const ResidualKernel::Parameters>(x.data())};
}

KernelCovariance laplace_covariance(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                    const Eigen::VectorXd& residuals, const Eigen::VectorXd& run_noise,
                                    const KernelPrior& prior) {
  constexpr double apart = 1e-3;
  const auto slope_at = [&](int parameter, double by) {
    ResidualKernel moved = kernel;
    moved.theta[parameter] += by;
    ResidualKernel::Parameters slope;
    static_cast<void>(kernel_objective(moved, places, residuals, run_noise, prior, &slope));
    return slope;
  };
  const ResidualKernel::Parameters here = slope_at(0, 0);
  KernelCovariance curvature;
  for (int p = 0; p < ResidualKernel::parameters; ++p) curvature.col(p) = (slope_at(p, apart) - here) / apart;
  const Eigen::SelfAdjointEigenSolver<KernelCovariance> axes(0.5 * (curvature + curvature.transpose()));
  // Along every axis the rows tell at least as much as the prior.
  const double least = 1 / (prior.deviation * prior.deviation);
  return axes.eigenvectors() * axes.eigenvalues().cwiseMax(least).cwiseInverse().asDiagonal() *
         axes.eigenvectors().transpose();
}

ResidualKernel refit_kernel(const ResidualKernel& kernel, const KernelCovariance& covariance,
                            const Eigen::MatrixXd& places, const Eigen::VectorXd& residuals,
                            const Eigen::VectorXd& run_noise, const KernelPrior& prior) {
  ResidualKernel::Parameters slope;
  static_cast<void>(kernel_objective(kernel, places, residuals, run_noise, prior, &slope));
  const ResidualKernel::Parameters step = covariance * slope;
  return {kernel.theta - step.cwiseMax(-prior.deviation).cwiseMin(prior.deviation)};
}

}  // namespace perfpred
