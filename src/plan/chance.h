// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <cstdint>
#include <span>

#include "plan/assignment.h"

namespace perfpred {

/// Times of uncertain length on one device. The time of a set S of runs has mean M(S) and variance D(S)^2. The set
/// keeps a budget with the wanted probability if
///   M(S) + z D(S) + max(0, z^2 - 1)/2 * D(S)^2 / M'(S)  <=  budget,
/// z the normal quantile of that probability and M' the mean without the fixed parts: the expansion of Cornish and
/// Fisher (1938) of the quantile of a sum of log-normal times, whose skewness is 3 D/M' to first order, without its
/// negative terms.
struct ChanceTimes {
  Eigen::VectorXd mean;        ///< of the random part of each run's seconds, > 0
  Eigen::VectorXd fixed;       ///< seconds of each run that are certain, >= 0
  Eigen::MatrixXd covariance;  ///< of the random parts, seconds^2; positive semi-definite
  double z = 0;                ///< >= 0

  /// The left side of the constraint. `share` has one weight in [0, 1] for each run.
  [[nodiscard]] double needed(const Eigen::VectorXd& share) const;

  /// The same of sums over a set.
  [[nodiscard]] double needed(double fixed_sec, double random_sec, double variance) const;

  /// Gradient of needed() at a point other than 0. needed() is convex and homogeneous, so slopes * x <= needed(x).
  [[nodiscard]] Eigen::VectorXd slopes(const Eigen::VectorXd& share) const;
};

/// Values that differ by a smaller share count as equal.
inline constexpr double chance_tolerance = 1e-12;

/// The best plan whose runs keep each device's budget with the wanted probability, with a run of each group. Tangents
/// of the constraint make a problem with certain costs, whose bound holds here too; its plan is repaired by a smaller
/// budget and filled; branch and bound over the best tangents closes the gap if its tree has at most `max_nodes`. A
/// plan counts as optimal if no other is better by more than chance_tolerance of the value. Runs worth 0 are placed for
/// their group only: where errors are large such a run may lower what the others need; bound and proof leave that out.
/// @param problem  its costs are not looked at
/// @param times    of the jobs, in their order, on each device, or once if they are the same on all
[[nodiscard]] Assignment assign_chance(const AssignmentProblem& problem, std::span<const ChanceTimes> times,
                                       const Limits& limits, std::int64_t max_nodes);

}  // namespace perfpred
