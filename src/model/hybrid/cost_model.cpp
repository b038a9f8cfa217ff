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

constexpr int at(Cost cost) { return static_cast<int>(cost); }
constexpr std::array<int, 3> weight_costs = {at(Cost::weights), at(Cost::deep_weights), at(Cost::dense_weights)};
/// Elements that a step with Adam moves per parameter: the parameter is read in the forward and the backward pass and
/// by the update, the gradient is written and read, two moments are read and written, the parameter is written.
constexpr double moved_per_parameter = 10;

double elements_moved(int cost) {  // per unit of the cost; 0 if it is not a cost of traffic
  if (cost == at(Cost::memory)) return 1;
  return std::find(weight_costs.begin(), weight_costs.end(), cost) != weight_costs.end() ? moved_per_parameter : 0;
}

/// Costs at which each term takes its nominal share of the rows' median time. All kinds of data traffic cost the same
/// per element.
Costs nominal_costs(std::span<const PhysicsRow> rows) {
  Costs nominal = Costs::Ones();
  // Either part of a layer's time alone is linear in its cost.
  const auto without = [](Cost cost) {
    Costs ones = Costs::Ones();
    ones[at(cost)] = 0;
    return ones;
  };
  std::array<std::vector<double>, cost_count> logs;
  for (const PhysicsRow& row : rows) {
    Costs gradient, alone;
    epoch_time(without(Cost::memory), *row.shape, &gradient);
    epoch_time(without(Cost::compute), *row.shape, &alone);
    gradient[at(Cost::memory)] = alone[at(Cost::memory)];
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
  return nominal;
}

/// The prior of the logs of the costs.
struct LogPrior {
  Costs mean;
  Eigen::MatrixXd whitening;  // inverse Cholesky factor of the covariance

  LogPrior(std::span<const PhysicsRow> rows, double deviation) : mean(nominal_costs(rows).array().log()) {
    Eigen::MatrixXd covariance = deviation * deviation * Eigen::MatrixXd::Identity(cost_count, cost_count);
    for (int i = 0; i < cost_count; ++i) {
      if (elements_moved(i) == 0) continue;
      for (int j = 0; j < cost_count; ++j) {
        if (elements_moved(j) > 0) covariance(i, j) = deviation * deviation;
      }
      covariance(i, i) += traffic_deviation * traffic_deviation;
    }
    whitening.setIdentity(cost_count, cost_count);
    covariance.llt().matrixL().solveInPlace(whitening);
  }
};

/// Residuals of the rows, whitened, then those of the prior, as Eigen's Levenberg-Marquardt wants them.
template <typename Whitening>
struct Residuals {
  std::span<const PhysicsRow> rows;
  const LogPrior& prior;
  Whitening whitening;

  [[nodiscard]] int values() const { return static_cast<int>(rows.size()) + cost_count; }
  [[nodiscard]] Eigen::Index count() const { return static_cast<Eigen::Index>(rows.size()); }

  [[nodiscard]] Eigen::VectorXd raw(const Eigen::VectorXd& logs) const {
    const Costs current = logs.array().exp();
    Eigen::VectorXd away(count());
    for (Eigen::Index i = 0; i < count(); ++i) {
      const PhysicsRow& row = rows[static_cast<std::size_t>(i)];
      away[i] = std::log(epoch_time(current, *row.shape).total()) - row.log_time;
    }
    return away;
  }

  int operator()(const Eigen::VectorXd& logs, Eigen::VectorXd& out) const {
    out << whitening * raw(logs), prior.whitening * (logs - prior.mean);
    return 0;
  }

  int df(const Eigen::VectorXd& logs, Eigen::MatrixXd& jacobian) const {
    const Costs current = logs.array().exp();
    Eigen::MatrixXd slopes(count(), logs.size());
    for (Eigen::Index i = 0; i < count(); ++i) {
      Costs gradient;
      const double total = epoch_time(current, *rows[static_cast<std::size_t>(i)].shape, &gradient).total();
      slopes.row(i) = gradient.transpose() / total;
    }
    jacobian << whitening * slopes, prior.whitening;
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

EpochTime epoch_time(const Costs& costs, const StepShape& shape, Costs* gradient) {
  const double batch = shape.samples / shape.steps;  // mean: the last step of an epoch may be short
  double compute = 0, memory = 0;
  double weights = 0, deep = 0, dense = 0;  // parameters
  for (const StepLayer& layer : shape.layers()) {
    const double flop_time = layer.padded_flops * batch * costs[at(Cost::compute)];
    const double byte_time = layer.elements * batch * costs[at(Cost::memory)];
    // Their parts add up to the root of the squares and are its derivatives.
    const double both = std::sqrt(flop_time * flop_time + byte_time * byte_time);
    compute += flop_time * flop_time / both;
    memory += byte_time * byte_time / both;
    (layer.is_dense() ? dense : layer.is_deep() ? deep : weights) += layer.params;
  }
  memory += shape.other_elements * batch * costs[at(Cost::memory)];
  const double ops = static_cast<double>(shape.layers().size()) + shape.other_ops;

  Costs terms;
  terms[at(Cost::input)] = shape.samples * costs[at(Cost::input)];
  terms[at(Cost::fixed)] = shape.steps * costs[at(Cost::fixed)];
  terms[at(Cost::launch)] = shape.steps * ops * costs[at(Cost::launch)];
  terms[at(Cost::compute)] = shape.steps * compute;
  terms[at(Cost::memory)] = shape.steps * memory;
  terms[at(Cost::weights)] = shape.steps * weights * costs[at(Cost::weights)];
  terms[at(Cost::deep_weights)] = shape.steps * deep * costs[at(Cost::deep_weights)];
  terms[at(Cost::dense_weights)] = shape.steps * dense * costs[at(Cost::dense_weights)];
  if (gradient != nullptr) *gradient = terms;
  return {.input = terms[at(Cost::input)],
          .launch = terms[at(Cost::fixed)] + terms[at(Cost::launch)],
          .compute = terms[at(Cost::compute)],
          .memory = terms[at(Cost::memory)],
          .weights = terms[at(Cost::weights)] + terms[at(Cost::deep_weights)] + terms[at(Cost::dense_weights)]};
}

Unseen unseen_costs(std::span<const PhysicsRow> rows) {
  Unseen unseen{};
  for (const int cost : weight_costs) {
    unseen[static_cast<std::size_t>(cost)] = std::all_of(rows.begin(), rows.end(), [&](const PhysicsRow& row) {
      Costs gradient;
      epoch_time(Costs::Ones(), *row.shape, &gradient);
      return gradient[cost] == 0;
    });
  }
  return unseen;
}

Costs fit_costs(std::span<const PhysicsRow> rows, double deviation, const Costs* start) {
  const LogPrior prior(rows, deviation);
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::VectorXd logs = start != nullptr ? Costs(start->array().log()) : prior.mean;

  // Re-weighted least squares: a row beyond the Huber threshold pulls no harder than one at it.
  double scale = start != nullptr ? 0.02 : 0.1;
  Eigen::VectorXd root_weight = Eigen::VectorXd::Constant(n, 1 / scale);
  for (int pass = 0; pass < (start != nullptr ? 3 : 6); ++pass) {
    Residuals<Eigen::DiagonalMatrix<double, Eigen::Dynamic>> residuals{rows, prior, root_weight.asDiagonal()};
    minimize(residuals, pass == 0 && start == nullptr ? 40 : 15, logs);
    const Eigen::VectorXd away = residuals.raw(logs).cwiseAbs();
    scale = std::max(1.4826 * median({away.begin(), away.end()}), min_scale);
    const Eigen::VectorXd next = (huber_threshold * scale / away.array().max(1e-300)).min(1.0).sqrt().matrix() / scale;
    const double change = (next - root_weight).cwiseAbs().maxCoeff() * scale;
    root_weight = next;
    if (change < 0.05) break;
  }
  return logs.array().exp();
}

Costs krige_costs(std::span<const PhysicsRow> rows, double deviation, const Costs& start,
                  const Eigen::MatrixXd& inverse_factor) {
  const LogPrior prior(rows, deviation);
  Residuals<Eigen::TriangularView<const Eigen::MatrixXd, Eigen::Lower>> residuals{
      rows, prior, inverse_factor.triangularView<Eigen::Lower>()};
  Eigen::VectorXd logs = start.array().log();
  minimize(residuals, 15, logs);
  return logs.array().exp();
}

}  // namespace perfpred
