// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "optime/normal_prior.h"

namespace perfpred {

/// Parameters with independent normal priors, and measurements whose errors have longer tails than the normal
/// distribution: small errors count by their square, errors beyond `knee` by their size (Huber 1964).
struct MapProblem {
  MapProblem() = default;
  /// So many measurements, which are still to be filled in, with weights of 1.
  MapProblem(std::span<const NormalPrior> priors, std::size_t measurements);

  Eigen::VectorXd prior, deviation;  ///< of each parameter
  Eigen::VectorXd measured;
  Eigen::VectorXd weight;  ///< of each measurement, >= 0
  double knee = 0.08;
  double noise = 0.1;  ///< scale of the errors
  /// Fills `predicted`, and unless it is null `slopes` (measurements x parameters).
  std::function<void(const Eigen::VectorXd& parameters, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes)> predict;
};

/// MapProblem::predict of a function that fills `predicted`: slopes are differences.
[[nodiscard]] std::function<void(const Eigen::VectorXd&, Eigen::VectorXd&, Eigen::MatrixXd*)> by_differences(
    std::function<void(const Eigen::VectorXd& parameters, Eigen::VectorXd& predicted)> values);
inline constexpr double difference_step = 1e-4;  ///< of parameters that are logarithms

/// The parameters of greatest posterior density, by Levenberg and Marquardt's method with reweighting.
[[nodiscard]] Eigen::VectorXd fit_map(const MapProblem& problem, int max_steps);

/// Same, starting from `parameters` instead of the prior means.
[[nodiscard]] Eigen::VectorXd fit_map(const MapProblem& problem, Eigen::VectorXd parameters, int max_steps);

/// Fits without some of the measurements. If these are more than a tenth, the others are fitted anew; else by one step
/// of Newton's method from the fit of all, exact where the prediction is linear and all errors are on one side of the
/// knee.
class LeaveOut {
 public:
  LeaveOut(const MapProblem& problem, Eigen::VectorXd parameters);  ///< the problem must outlive this
  /// The parameters without these measurements. Of Newton's step none moves by more than 1.
  [[nodiscard]] Eigen::VectorXd parameters_without(const std::vector<Eigen::Index>& left_out) const;

 private:
  const MapProblem& problem_;
  Eigen::VectorXd parameters_, residual_, weights_;
  Eigen::MatrixXd slopes_, curvature_;
};

}  // namespace perfpred
