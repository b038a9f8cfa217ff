// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <Eigen/Core>

#include <array>
#include <span>
#include <vector>

#include "model/hybrid/step_shape.h"

namespace perfpred {

/// The coefficients of the cost model, all positive. Of S steps and N samples an epoch takes
///   N input + S (fixed + launch ops + sum over layers (hypot(compute FLOPs, memory elements) + weights parameters)),
/// with the elements of other operators added to the last sum.
enum class Cost {
  input,          ///< seconds per sample
  fixed,          ///< seconds per step
  launch,         ///< seconds per operator
  compute,        ///< seconds per FLOP
  memory,         ///< seconds per activation element moved
  weights,        ///< seconds per step and parameter of layers with 32 positions or more
  deep_weights,   ///< the same for 2 to 31 positions
  dense_weights,  ///< the same for dense layers
};
inline constexpr int cost_count = 8;
using Costs = Eigen::Matrix<double, cost_count, 1>;

/// The time of an epoch by cause, in seconds.
struct EpochTime {
  double input = 0, launch = 0, compute = 0, memory = 0, weights = 0;
  [[nodiscard]] double total() const { return input + launch + compute + memory + weights; }
};
/// @param gradient  if not null: set to the derivatives of the total with respect to the log of each cost
EpochTime epoch_time(const Costs& costs, const StepShape& shape, Costs* gradient = nullptr);

/// A measured row as the cost model sees it.
struct PhysicsRow {
  const StepShape* shape;
  double log_time;
};

/// Which costs the rows do not identify. That can only be kinds of weights that no row has.
using Unseen = std::array<bool, cost_count>;
[[nodiscard]] Unseen unseen_costs(std::span<const PhysicsRow> rows);

/// Prior standard deviation of the log cost per element of one kind of traffic (activations, each kind of weights)
/// about the level that all kinds share: a factor of 4.5. It is the uncertainty of a kind that no row has.
inline constexpr double traffic_deviation = 1.5;

/// Maximum a posteriori of the log costs under a Huber loss on log time. The prior is wide and centred on the cost at
/// which a term takes its nominal share of the rows' time, so that it suits any device. All kinds of traffic share a
/// level, which determines the cost of a kind that no row has.
/// @param deviation  standard deviation of a log cost's prior
/// @param start      costs of a fit on nearly the same rows to begin from; nullptr: the prior's centre
[[nodiscard]] Costs fit_costs(std::span<const PhysicsRow> rows, double deviation, const Costs* start = nullptr);

/// The same with generalised least squares in place of the Huber loss: the residuals are a Gaussian process with noise.
/// With the process's correction added this is universal kriging (Matheron 1969), in which neighbouring rows with a
/// common error do not count as independent evidence.
/// @param inverse_factor  inverse of the Cholesky factor of the rows' covariance
[[nodiscard]] Costs krige_costs(std::span<const PhysicsRow> rows, double deviation, const Costs& start,
                                const Eigen::MatrixXd& inverse_factor);

}  // namespace perfpred
