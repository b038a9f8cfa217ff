// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <Eigen/Core>

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "model/hybrid/step_shape.h"

namespace perfpred {

/// What an epoch's time is made of; the coefficients are positive.
enum class Cost {
  input,          ///< seconds a sample
  fixed,          ///< seconds a step
  launch,         ///< seconds an operator
  compute,        ///< seconds a FLOP
  narrow,         ///< channels at which a layer reaches half its speed
  memory,         ///< seconds an activation element moved
  weights,        ///< seconds a parameter of layers with 32 positions or more, a step
  deep_weights,   ///< the same with 2 to 31 positions
  dense_weights,  ///< the same of dense layers
  root_weights,   ///< seconds a square root of a layer's parameters, a step
};
inline constexpr int cost_count = 10;
using Costs = Eigen::Matrix<double, cost_count, 1>;

/// One way to put the costs together. They agree where they were fitted and part where they were not.
struct PhysicsForm {
  std::string_view name;
  bool roofline;       ///< a layer takes the root of the squares of its FLOP time and its byte time, else their sum
  bool narrow;         ///< layers with few channels are slow
  bool split_weights;  ///< weight traffic by positions, and by root; else one coefficient for all convolutions
};
inline constexpr std::array<PhysicsForm, 4> physics_forms = {{{"sum", false, false, false},
                                                              {"sum_by_layer", false, true, true},
                                                              {"roofline", true, true, false},
                                                              {"roofline_by_layer", true, true, true}}};

/// The time of an epoch by cause. `gradient`, where given, gets the derivative of the total to the log of each cost.
struct EpochTime {
  double input = 0, launch = 0, compute = 0, memory = 0, weights = 0;
  [[nodiscard]] double total() const { return input + launch + compute + memory + weights; }
};
PERFPRED_API EpochTime epoch_time(const PhysicsForm& form, const Costs& costs, const StepShape& shape,
                                  Costs* gradient = nullptr);

/// A measured row as the physics sees it.
struct PhysicsRow {
  const StepShape* shape;
  double log_time;
};

/// Which of the form's costs the rows have nothing of. Only kinds of weights can be missing.
using Unseen = std::array<bool, cost_count>;
[[nodiscard]] PERFPRED_API Unseen unseen_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows);

/// Standard deviation of the log of what one kind of traffic costs an element (activations, each kind of weights)
/// about the level that all kinds share: a factor of 4.5. So uncertain is a kind that no row shows.
inline constexpr double traffic_deviation = 1.5;

/// Maximum a posteriori of the log costs under a Huber loss on log time. The prior is wide and centred on the cost at
/// which a term would take its nominal share of the rows' time, so that it serves any device. What moves data shares a
/// level: a parameter of a kind that no row shows costs what the other kinds and the activations say.
/// @param deviation  of a log cost's prior
/// @param start      costs to begin from, of a fit on nearly the same rows; nullptr: the prior's centre
[[nodiscard]] PERFPRED_API Costs fit_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows, double deviation,
                                           const Costs* start = nullptr);

/// The same where what the form leaves over is a Gaussian process with noise, instead of the Huber loss: generalised
/// least squares. With the process's correction on top that is universal kriging (Matheron 1969): neighbouring rows
/// that are off together are taken for one witness, not for many.
/// @param inverse_factor  of the Cholesky factor of the rows' covariance
[[nodiscard]] PERFPRED_API Costs krige_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows,
                                             double deviation, const Costs& start,
                                             const Eigen::MatrixXd& inverse_factor);

}  // namespace perfpred
