// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/cost_model.h"

#include <Eigen/Cholesky>
#include <unsupported/Eigen/NonLinearOptimization>

#include <algorithm>
#include <cmath>

#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double huber_threshold = 1.345;
constexpr double min_scale = 0.005;  // of the residuals: those of few rows can be too small by chance
constexpr double launch_share = 0.2;
constexpr double other_share = 0.1;
constexpr double nominal_narrow = 30;  // channels

constexpr int at(Cost cost) { return static_cast<int>(cost); }
constexpr std::array<int, 3> weight_costs = {at(Cost::weights), at(Cost::deep_weights), at(Cost::dense_weights)};
/// Elements that a step with Adam moves per parameter: the parameter is read in the forward and the backward pass and
/// by the update, the gradient is written and read, two moments are read and written, the parameter is written.
constexpr double moved_per_parameter = 10;

double elements_moved(int cost) {  // per unit of the cost; 0 if it is not a cost of traffic
  if (cost == at(Cost::memory)) return 1;
  return std::find(weight_costs.begin(), weight_costs.end(), cost) != weight_costs.end() ? moved_per_parameter : 0;
}

bool in_use(const PhysicsForm& form, int cost) {
  if (cost == at(Cost::narrow)) return form.narrow;
  if (cost == at(Cost::deep_weights) || cost == at(Cost::root_weights)) return form.split_weights;
  return true;
}

/// Costs at which each term takes its nominal share of the rows' median time. All kinds of data traffic cost the same
/// per element.
Costs nominal_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows) {
  Costs nominal = Costs::Ones();
  const Costs ones = Costs::Ones();
  std::array<std::vector<double>, cost_count> logs;
  PhysicsForm additive = form;
  additive.roofline = false;
  additive.narrow = false;
  for (const PhysicsRow& row : rows) {
    Costs gradient;
    epoch_time(additive, ones, *row.shape, &gradient);
    for (int cost = 0; cost < cost_count; ++cost) {
      if (gradient[cost] > 0) logs[static_cast<std::size_t>(cost)].push_back(row.log_time - std::log(gradient[cost]));
    }
  }
  double log_element = 0, kinds = 0;
  for (int cost = 0; cost < cost_count; ++cost) {
    const auto& values = logs[static_cast<std::size_t>(cost)];
    if (values.empty()) continue;
    const double share = cost == at(Cost::launch) || cost == at(Cost::fixed) ? launch_share : other_share;
    nominal[cost] = share * std::exp(median(values));
    if (elements_moved(cost) == 0) continue;
    log_element += std::log(nominal[cost] / elements_moved(cost));
    ++kinds;
  }
  for (int cost = 0; cost < cost_count; ++cost) {
    if (elements_moved(cost) > 0) nominal[cost] = elements_moved(cost) * std::exp(log_element / kinds);
  }
  nominal[at(Cost::narrow)] = nominal_narrow;
  return nominal;
}

/// The logs of the costs that a form uses, and their prior.
struct Unknowns {
  std::vector<int> used;
  Eigen::VectorXd prior;      // mean
  Eigen::MatrixXd whitening;  // inverse Cholesky factor of the covariance

  Unknowns(const PhysicsForm& form, std::span<const PhysicsRow> rows, double deviation) {
    for (int cost = 0; cost < cost_count; ++cost) {
      if (in_use(form, cost)) used.push_back(cost);
    }
    prior = logs(nominal_costs(form, rows));
    const auto n = static_cast<Eigen::Index>(used.size());
    Eigen::MatrixXd covariance = deviation * deviation * Eigen::MatrixXd::Identity(n, n);
    for (Eigen::Index i = 0; i < n; ++i) {
      if (elements_moved(used[static_cast<std::size_t>(i)]) == 0) continue;
      for (Eigen::Index j = 0; j < n; ++j) {
        if (elements_moved(used[static_cast<std::size_t>(j)]) > 0) covariance(i, j) = deviation * deviation;
      }
      covariance(i, i) += traffic_deviation * traffic_deviation;
    }
    whitening.setIdentity(n, n);
    covariance.llt().matrixL().solveInPlace(whitening);
  }

  [[nodiscard]] Eigen::VectorXd logs(const Costs& costs) const {
    Eigen::VectorXd picked(static_cast<Eigen::Index>(used.size()));
    for (std::size_t k = 0; k < used.size(); ++k) picked[static_cast<Eigen::Index>(k)] = std::log(costs[used[k]]);
    return picked;
  }

  [[nodiscard]] Costs costs(const Eigen::VectorXd& logs) const {
    Costs all = Costs::Zero();
    for (std::size_t k = 0; k < used.size(); ++k) all[used[k]] = std::exp(logs[static_cast<Eigen::Index>(k)]);
    return all;
  }
};

/// Residuals of the rows, whitened, then those of the prior, as Eigen's Levenberg-Marquardt wants them.
template <typename Whitening>
struct Residuals {
  const PhysicsForm& form;
  std::span<const PhysicsRow> rows;
  const Unknowns& unknowns;
  Whitening whitening;

  [[nodiscard]] int values() const { return static_cast<int>(rows.size() + unknowns.used.size()); }
  [[nodiscard]] Eigen::Index count() const { return static_cast<Eigen::Index>(rows.size()); }

  [[nodiscard]] Eigen::VectorXd raw(const Eigen::VectorXd& logs) const {
    const Costs current = unknowns.costs(logs);
    Eigen::VectorXd away(count());
    for (Eigen::Index i = 0; i < count(); ++i) {
      const PhysicsRow& row = rows[static_cast<std::size_t>(i)];
      away[i] = std::log(epoch_time(form, current, *row.shape).total()) - row.log_time;
    }
    return away;
  }

  int operator()(const Eigen::VectorXd& logs, Eigen::VectorXd& out) const {
    out << whitening * raw(logs), unknowns.whitening * (logs - unknowns.prior);
    return 0;
  }

  int df(const Eigen::VectorXd& logs, Eigen::MatrixXd& jacobian) const {
    const Costs current = unknowns.costs(logs);
    Eigen::MatrixXd slopes(count(), logs.size());
    for (Eigen::Index i = 0; i < count(); ++i) {
      Costs gradient;
      const double total = epoch_time(form, current, *rows[static_cast<std::size_t>(i)].shape, &gradient).total();
      for (Eigen::Index k = 0; k < logs.size(); ++k)
        slopes(i, k) = gradient[unknowns.used[static_cast<std::size_t>(k)]] / total;
    }
    jacobian << whitening * slopes, unknowns.whitening;
    return 0;
  }
};

template <typename Whitening>
void minimize(Residuals<Whitening>& residuals, int max_evaluations, Eigen::VectorXd& logs) {
  Eigen::LevenbergMarquardt<Residuals<Whitening>> solver(residuals);
  solver.parameters.ftol = 1e-5;
  solver.parameters.xtol = 1e-5;
  solver.parameters.maxfev = max_evaluations;
  solver.minimize(logs);
}

}  // namespace

EpochTime epoch_time(const PhysicsForm& form, const Costs& costs, const StepShape& shape, Costs* gradient) {
  const double batch = shape.samples / shape.steps;  // mean: the last step of an epoch may be short
  const double narrow = form.narrow ? costs[at(Cost::narrow)] : 0;
  double compute = 0, memory = 0, slow = 0;
  double weights = 0, deep = 0, dense = 0, root = 0;  // parameters
  for (const StepLayer& layer : shape.layers()) {
    const double flop_time = layer.padded_flops * batch * costs[at(Cost::compute)];
    const double slowed = flop_time * (1 + narrow / layer.channels);
    const double byte_time = layer.elements * batch * costs[at(Cost::memory)];
    double compute_part = slowed, memory_part = byte_time, steepness = 1;
    if (form.roofline) {  // the parts add up to the root of the squares and are its derivatives
      const double both = std::sqrt(slowed * slowed + byte_time * byte_time);
      steepness = slowed / both;
      compute_part = slowed * steepness;
      memory_part = byte_time * byte_time / both;
    }
    compute += compute_part;
    memory += memory_part;
    slow += steepness * flop_time * narrow / layer.channels;
    if (layer.is_dense()) {
      dense += layer.params;
    } else if (form.split_weights && layer.is_deep()) {
      deep += layer.params;
    } else {
      weights += layer.params;
    }
    if (form.split_weights) root += std::sqrt(layer.params);
  }
  memory += shape.other_elements * batch * costs[at(Cost::memory)];
  const double ops = static_cast<double>(shape.layers().size()) + shape.other_ops;

  EpochTime time;
  time.input = shape.samples * costs[at(Cost::input)];
  time.compute = shape.steps * compute;
  time.memory = shape.steps * memory;
  time.launch = shape.steps * (costs[at(Cost::fixed)] + ops * costs[at(Cost::launch)]);
  time.weights = shape.steps * (weights * costs[at(Cost::weights)] + deep * costs[at(Cost::deep_weights)] +
                                dense * costs[at(Cost::dense_weights)] + root * costs[at(Cost::root_weights)]);
  if (gradient != nullptr) {
    (*gradient)[at(Cost::input)] = time.input;
    (*gradient)[at(Cost::fixed)] = shape.steps * costs[at(Cost::fixed)];
    (*gradient)[at(Cost::launch)] = shape.steps * ops * costs[at(Cost::launch)];
    (*gradient)[at(Cost::compute)] = time.compute;
    (*gradient)[at(Cost::narrow)] = shape.steps * slow;
    (*gradient)[at(Cost::memory)] = time.memory;
    (*gradient)[at(Cost::weights)] = shape.steps * weights * costs[at(Cost::weights)];
    (*gradient)[at(Cost::deep_weights)] = shape.steps * deep * costs[at(Cost::deep_weights)];
    (*gradient)[at(Cost::dense_weights)] = shape.steps * dense * costs[at(Cost::dense_weights)];
    (*gradient)[at(Cost::root_weights)] = shape.steps * root * costs[at(Cost::root_weights)];
  }
  return time;
}

Unseen unseen_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows) {
  Unseen unseen{};
  for (const int cost : weight_costs) {
    unseen[static_cast<std::size_t>(cost)] =
        in_use(form, cost) && std::all_of(rows.begin(), rows.end(), [&](const PhysicsRow& row) {
          Costs gradient;
          epoch_time(form, Costs::Ones(), *row.shape, &gradient);
          return gradient[cost] == 0;
        });
  }
  return unseen;
}

Costs fit_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows, double deviation, const Costs* start) {
  const Unknowns unknowns(form, rows, deviation);
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::VectorXd logs = start != nullptr ? unknowns.logs(*start) : unknowns.prior;

  // Re-weighted least squares: a row beyond the Huber threshold pulls no harder than one at it.
  double scale = start != nullptr ? 0.02 : 0.1;
  Eigen::VectorXd root_weight = Eigen::VectorXd::Constant(n, 1 / scale);
  for (int pass = 0; pass < (start != nullptr ? 3 : 6); ++pass) {
    Residuals<Eigen::DiagonalMatrix<double, Eigen::Dynamic>> residuals{form, rows, unknowns, root_weight.asDiagonal()};
    minimize(residuals, pass == 0 && start == nullptr ? 40 : 15, logs);
    const Eigen::VectorXd away = residuals.raw(logs).cwiseAbs();
    scale = std::max(1.4826 * median({away.begin(), away.end()}), min_scale);
    const Eigen::VectorXd next = (huber_threshold * scale / away.array().max(1e-300)).min(1.0).sqrt().matrix() / scale;
    const double change = (next - root_weight).cwiseAbs().maxCoeff() * scale;
    root_weight = next;
    if (change < 0.05) break;
  }
  return unknowns.costs(logs);
}

Costs krige_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows, double deviation, const Costs& start,
                  const Eigen::MatrixXd& inverse_factor) {
  const Unknowns unknowns(form, rows, deviation);
  Residuals<Eigen::TriangularView<const Eigen::MatrixXd, Eigen::Lower>> residuals{
      form, rows, unknowns, inverse_factor.triangularView<Eigen::Lower>()};
  Eigen::VectorXd logs = unknowns.logs(start);
  minimize(residuals, 15, logs);
  return unknowns.costs(logs);
}

}  // namespace perfpred
