// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <vector>

namespace perfpred {

/// Runs of uncertain length for one device. The time of a set S of runs has mean M(S) and variance D(S)^2. The set
/// keeps the budget with the wanted probability if
///   M(S) + z D(S) + max(0, z^2 - 1)/2 * D(S)^2 / M'(S)  <=  budget,
/// z the normal quantile of that probability and M' the mean without the fixed parts: the expansion of Cornish and
/// Fisher (1938) of the quantile of a sum of log-normal times, whose skewness is 3 D/M' to first order, without its
/// negative terms.
struct ChanceProblem {
  std::vector<double> values;  ///< >= 0, finite
  Eigen::VectorXd mean;        ///< of the random part of each run's seconds, > 0
  Eigen::VectorXd fixed;       ///< seconds of each run that are certain, >= 0
  Eigen::MatrixXd covariance;  ///< of the random parts, seconds^2; positive semi-definite
  double z = 0;                ///< >= 0
  double budget = 0;           ///< seconds, > 0

  /// The left side of the constraint. `share` has one weight in [0, 1] for each run.
  [[nodiscard]] double needed(const Eigen::VectorXd& share) const;

  [[nodiscard]] static double needed(double fixed, double random, double variance, double z);

  /// Gradient of needed() at a point other than 0. needed() is convex and homogeneous, so slopes * x <= needed(x).
  [[nodiscard]] Eigen::VectorXd slopes(const Eigen::VectorXd& share) const;
};

/// A linear relaxation of the constraint: slopes * x <= room. Runs with a negative slope cost nothing; their slack is
/// added to the room, so that every set that keeps the constraint still fits.
struct Tangent {
  Eigen::VectorXd slopes;  ///< >= 0
  double room = 0;
};

[[nodiscard]] Tangent tangent_at(const ChanceProblem& problem, const Eigen::VectorXd& share);

/// Values that differ by a smaller share count as equal.
inline constexpr double chance_tolerance = 1e-12;

/// A point of the next tangent: the relaxation's last solution at first, then a running mean of its solutions.
[[nodiscard]] Eigen::VectorXd next_point(const Eigen::VectorXd& at, const Eigen::VectorXd& solution, int round);

}  // namespace perfpred
