// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/knapsack_planner.h>

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_solver.h"

namespace perfpred {

/// Runs of uncertain length for one device. The time of a set S of runs has mean M(S) and variance D(S)^2; the set
/// keeps the budget with the wanted probability if
///   M(S) + z D(S) + max(0, z^2 - 1)/2 * D(S)^2 / M'(S)  <=  budget,
/// z the normal quantile of that probability and M' the mean of what is random: Cornish and Fisher's expansion (1938)
/// of the quantile of a sum of log-normal times, whose skewness is 3 D/M' to first order, without its negative terms.
struct ChanceProblem {
  std::vector<double> values;  ///< >= 0, finite
  Eigen::VectorXd mean;        ///< of the random part of each run's seconds, > 0
  Eigen::VectorXd fixed;       ///< what is certain, >= 0
  Eigen::MatrixXd covariance;  ///< of the random parts; positive semi-definite
  double z = 0;                ///< >= 0
  double budget = 0;           ///< seconds, > 0

  /// The left side of the constraint. `share` has one weight in [0, 1] for each run.
  [[nodiscard]] PERFPRED_API double needed(const Eigen::VectorXd& share) const;

  [[nodiscard]] PERFPRED_API static double needed(double fixed, double random, double variance, double z);

  /// Slopes of needed() at a point other than 0. As needed() is convex and homogeneous, slopes * x <= needed(x).
  [[nodiscard]] PERFPRED_API Eigen::VectorXd slopes(const Eigen::VectorXd& share) const;
};

/// The best set by value. Each tangent of the constraint makes a knapsack whose optimum is an upper bound; sets come
/// from those optima, repaired and improved by exchanges; a branch and bound over the best tangent closes the gap if
/// its tree has at most `most_nodes`. Called optimal if nothing is better by more than 1e-12 of the value. Runs worth 0
/// are no candidates, though where errors are large one may lower what the others need: bound and proof are without
/// them.
[[nodiscard]] PERFPRED_API Plan solve_chance(const ChanceProblem& problem, const PlanLimits& limits,
                                             std::int64_t most_nodes);

/// The same runs on several devices, each of which keeps its own budget, with a run of each group: one problem for each
/// device, or one for all if they are alike. Tangents of all constraints make an assignment problem whose bound is one
/// here; its plans are repaired and then solved again device by device. Runs worth 0 are placed for their group only.
[[nodiscard]] PERFPRED_API Assignment assign_chance(std::span<const ChanceProblem> problems, std::size_t devices,
                                                    const JobGroups& group, const PlanLimits& limits,
                                                    std::int64_t most_nodes);

}  // namespace perfpred
