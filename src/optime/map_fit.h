// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <functional>

namespace perfpred {

/// Parameters with independent normal priors, and measurements whose errors have longer tails than the normal
/// distribution: small errors count by their square, errors beyond `knee` by their size (Huber 1964).
struct MapProblem {
  Eigen::VectorXd prior, deviation;  ///< of each parameter
  Eigen::VectorXd measured;
  Eigen::VectorXd weight;  ///< of each measurement, >= 0
  double knee = 0.08;
  double noise = 0.1;  ///< scale of the errors
  /// Fills `predicted`, and unless it is null `slopes` (measurements x parameters).
  std::function<void(const Eigen::VectorXd& parameters, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes)> predict;
};

/// The parameters of greatest posterior density, by Levenberg and Marquardt's method with reweighting.
[[nodiscard]] Eigen::VectorXd fit_map(const MapProblem& problem, int max_steps);

}  // namespace perfpred
