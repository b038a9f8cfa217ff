// SPDX-License-Identifier: Apache-2.0
#include "optime/map_fit.h"

#include <Eigen/Cholesky>

#include <cmath>
#include <utility>

namespace perfpred {
namespace {

double cost(const MapProblem& problem, const Eigen::VectorXd& parameters, const Eigen::VectorXd& residual) {
  double sum = 0;
  for (Eigen::Index i = 0; i < residual.size(); ++i) {
    const double size = std::abs(residual[i]);
    sum += problem.weight[i] * (size < problem.knee ? size * size / (2 * problem.knee) : size - problem.knee / 2);
  }
  return sum / problem.noise + 0.5 * ((parameters - problem.prior).array() / problem.deviation.array()).square().sum();
}

/// Weights of squared errors with which reweighting arrives at Huber's loss.
Eigen::VectorXd huber_weights(const MapProblem& problem, const Eigen::VectorXd& residual) {
  return problem.weight.array() / (residual.array().abs().max(problem.knee) * problem.noise);
}

}  // namespace

MapProblem::MapProblem(std::span<const NormalPrior> priors, std::size_t measurements)
    : prior(static_cast<Eigen::Index>(priors.size())),
      deviation(prior.size()),
      measured(static_cast<Eigen::Index>(measurements)),
      weight(Eigen::VectorXd::Ones(measured.size())) {
  for (std::size_t i = 0; i < priors.size(); ++i) {
    prior[static_cast<Eigen::Index>(i)] = priors[i].mean;
    deviation[static_cast<Eigen::Index>(i)] = priors[i].deviation;
  }
}

std::function<void(const Eigen::VectorXd&, Eigen::VectorXd&, Eigen::MatrixXd*)> by_differences(
    std::function<void(const Eigen::VectorXd& parameters, Eigen::VectorXd& predicted)> values) {
  return [values = std::move(values)](const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
    values(x, predicted);
    if (slopes == nullptr) return;
    Eigen::VectorXd moved = x, others(predicted.size());
    for (Eigen::Index p = 0; p < x.size(); ++p) {
      moved[p] += difference_step;
      values(moved, others);
      slopes->col(p) = (others - predicted) / difference_step;
      moved[p] = x[p];
    }
  };
}

Eigen::VectorXd fit_map(const MapProblem& problem, int max_steps) { return fit_map(problem, problem.prior, max_steps); }

Eigen::VectorXd fit_map(const MapProblem& problem, Eigen::VectorXd parameters, int max_steps) {
  const Eigen::Index n = problem.measured.size();
  const Eigen::ArrayXd precision = problem.deviation.array().square().inverse();
  Eigen::VectorXd predicted(n), weights(n);
  Eigen::MatrixXd slopes(n, parameters.size());
  double damping = 1e-2, best = 0;
  for (int step = 0; step < max_steps; ++step) {
    problem.predict(parameters, predicted, &slopes);
    const Eigen::VectorXd residual = problem.measured - predicted;
    best = cost(problem, parameters, residual);
    weights = huber_weights(problem, residual);
    Eigen::MatrixXd curvature = slopes.transpose() * weights.asDiagonal() * slopes;
    curvature.diagonal().array() += precision;
    const Eigen::VectorXd gradient = slopes.transpose() * weights.cwiseProduct(residual) -
                                     (precision * (parameters - problem.prior).array()).matrix();
    bool improved = false;
    double gain = 0;
    for (int attempt = 0; attempt < 8 && !improved; ++attempt) {
      Eigen::MatrixXd damped = curvature;
      damped.diagonal() *= 1 + damping;
      const Eigen::VectorXd change = damped.ldlt().solve(gradient).cwiseMax(-1).cwiseMin(1);
      const Eigen::VectorXd moved = parameters + change;
      problem.predict(moved, predicted, nullptr);
      const double value = cost(problem, moved, problem.measured - predicted);
      if (value < best) {
        improved = true;
        gain = best - value;
        parameters = moved;
        damping = std::max(damping / 5, 1e-6);
      } else {
        damping *= 4;
      }
    }
    if (!improved || gain < 1e-8 * best) break;
  }
  return parameters;
}

LeaveOut::LeaveOut(const MapProblem& problem, Eigen::VectorXd parameters)
    : problem_(problem), parameters_(std::move(parameters)), slopes_(problem.measured.size(), parameters_.size()) {
  Eigen::VectorXd predicted(problem.measured.size());
  problem.predict(parameters_, predicted, &slopes_);
  residual_ = problem.measured - predicted;
  weights_ = huber_weights(problem, residual_);
  curvature_ = slopes_.transpose() * weights_.asDiagonal() * slopes_;
  curvature_.diagonal().array() += problem.deviation.array().square().inverse();
}

Eigen::VectorXd LeaveOut::parameters_without(const std::vector<Eigen::Index>& left_out) const {
  if (static_cast<Eigen::Index>(left_out.size()) > problem_.measured.size() / 10) {
    MapProblem others = problem_;
    others.weight(left_out).setZero();
    return fit_map(others, parameters_, 5);
  }
  const Eigen::MatrixXd slopes = slopes_(left_out, Eigen::all);
  const Eigen::MatrixXd pull = slopes.transpose() * weights_(left_out).asDiagonal();
  const Eigen::VectorXd change = -(curvature_ - pull * slopes).ldlt().solve(pull * residual_(left_out));
  return parameters_ + change.cwiseMax(-1).cwiseMin(1);
}

}  // namespace perfpred
