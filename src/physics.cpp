#include "physics.h"

#include <unsupported/Eigen/NonLinearOptimization>

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

constexpr double huber_threshold = 1.345;
constexpr double least_scale = 0.005;  // of the residuals: a fit on few rows must not trust itself more
constexpr double launch_share = 0.2;
constexpr double other_share = 0.1;
constexpr double nominal_narrow = 30;  // channels

constexpr int at(Cost cost) { return static_cast<int>(cost); }
constexpr std::array<int, 3> weight_costs = {at(Cost::weights), at(Cost::deep_weights),
                                             at(Cost::dense_weights)};  // a parameter

bool in_use(const PhysicsForm& form, int cost) {
  if (cost == at(Cost::narrow)) return form.narrow;
  if (cost == at(Cost::deep_weights) || cost == at(Cost::root_weights)) return form.split_weights;
  return true;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Costs at which each term alone would take its nominal share of the rows' median time.
Costs nominal_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows) {
  Costs nominal;
  const Costs ones = Costs::Ones();
  for (int cost = 0; cost < cost_count; ++cost) {
    nominal[cost] = 1;
    if (cost == at(Cost::narrow)) nominal[cost] = nominal_narrow;
  }
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
  for (int cost = 0; cost < cost_count; ++cost) {
    const auto& values = logs[static_cast<std::size_t>(cost)];
    if (cost == at(Cost::narrow) || values.empty()) continue;
    const double share = cost == at(Cost::launch) || cost == at(Cost::fixed) ? launch_share : other_share;
    nominal[cost] = share * std::exp(median(values));
  }
  return nominal;
}

/// Weighted residuals of the rows, then those of the prior, as Eigen's Levenberg-Marquardt wants them.
struct Residuals {
  const PhysicsForm& form;
  std::span<const PhysicsRow> rows;
  const std::vector<int>& used;  // costs that the form has
  const Costs& nominal_log;
  Eigen::VectorXd root_weight;

  [[nodiscard]] int values() const { return static_cast<int>(rows.size() + used.size()); }

  [[nodiscard]] Costs costs(const Eigen::VectorXd& logs) const {
    Costs all = Costs::Zero();
    for (std::size_t k = 0; k < used.size(); ++k) all[used[k]] = std::exp(logs[static_cast<Eigen::Index>(k)]);
    return all;
  }

  int operator()(const Eigen::VectorXd& logs, Eigen::VectorXd& out) const {
    const Costs current = costs(logs);
    Eigen::Index i = 0;
    for (const PhysicsRow& row : rows) {
      out[i] = root_weight[i] * (std::log(epoch_time(form, current, *row.shape).total()) - row.log_time);
      ++i;
    }
    for (std::size_t k = 0; k < used.size(); ++k) {
      out[i++] = (logs[static_cast<Eigen::Index>(k)] - nominal_log[used[k]]) / cost_deviation;
    }
    return 0;
  }

  int df(const Eigen::VectorXd& logs, Eigen::MatrixXd& jacobian) const {
    const Costs current = costs(logs);
    Eigen::Index i = 0;
    for (const PhysicsRow& row : rows) {
      Costs gradient;
      const double total = epoch_time(form, current, *row.shape, &gradient).total();
      for (std::size_t k = 0; k < used.size(); ++k) {
        jacobian(i, static_cast<Eigen::Index>(k)) = root_weight[i] * gradient[used[k]] / total;
      }
      ++i;
    }
    for (std::size_t k = 0; k < used.size(); ++k, ++i) {
      jacobian.row(i).setZero();
      jacobian(i, static_cast<Eigen::Index>(k)) = 1 / cost_deviation;
    }
    return 0;
  }
};

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
    if (form.roofline) {  // parts that add up to the root of the squares, and are its derivatives too
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

Costs fit_costs(const PhysicsForm& form, std::span<const PhysicsRow> rows, const Costs* start) {
  const Unseen unseen = unseen_costs(form, rows);
  std::vector<int> used;
  for (int cost = 0; cost < cost_count; ++cost) {
    if (in_use(form, cost) && !unseen[static_cast<std::size_t>(cost)]) used.push_back(cost);
  }
  const Costs nominal = nominal_costs(form, rows);
  const Costs nominal_log = nominal.array().log();
  const auto n = static_cast<Eigen::Index>(rows.size());
  Residuals residuals{form, rows, used, nominal_log, Eigen::VectorXd::Zero(n)};
  Eigen::VectorXd logs(static_cast<Eigen::Index>(used.size()));
  for (std::size_t k = 0; k < used.size(); ++k) {
    logs[static_cast<Eigen::Index>(k)] = start != nullptr ? std::log((*start)[used[k]]) : nominal_log[used[k]];
  }

  // Re-weighted least squares: a row beyond the Huber threshold pulls no harder than one at it.
  double scale = start != nullptr ? 0.02 : 0.1;
  Eigen::VectorXd raw(n);
  residuals.root_weight.setConstant(1 / scale);
  for (int pass = 0; pass < (start != nullptr ? 3 : 6); ++pass) {
    Eigen::LevenbergMarquardt<Residuals> solver(residuals);
    solver.parameters.ftol = 1e-5;
    solver.parameters.xtol = 1e-5;
    solver.parameters.maxfev = pass == 0 && start == nullptr ? 40 : 15;
    solver.minimize(logs);
    const Costs current = residuals.costs(logs);
    std::vector<double> magnitude;
    for (Eigen::Index i = 0; i < n; ++i) {
      const PhysicsRow& row = rows[static_cast<std::size_t>(i)];
      raw[i] = std::abs(std::log(epoch_time(form, current, *row.shape).total()) - row.log_time);
      magnitude.push_back(raw[i]);
    }
    scale = std::max(1.4826 * median(magnitude), least_scale);
    Eigen::VectorXd next(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      next[i] = std::sqrt(std::min(1.0, huber_threshold * scale / std::max(raw[i], 1e-300))) / scale;
    }
    const double change = (next - residuals.root_weight).cwiseAbs().maxCoeff() * scale;
    residuals.root_weight = next;
    if (change < 0.05) break;
  }
  Costs fitted = residuals.costs(logs);
  double sum = 0, count = 0;
  for (const int cost : weight_costs) {
    if (fitted[cost] > 0) sum += std::log(fitted[cost]), count += 1;
  }
  for (const int cost : weight_costs) {
    if (unseen[static_cast<std::size_t>(cost)]) fitted[cost] = std::exp(sum / count);
  }
  return fitted;
}

}  // namespace perfpred
