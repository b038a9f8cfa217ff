// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/hybrid.h"

#include <perfpred/error.h>

#include <Eigen/Cholesky>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "statistics/confidence.h"
#include "model/lognormal.h"
#include "statistics/minimum.h"
#include "model/hybrid/step_shape.h"
#include "statistics/vectorized.h"

namespace perfpred {
namespace {

constexpr std::size_t forms = physics_forms.size();
constexpr std::size_t fewest_rows = 5;
constexpr double fewest_repeats = 3;      // beyond the first runs, before the noise is taken from them
constexpr std::size_t most_rows = 5000;   // the process is exact up to here
constexpr std::size_t search_rows = 400;  // that all but the first fit of the physics and the process are learnt on
constexpr std::size_t random_parts = 5;   // that the rows are left out in, beside depths, widths and architectures
constexpr std::size_t few_rows = 8;       // with fewer, each row is left out alone, and a row less is enough to fit
constexpr double same_level = 0.1;        // depths or octaves of width that count as one
constexpr double outlier_deviations = 4;  // of an observed run
constexpr double widest = z90 * traffic_deviation;  // half an interval of log time: a run all of unseen costs
constexpr double largest_dropped_share = 0.1;
constexpr Eigen::Index stack_rows = 1024;    // a one-row prediction keeps its buffers on the stack up to here
constexpr Eigen::Index block_columns = 128;  // predictions that share a pass over the process's matrices

using FormVector = Eigen::Matrix<double, static_cast<int>(forms), 1>;

double norm2(const double* x, Eigen::Index n) { return Eigen::Map<const Eigen::VectorXd>(x, n).squaredNorm(); }

/// |W k|^2 for a lower triangular W in columns. Four columns a pass; columns are added up, not dotted, because that
/// needs no reordering of sums to run in wide registers.
PERFPRED_VECTORIZED double lower_product_norm2(const double* w, const double* k, double* out, Eigen::Index n) {
  for (Eigen::Index i = 0; i < n; ++i) out[i] = 0;
  Eigen::Index j = 0;
  for (; j + 4 <= n; j += 4) {
    const double *a = w + j * n, *b = a + n, *c = b + n, *d = c + n;
    const double ka = k[j], kb = k[j + 1], kc = k[j + 2], kd = k[j + 3];
    for (Eigen::Index i = j; i < n; ++i) out[i] += a[i] * ka + b[i] * kb + c[i] * kc + d[i] * kd;
  }
  for (; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) out[i] += w[j * n + i] * k[j];
  }
  return norm2(out, n);
}

/// The same for two vectors: a pass over W serves both.
PERFPRED_VECTORIZED void lower_product_norm2(const double* w, const double* k, const double* l, double* out_k,
                                             double* out_l, Eigen::Index n, double* norms) {
  for (Eigen::Index i = 0; i < n; ++i) out_k[i] = out_l[i] = 0;
  Eigen::Index j = 0;
  for (; j + 4 <= n; j += 4) {
    const double *a = w + j * n, *b = a + n, *c = b + n, *d = c + n;
    const double ka = k[j], kb = k[j + 1], kc = k[j + 2], kd = k[j + 3];
    const double la = l[j], lb = l[j + 1], lc = l[j + 2], ld = l[j + 3];
    for (Eigen::Index i = j; i < n; ++i) {
      out_k[i] += a[i] * ka + b[i] * kb + c[i] * kc + d[i] * kd;
      out_l[i] += a[i] * la + b[i] * lb + c[i] * lc + d[i] * ld;
    }
  }
  for (; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) {
      out_k[i] += w[j * n + i] * k[j];
      out_l[i] += w[j * n + i] * l[j];
    }
  }
  norms[0] = norm2(out_k, n);
  norms[1] = norm2(out_l, n);
}

/// A measured row as the model keeps it.
struct Row {
  std::string key;
  StepShape::Place place{};
  double log_time = 0;
  double noise = 1;  // variance in units of a single run's
  FormVector log_physics = FormVector::Zero();
};

/// What a row was predicted without, besides itself.
enum LeftOut : std::size_t { row_alone, architecture, depth, width, left_out_kinds };

/// How far errors on what was left out exceed what the process and the forms' disagreement say of themselves:
/// variance = noise + process * exp(process_log + novelty * share) + exp(disagreement_log) * disagreement,
/// where share is process / amplitude^2. The 90 % interval is so many such deviations to either side as covered what
/// was left out: rows, architectures, and for a new depth or width whole depths and widths, the farther the more.
/// Between the median shares of rows, architectures and these it is interpolated.
struct Calibration {
  double process_log = 0;
  double novelty = 0;
  double disagreement_log = 0;
  std::array<double, left_out_kinds> shares = {0, 0, 1, 1};
  std::array<double, left_out_kinds> quantiles = {z90, z90, z90, z90};
  double most_share = 1;  // that was left out; what lies farther away is treated as that

  [[nodiscard]] double quantile(double share, bool new_depth, bool new_width) const {
    const auto on_the_way = [&](double from, LeftOut near, LeftOut far) {
      const double way = shares[far] - shares[near];
      return from + (way > 0 ? std::clamp((share - shares[near]) / way, 0.0, 1.0) : 1.0) * (quantiles[far] - from);
    };
    const double near = on_the_way(quantiles[row_alone], row_alone, architecture);
    double farthest = near;
    if (new_depth) farthest = std::max(farthest, on_the_way(near, architecture, depth));
    if (new_width) farthest = std::max(farthest, on_the_way(near, architecture, width));
    return farthest;
  }

  [[nodiscard]] double latent(double process, double share, double disagreement) const {
    return process * std::exp(process_log + novelty * std::min(share, most_share)) +
           std::exp(disagreement_log) * disagreement;
  }
};

/// What the forms of physics say of a workload.
struct PhysicsView {
  FormVector log_time;
  FormVector unseen = FormVector::Zero();  // variance of log time by costs that no row has shown
};

/// The median in log seconds and what is uncertain about it.
struct Estimate {
  double mean = 0;
  double process = 0;       // variance
  double disagreement = 0;  // variance
  double unseen = 0;        // variance
  bool new_depth = false;   // no row has one near it
  bool new_width = false;
};

/// A row that was predicted without its group.
struct HeldOut {
  FormVector by_form;  // log seconds
  FormVector unseen;   // variance
  double log_time = 0;
  double process = 0;  // variance
  double share = 0;    // of the process's variance far from all rows
  double noise = 0;    // variance
  double weight = 1;   // groups of groups count alike
  LeftOut left_out = row_alone;
};

PhysicsView view(const std::array<Costs, forms>& costs, const std::array<Unseen, forms>& unseen,
                 const StepShape& shape) {
  PhysicsView seen;
  for (std::size_t f = 0; f < forms; ++f) {
    const auto at = static_cast<Eigen::Index>(f);
    if (std::none_of(unseen[f].begin(), unseen[f].end(), [](bool one) { return one; })) {
      seen.log_time[at] = std::log(epoch_time(physics_forms[f], costs[f], shape).total());
      continue;
    }
    Costs gradient;
    const double total = epoch_time(physics_forms[f], costs[f], shape, &gradient).total();
    seen.log_time[at] = std::log(total);
    for (std::size_t cost = 0; cost < unseen[f].size(); ++cost) {
      if (unseen[f][cost])
        seen.unseen[at] += std::pow(traffic_deviation * gradient[static_cast<Eigen::Index>(cost)] / total, 2);
    }
  }
  return seen;
}

Eigen::MatrixXd places_of(const std::vector<Row>& rows) {
  Eigen::MatrixXd places(static_cast<Eigen::Index>(rows.size()), ResidualKernel::inputs);
  for (Eigen::Index i = 0; i < places.rows(); ++i) {
    for (Eigen::Index j = 0; j < places.cols(); ++j)
      places(i, j) = rows[static_cast<std::size_t>(i)].place[static_cast<std::size_t>(j)];
  }
  return places;
}

Eigen::VectorXd noise_of(const std::vector<Row>& rows) {
  Eigen::VectorXd noise(static_cast<Eigen::Index>(rows.size()));
  for (Eigen::Index i = 0; i < noise.size(); ++i) noise[i] = rows[static_cast<std::size_t>(i)].noise;
  return noise;
}

/// What the forms leave over, a column each.
Eigen::MatrixXd residuals_of(const std::vector<Row>& rows) {
  Eigen::MatrixXd residuals(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(forms));
  for (Eigen::Index i = 0; i < residuals.rows(); ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    residuals.row(i) = (FormVector::Constant(row.log_time) - row.log_physics).transpose();
  }
  return residuals;
}

Eigen::MatrixXd noisy_covariance(const ResidualKernel& kernel, const Eigen::MatrixXd& scaled,
                                 const Eigen::VectorXd& noise) {
  Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  covariance.diagonal() += kernel.noise2() * noise + Eigen::VectorXd::Constant(noise.size(), 1e-10);
  return covariance;
}

/// Of the Cholesky factor of the rows' covariance, noise included.
Eigen::MatrixXd inverse_factor_of(const ResidualKernel& kernel, const Eigen::MatrixXd& scaled,
                                  const std::vector<Row>& rows) {
  const Eigen::LLT<Eigen::MatrixXd> factor(noisy_covariance(kernel, scaled, noise_of(rows)));
  if (factor.info() != Eigen::Success) throw ModelError("the residual process's covariance is not positive definite");
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(scaled.rows(), scaled.rows());
  factor.matrixL().solveInPlace(inverse);
  return inverse;
}

/// covariance^-1 * residuals
Eigen::MatrixXd solved(const Eigen::MatrixXd& inverse_factor, const Eigen::MatrixXd& residuals) {
  const Eigen::MatrixXd half = inverse_factor.triangularView<Eigen::Lower>() * residuals;
  return inverse_factor.transpose().triangularView<Eigen::Upper>() * half;
}

class HybridModel final : public RegressorModel {
 public:
  std::vector<Row> rows;  // fitted on, then observed
  std::size_t fitted_rows = 0;
  std::array<Costs, forms> costs;
  std::array<Unseen, forms> unseen{};
  FormVector weights;
  ResidualKernel kernel;
  Calibration calibration;
  std::vector<SetAside> set_aside;

  /// Everything that follows from the members above.
  void prepare() {
    const std::vector<Row> fitted(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(fitted_rows));
    scaled_ = kernel.scaled(places_of(fitted));
    inverse_factor_ = inverse_factor_of(kernel, scaled_, fitted);
    for (const Row& row : fitted) note_levels(row);
    for (std::size_t i = fitted_rows; i < rows.size(); ++i) append(rows[i]);
    solve();
  }

  /// Learns one more row: a row more of the inverse Cholesky factor, O(n^2), exactly what a new factorisation would
  /// have.
  void learn(Row row) {
    append(row);
    rows.push_back(std::move(row));
    solve();
  }

  [[nodiscard]] Row row_of(const AggregateRow& measured) const {
    const StepShape shape(measured.workload);
    Row row;
    row.key = measured.workload.key();
    row.place = shape.place(measured.workload.batch_size);
    row.log_time = std::log(*measured.avg_time_mean);
    row.noise = 1.0 / static_cast<double>(std::max<std::int64_t>(measured.n, 1));
    row.log_physics = view(costs, unseen, shape).log_time;
    return row;
  }

  using RegressorModel::predict;
  [[nodiscard]] Quantiles predict(const Workload& workload) const override { return quantiles(estimate(workload)); }

  void predict(std::span<const Workload> workloads, std::span<Quantiles> out) const override {
    const auto n = static_cast<Eigen::Index>(rows.size());
    Eigen::MatrixXd places, covariance;
    std::vector<double> buffer(static_cast<std::size_t>(2 * n));
    std::array<double, block_columns> explained;
    std::vector<PhysicsView> physics(static_cast<std::size_t>(block_columns));
    for (std::size_t begin = 0; begin < workloads.size(); begin += static_cast<std::size_t>(block_columns)) {
      const auto count =
          static_cast<Eigen::Index>(std::min(workloads.size() - begin, static_cast<std::size_t>(block_columns)));
      places.resize(count, ResidualKernel::inputs);
      for (Eigen::Index i = 0; i < count; ++i) {
        const Workload& workload = workloads[begin + static_cast<std::size_t>(i)];
        const StepShape shape(workload);
        const StepShape::Place place = shape.place(workload.batch_size);
        for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = place[static_cast<std::size_t>(j)];
        physics[static_cast<std::size_t>(i)] = view(costs, unseen, shape);
      }
      covariance = kernel.covariance(scaled_, kernel.scaled(places));
      for (Eigen::Index i = 0; i < count; i += 2) {
        const Eigen::Index other = std::min(i + 1, count - 1);
        lower_product_norm2(inverse_factor_.data(), covariance.col(i).data(), covariance.col(other).data(),
                            buffer.data(), buffer.data() + n, n, &explained[static_cast<std::size_t>(i)]);
      }
      const Eigen::MatrixXd corrections = alpha_.transpose() * covariance;
      for (Eigen::Index i = 0; i < count; ++i) {
        const double process = std::max(0.0, kernel.amplitude2() - explained[static_cast<std::size_t>(i)]);
        out[begin + static_cast<std::size_t>(i)] = quantiles(
            combine(physics[static_cast<std::size_t>(i)], corrections.col(i), process, places(i, 0), places(i, 1)));
      }
    }
  }

  [[nodiscard]] JointNormal joint(std::span<const Workload> workloads) const override {
    const auto count = static_cast<Eigen::Index>(workloads.size());
    Eigen::MatrixXd places(count, ResidualKernel::inputs);
    std::vector<PhysicsView> physics;
    for (Eigen::Index i = 0; i < count; ++i) {
      const Workload& workload = workloads[static_cast<std::size_t>(i)];
      const StepShape shape(workload);
      const StepShape::Place place = shape.place(workload.batch_size);
      for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = place[static_cast<std::size_t>(j)];
      physics.push_back(view(costs, unseen, shape));
    }
    const Eigen::MatrixXd scaled = kernel.scaled(places);
    const Eigen::MatrixXd covariance = kernel.covariance(scaled_, scaled);
    const Eigen::MatrixXd spread = inverse_factor_.triangularView<Eigen::Lower>() * covariance;
    const Eigen::MatrixXd corrections = alpha_.transpose() * covariance;
    JointNormal joint{Eigen::VectorXd(count), kernel.covariance(scaled, scaled) - spread.transpose() * spread};
    // The correlations are the process's; the variances are those that the intervals have.
    Eigen::VectorXd factor(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const double process = std::max(joint.covariance(i, i), 1e-12);
      const Estimate estimate =
          combine(physics[static_cast<std::size_t>(i)], corrections.col(i), process, places(i, 0), places(i, 1));
      joint.mean[i] = estimate.mean;
      const double deviation = std::min(quantile(estimate) / z90 * std::sqrt(latent(estimate)), traffic_deviation);
      factor[i] = deviation / std::sqrt(process);
      joint.covariance(i, i) = process;
    }
    joint.covariance = factor.asDiagonal() * joint.covariance * factor.asDiagonal();
    return joint;
  }

  [[nodiscard]] std::vector<TimeTerm> breakdown(const Workload& workload) const override {
    const StepShape shape(workload);
    EpochTime share;
    double log_total = 0;
    for (std::size_t f = 0; f < forms; ++f) {
      const EpochTime time = epoch_time(physics_forms[f], costs[f], shape);
      const double weight = weights[static_cast<Eigen::Index>(f)] / time.total();
      share.input += weight * time.input;
      share.launch += weight * time.launch;
      share.compute += weight * time.compute;
      share.memory += weight * time.memory;
      share.weights += weight * time.weights;
      log_total += weights[static_cast<Eigen::Index>(f)] * std::log(time.total());
    }
    const double physics = std::exp(log_total);
    return {{"input", share.input * physics},     {"launch", share.launch * physics},
            {"compute", share.compute * physics}, {"memory", share.memory * physics},
            {"weights", share.weights * physics}, {"residual", predict(workload).p50 - physics}};
  }

  std::optional<std::string> observe(const AggregateRow& measured) override {
    Row row = row_of(measured);
    const Estimate expected = estimate(measured.workload);
    const double deviation =
        std::max(std::sqrt(expected.process + kernel.noise2() * row.noise), half_width(expected) / z90);
    const double away = (row.log_time - expected.mean) / deviation;
    if (std::abs(away) > outlier_deviations) {
      return fmt::format("{:.4g} s where {:.4g} s was expected: {:.1f} standard deviations away",
                         std::exp(row.log_time), std::exp(expected.mean), away);
    }
    learn(std::move(row));
    return std::nullopt;
  }

  [[nodiscard]] std::vector<SetAside> dropped() const override { return set_aside; }

  [[nodiscard]] nlohmann::json to_json() const override {
    nlohmann::json json_rows = nlohmann::json::array();
    for (const Row& row : rows) {
      json_rows.push_back({{"key", row.key},
                           {"place", row.place},
                           {"log_time", row.log_time},
                           {"noise", row.noise},
                           {"log_physics", perfpred::to_json(Eigen::VectorXd(row.log_physics))}});
    }
    nlohmann::json json_costs = nlohmann::json::array();
    for (std::size_t f = 0; f < forms; ++f) {
      json_costs.push_back({{"form", physics_forms[f].name},
                            {"costs", perfpred::to_json(Eigen::VectorXd(costs[f]))},
                            {"unseen", unseen[f]}});
    }
    nlohmann::json json_dropped = nlohmann::json::array();
    for (const SetAside& row : set_aside) json_dropped.push_back({{"key", row.key}, {"reason", row.reason}});
    return {{"rows", json_rows},
            {"fitted_rows", fitted_rows},
            {"forms", json_costs},
            {"weights", perfpred::to_json(Eigen::VectorXd(weights))},
            {"kernel", perfpred::to_json(Eigen::VectorXd(kernel.theta))},
            {"calibration",
             {{"process_log", calibration.process_log},
              {"novelty", calibration.novelty},
              {"disagreement_log", calibration.disagreement_log},
              {"shares", calibration.shares},
              {"quantiles", calibration.quantiles},
              {"most_share", calibration.most_share}}},
            {"dropped", json_dropped}};
  }

 private:
  std::vector<double> depths_, widths_;  // that rows have, each once
  Eigen::MatrixXd scaled_;               // places of the rows over the kernel's lengths
  Eigen::MatrixXd inverse_factor_;       // of the Cholesky factor of the rows' covariance, noise included
  Eigen::MatrixXd alpha_;                // covariance^-1 * residuals, a form a column

  void note_levels(const Row& row) {
    for (const auto& [levels, value] : {std::pair(&depths_, row.place[0]), std::pair(&widths_, row.place[1])}) {
      if (std::find(levels->begin(), levels->end(), value) == levels->end()) levels->push_back(value);
    }
  }

  void append(const Row& row) {
    note_levels(row);
    const Eigen::Index n = scaled_.rows();
    Eigen::MatrixXd place(1, ResidualKernel::inputs);
    for (Eigen::Index j = 0; j < place.cols(); ++j) place(0, j) = row.place[static_cast<std::size_t>(j)];
    const Eigen::MatrixXd scaled = kernel.scaled(place);
    // Last row of the factor: (l', d) with L l = k, d^2 = k** - l'l; of its inverse: (-l' L^-1 / d, 1 / d).
    const Eigen::VectorXd l =
        inverse_factor_.triangularView<Eigen::Lower>() * kernel.covariance(scaled_, scaled).col(0);
    const double d =
        std::sqrt(std::max(kernel.amplitude2() + kernel.noise2() * row.noise + 1e-10 - l.squaredNorm(), 1e-12));
    const Eigen::VectorXd last = inverse_factor_.transpose().triangularView<Eigen::Upper>() * l;
    inverse_factor_.conservativeResizeLike(Eigen::MatrixXd::Zero(n + 1, n + 1));
    inverse_factor_.row(n).head(n) = -last.transpose() / d;
    inverse_factor_(n, n) = 1 / d;
    scaled_.conservativeResize(n + 1, Eigen::NoChange);
    scaled_.row(n) = scaled.row(0);
  }

  void solve() { alpha_ = solved(inverse_factor_, residuals_of(rows)); }

  [[nodiscard]] Estimate combine(const PhysicsView& physics, const FormVector& correction, double process, double depth,
                                 double width) const {
    Estimate estimate;
    const FormVector by_form = physics.log_time + correction;
    estimate.mean = weights.dot(by_form);
    estimate.process = process;
    estimate.disagreement = weights.dot((by_form.array() - estimate.mean).square().matrix());
    estimate.unseen = weights.dot(physics.unseen);
    const auto is_new = [](const std::vector<double>& known, double value) {
      return std::none_of(known.begin(), known.end(), [&](double one) { return std::abs(one - value) < same_level; });
    };
    estimate.new_depth = is_new(depths_, depth);
    estimate.new_width = is_new(widths_, width);
    return estimate;
  }

  [[nodiscard]] double latent(const Estimate& estimate) const {
    return calibration.latent(estimate.process, share(estimate), estimate.disagreement) + estimate.unseen;
  }

  [[nodiscard]] double share(const Estimate& estimate) const { return estimate.process / kernel.amplitude2(); }

  [[nodiscard]] double quantile(const Estimate& estimate) const {
    return calibration.quantile(share(estimate), estimate.new_depth, estimate.new_width);
  }

  [[nodiscard]] double half_width(const Estimate& estimate) const {
    return std::min(quantile(estimate) * std::sqrt(kernel.noise2() + latent(estimate)), widest);
  }

  [[nodiscard]] Quantiles quantiles(const Estimate& estimate) const {
    return quantiles_about(estimate.mean, half_width(estimate));
  }

  [[nodiscard]] Estimate estimate(const Workload& workload) const {
    const StepShape shape(workload);
    const StepShape::Place place = shape.place(workload.batch_size);
    const Eigen::Index n = scaled_.rows();
    double stack[2 * stack_rows];
    thread_local std::vector<double> heap;
    double* buffer = stack;
    if (n > stack_rows) {
      heap.resize(static_cast<std::size_t>(2 * n));
      buffer = heap.data();
    }
    std::array<double, ResidualKernel::inputs> scaled;
    for (int input = 0; input < ResidualKernel::inputs; ++input)
      scaled[static_cast<std::size_t>(input)] = place[static_cast<std::size_t>(input)] * std::exp(-kernel.theta[input]);
    kernel.covariance_column(scaled_, scaled.data(), buffer);
    const Eigen::Map<const Eigen::VectorXd> covariance(buffer, n);
    const double explained = lower_product_norm2(inverse_factor_.data(), buffer, buffer + n, n);
    FormVector correction;
    for (Eigen::Index f = 0; f < correction.size(); ++f) correction[f] = alpha_.col(f).dot(covariance);
    return combine(view(costs, unseen, shape), correction, std::max(0.0, kernel.amplitude2() - explained), place[0],
                   place[1]);
  }
};

/// Weights of the forms, on the simplex, that make the held-out rows' median absolute error small; drawn to equal
/// weights where the rows cannot tell.
FormVector choose_weights(const std::vector<HeldOut>& held_out, const HybridConstants& constants) {
  const FormVector prior = Eigen::Map<const FormVector>(constants.form_weights.data());
  const auto weights_of = [&](const double* x) {
    FormVector logits = prior.array().log();
    for (std::size_t f = 1; f < forms; ++f) logits[static_cast<Eigen::Index>(f)] += x[f - 1];
    FormVector weights = (logits.array() - logits.maxCoeff()).exp();
    return FormVector(weights / weights.sum());
  };
  const auto loss_of = [&](const FormVector& weights) {
    double loss = 0, total = 0;
    for (const HeldOut& row : held_out) {
      loss += row.weight * std::sqrt(1e-6 + std::pow(weights.dot(row.by_form) - row.log_time, 2));
      total += row.weight;
    }
    return loss / total;
  };
  const double scale = loss_of(weights_of(std::array<double, forms - 1>{}.data()));
  const auto objective = [&](const double* x, const double*) {
    double value = loss_of(weights_of(x)) / scale;
    for (std::size_t f = 0; f + 1 < forms; ++f) value += constants.weight_pull * x[f] * x[f];
    return value;
  };
  nlopt::opt search(nlopt::LN_BOBYQA, forms - 1);
  search.set_lower_bounds(-5);
  search.set_upper_bounds(5);
  search.set_ftol_rel(1e-4);
  search.set_maxeval(200);
  search.set_initial_step(0.5);
  return weights_of(minimum(search, std::vector<double>(forms - 1, 0.0), objective).data());
}

/// @param groups   that were left out, of each kind
/// @param dropped  rows that were not even predicted: they count as not covered
Calibration calibrate(const std::vector<HeldOut>& held_out, const FormVector& weights,
                      const std::array<std::size_t, left_out_kinds>& groups, std::size_t dropped) {
  struct Sample {
    double error, process, share, disagreement, unseen, noise, weight;
  };
  std::vector<Sample> samples;
  for (const HeldOut& row : held_out) {
    const double mean = weights.dot(row.by_form);
    samples.push_back({std::abs(mean - row.log_time), row.process, row.share,
                       weights.dot((row.by_form.array() - mean).square().matrix()), weights.dot(row.unseen), row.noise,
                       row.weight});
  }
  const auto deviation = [&](const Calibration& calibration, const Sample& sample) {
    return std::sqrt(sample.noise + calibration.latent(sample.process, sample.share, sample.disagreement) +
                     sample.unseen);
  };
  // Laplace likelihood: a group that went far wrong must not set the scale alone.
  const auto objective = [&](const double* x, const double*) {
    const Calibration calibration{.process_log = x[0], .novelty = x[1], .disagreement_log = x[2]};
    double loss = 0.5 * (x[0] * x[0] + x[1] * x[1] / 9 + x[2] * x[2]) / static_cast<double>(samples.size());
    double total = 0;
    for (const Sample& sample : samples) total += sample.weight;
    for (const Sample& sample : samples) {
      const double scale = deviation(calibration, sample);
      loss += sample.weight / total * (std::sqrt(2.0) * sample.error / scale + std::log(scale));
    }
    return loss;
  };
  nlopt::opt search(nlopt::LN_BOBYQA, 3);
  search.set_lower_bounds({-3, 0, -5});
  search.set_upper_bounds({5, 8, 5});
  search.set_ftol_rel(1e-5);
  search.set_maxeval(200);
  search.set_initial_step(0.5);
  const std::vector<double> x = minimum(search, {0.0, 0.5, 0.0}, objective);
  Calibration calibration{.process_log = x[0], .novelty = x[1], .disagreement_log = x[2]};
  calibration.most_share = 0;
  for (const Sample& sample : samples) calibration.most_share = std::max(calibration.most_share, sample.share);
  // Conformal: quantiles of the standardised errors, of each kind of group apart; never less than of what is nearer.
  for (std::size_t kind = 0; kind < left_out_kinds; ++kind) {
    std::vector<double> errors, shares;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (held_out[i].left_out != kind) continue;
      errors.push_back(samples[i].error / deviation(calibration, samples[i]));
      shares.push_back(samples[i].share);
    }
    double& quantile = calibration.quantiles[kind];
    if (!errors.empty()) {
      const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
      std::nth_element(shares.begin(), middle, shares.end());
      calibration.shares[kind] = *middle;
      const auto n = static_cast<double>(errors.size());
      const double level = std::min(0.9 * (n + static_cast<double>(dropped)) / n, 1.0);
      quantile = conformal_half_width(std::move(errors), level) * student_factor(groups[kind]);
    } else if (kind != row_alone) {
      quantile = 0;  // no two such groups
    }
    if (kind != row_alone)
      quantile = std::max(quantile, calibration.quantiles[kind == architecture ? row_alone : architecture]);
  }
  return calibration;
}

/// Fits, step by step: physics, process, outliers, physics with the process, held-out groups, weights, intervals.
class HybridFit {
 public:
  HybridFit(const TrainingTable& table, const HybridConstants& constants) : constants_(constants), seed_(table.seed) {
    model_->weights = Eigen::Map<const FormVector>(constants.form_weights.data());
    if (table.rows.size() < fewest_rows) {
      throw InputError(
          fmt::format("{} rows are too few for a hybrid model: it needs {}", table.rows.size(), fewest_rows));
    }
    std::vector<std::size_t> order(table.rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 random(table.seed);
    if (order.size() > most_rows) {
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i = most_rows; i < order.size(); ++i) {
        model_->set_aside.push_back(
            {table.rows[order[i]].workload.key(), fmt::format("beyond the {} rows that the process takes", most_rows)});
      }
      order.resize(most_rows);
      std::sort(order.begin(), order.end());
    }
    for (const std::size_t i : order) {
      const AggregateRow& measured = table.rows[i];
      shapes_.emplace_back(measured.workload);
      Row& row = rows_.emplace_back();
      row.key = measured.workload.key();
      row.place = shapes_.back().place(measured.workload.batch_size);
      row.log_time = std::log(*measured.avg_time_mean);
      row.noise = 1.0 / static_cast<double>(measured.n);
    }
    estimate_run_noise(table.rows);
  }

  std::unique_ptr<RegressorModel> run() {
    fit_physics();
    drop_outliers();
    const std::vector<std::size_t> searched = subset();
    krige_physics(searched);
    std::vector<HeldOut> held_out = hold_out(searched);
    model_->weights = choose_weights(held_out, constants_);
    model_->calibration = calibrate(held_out, model_->weights, groups_, dropped_);
    model_->rows = rows_;
    model_->fitted_rows = rows_.size();
    model_->prepare();
    return std::move(model_);
  }

 private:
  std::unique_ptr<HybridModel> model_ = std::make_unique<HybridModel>();
  std::vector<StepShape> shapes_;
  std::vector<Row> rows_;
  HybridConstants constants_;  // its noise of a run is replaced where repeats or epochs show it
  std::uint64_t seed_;
  std::array<std::size_t, left_out_kinds> groups_{};  // that were left out
  std::size_t dropped_ = 0;                           // rows, as outliers

  [[nodiscard]] std::vector<PhysicsRow> physics_rows(const std::vector<std::size_t>& places) const {
    std::vector<PhysicsRow> picked;
    for (const std::size_t i : places) picked.push_back({&shapes_[i], rows_[i].log_time});
    return picked;
  }

  [[nodiscard]] std::vector<std::size_t> all() const {
    std::vector<std::size_t> places(rows_.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    return places;
  }

  /// At random: every so-and-so-manieth row of a grid in order would be of a few batch sizes only.
  [[nodiscard]] std::vector<std::size_t> subset() const {
    std::vector<std::size_t> places = all();
    if (places.size() <= search_rows) return places;
    std::mt19937_64 random(seed_);
    std::shuffle(places.begin(), places.end(), random);
    places.resize(search_rows);
    std::sort(places.begin(), places.end());
    return places;
  }

  [[nodiscard]] std::vector<Row> pick(const std::vector<std::size_t>& places) const {
    std::vector<Row> picked;
    for (const std::size_t i : places) picked.push_back(rows_[i]);
    return picked;
  }

  /// Pooled from repeats, once there are enough. Before, it is at least what the epochs within runs show.
  void estimate_run_noise(const std::vector<AggregateRow>& rows) {
    double squares = 0, degrees = 0, epoch_squares = 0, runs = 0;
    for (const AggregateRow& row : rows) {
      if (row.epoch_rel_sem) {
        epoch_squares += static_cast<double>(row.n) * *row.epoch_rel_sem * *row.epoch_rel_sem;
        runs += static_cast<double>(row.n);
      }
      if (row.n < 2 || !row.avg_time_std) continue;
      const double relative = *row.avg_time_std / *row.avg_time_mean;
      squares += static_cast<double>(row.n - 1) * relative * relative;
      degrees += static_cast<double>(row.n - 1);
    }
    double& noise = constants_.process.run_noise;
    if (degrees >= fewest_repeats) {
      noise = std::clamp(std::sqrt(squares / degrees), 1e-4, 0.1);
    } else if (runs > 0) {
      noise = std::clamp(std::sqrt(epoch_squares / runs), noise, 0.1);
    }
  }

  void fit_physics(bool again = false) {
    const std::vector<PhysicsRow> rows = physics_rows(all());
    for (std::size_t f = 0; f < forms; ++f) {
      const Costs start = model_->costs[f];
      model_->costs[f] = fit_costs(physics_forms[f], rows, constants_.cost_deviation, again ? &start : nullptr);
      model_->unseen[f] = unseen_costs(physics_forms[f], rows);
    }
    note_physics();
  }

  /// Anew, with the process that the first fit left over.
  void krige_physics(const std::vector<std::size_t>& searched) {
    const std::vector<PhysicsRow> rows = physics_rows(searched);
    const std::vector<Row> some = pick(searched);
    const Eigen::MatrixXd inverse_factor =
        inverse_factor_of(model_->kernel, model_->kernel.scaled(places_of(some)), some);
    for (std::size_t f = 0; f < forms; ++f) {
      const Costs before = model_->costs[f];
      model_->costs[f] = krige_costs(physics_forms[f], rows, constants_.cost_deviation, before, inverse_factor);
      const Unseen unseen = unseen_costs(physics_forms[f], rows);
      for (std::size_t cost = 0; cost < unseen.size(); ++cost) {  // that other rows have shown
        const auto at = static_cast<Eigen::Index>(cost);
        if (unseen[cost] && !model_->unseen[f][cost]) model_->costs[f][at] = before[at];
      }
    }
    note_physics();
  }

  void note_physics() {
    for (const Costs& costs : model_->costs) {
      if (!costs.allFinite()) throw Error("the fit of the physical model diverged");
    }
    for (std::size_t i = 0; i < rows_.size(); ++i)
      rows_[i].log_physics = view(model_->costs, model_->unseen, shapes_[i]).log_time;
  }

  void drop_outliers() {
    const auto most = static_cast<std::size_t>(largest_dropped_share * static_cast<double>(rows_.size()));
    for (bool again = false;; again = true) {
      const std::vector<std::size_t> searched = subset();
      const std::vector<Row> some = pick(searched);
      const Eigen::VectorXd residuals = residuals_of(some) * model_->weights;
      const Eigen::MatrixXd places = places_of(some);
      const Eigen::VectorXd noise = noise_of(some);
      const ResidualKernel start = model_->kernel;
      model_->kernel = fit_kernel(places, residuals, noise, constants_.process, again ? &start : nullptr);
      // Leave-one-out residuals in closed form: alpha_i / (K^-1)_ii with variance 1 / (K^-1)_ii.
      const Eigen::MatrixXd inverse = noisy_covariance(model_->kernel, model_->kernel.scaled(places), noise)
                                          .llt()
                                          .solve(Eigen::MatrixXd::Identity(noise.size(), noise.size()));
      const Eigen::VectorXd standardised = (inverse * residuals).cwiseQuotient(inverse.diagonal().cwiseSqrt());
      Eigen::Index worst = 0;
      const double away = standardised.cwiseAbs().maxCoeff(&worst);
      if (away <= constants_.outlier_deviations || dropped_ >= most) return;
      const std::size_t place = searched[static_cast<std::size_t>(worst)];
      model_->set_aside.push_back(
          {rows_[place].key,
           fmt::format("{:.4g} s where the other rows say {:.4g} s: {:.1f} standard deviations away",
                       std::exp(rows_[place].log_time),
                       std::exp(rows_[place].log_time - standardised[worst] / std::sqrt(inverse(worst, worst))),
                       standardised[worst])});
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(place));
      shapes_.erase(shapes_.begin() + static_cast<std::ptrdiff_t>(place));
      ++dropped_;
      fit_physics(true);
    }
  }

  /// Predicts groups from the other rows, physics and process fitted anew.
  [[nodiscard]] std::vector<HeldOut> hold_out(const std::vector<std::size_t>& searched) {
    std::vector<HeldOut> held_out;
    const std::vector<Row> some = pick(searched);
    const KernelCovariance kernel_covariance = laplace_covariance(
        model_->kernel, places_of(some), residuals_of(some) * model_->weights, noise_of(some), constants_.process);
    const bool few = searched.size() < few_rows;
    const std::size_t fewest = few ? fewest_rows - 1 : fewest_rows;
    const auto hold = [&](LeftOut left_out, const auto& group_of) {
      std::map<decltype(group_of(rows_.front())), std::vector<std::size_t>> groups;
      for (const std::size_t i : searched) groups[group_of(rows_[i])].push_back(i);
      if (groups.size() < 2) return;
      // Of few rows, the forms' weights that the same errors choose cost noticeable degrees of freedom.
      groups_[left_out] = left_out == row_alone ? searched.size() - (few ? forms - 1 : 0) : groups.size();
      const std::size_t first = held_out.size();
      for (const auto& [name, out] : groups) {
        std::vector<std::size_t> in;
        std::set_difference(searched.begin(), searched.end(), out.begin(), out.end(), std::back_inserter(in));
        if (in.size() >= fewest) predict_without(in, out, kernel_covariance, held_out);
      }
      for (std::size_t i = first; i < held_out.size(); ++i) {
        held_out[i].weight = 1.0 / static_cast<double>(held_out.size() - first);
        held_out[i].left_out = left_out;
      }
    };
    hold(depth, [](const Row& row) { return row.place[0]; });
    hold(width, [](const Row& row) { return row.place[1]; });
    hold(architecture, [](const Row& row) { return std::pair(row.place[0], row.place[1]); });
    std::map<const Row*, std::size_t> part;
    std::vector<std::size_t> order = searched;
    std::mt19937_64 random(seed_);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < order.size(); ++i) part[&rows_[order[i]]] = few ? i : i % random_parts;
    hold(row_alone, [&](const Row& row) { return part.at(&row); });
    return held_out;
  }

  void predict_without(const std::vector<std::size_t>& in, const std::vector<std::size_t>& out,
                       const KernelCovariance& kernel_covariance, std::vector<HeldOut>& held_out) const {
    std::vector<Row> known = pick(in);
    const std::vector<Row> asked = pick(out);
    const std::vector<PhysicsRow> physics = physics_rows(in);
    const Eigen::MatrixXd places = places_of(known);
    // The costs under the process of all rows, then the process of the known rows under those costs.
    const Eigen::MatrixXd inverse_factor_of_all =
        inverse_factor_of(model_->kernel, model_->kernel.scaled(places), known);
    std::array<Costs, forms> costs;
    std::array<Unseen, forms> unseen;
    for (std::size_t f = 0; f < forms; ++f) {
      costs[f] =
          krige_costs(physics_forms[f], physics, constants_.cost_deviation, model_->costs[f], inverse_factor_of_all);
      unseen[f] = unseen_costs(physics_forms[f], physics);
    }
    for (std::size_t i = 0; i < in.size(); ++i) known[i].log_physics = view(costs, unseen, shapes_[in[i]]).log_time;
    const ResidualKernel kernel =
        refit_kernel(model_->kernel, kernel_covariance, places, residuals_of(known) * model_->weights, noise_of(known),
                     constants_.process);
    const Eigen::MatrixXd scaled = kernel.scaled(places);
    const Eigen::MatrixXd inverse_factor = inverse_factor_of(kernel, scaled, known);
    const Eigen::MatrixXd alpha = solved(inverse_factor, residuals_of(known));
    const Eigen::MatrixXd across = kernel.covariance(scaled, kernel.scaled(places_of(asked)));
    const Eigen::MatrixXd spread = inverse_factor.triangularView<Eigen::Lower>() * across;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto column = static_cast<Eigen::Index>(i);
      const PhysicsView physics_view = view(costs, unseen, shapes_[out[i]]);
      HeldOut row;
      row.unseen = physics_view.unseen;
      row.by_form = physics_view.log_time + alpha.transpose() * across.col(column);
      row.log_time = asked[i].log_time;
      row.process = std::max(0.0, kernel.amplitude2() - spread.col(column).squaredNorm());
      row.share = row.process / kernel.amplitude2();
      row.noise = asked[i].noise * kernel.noise2();
      held_out.push_back(row);
    }
  }
};

std::unique_ptr<RegressorModel> fit_by_default(const TrainingTable& table) { return fit_hybrid(table, {}); }

std::unique_ptr<RegressorModel> load_hybrid(const nlohmann::json& json) {
  auto model = std::make_unique<HybridModel>();
  const auto form_vector = [](const nlohmann::json& object, const char* name) {
    const Eigen::VectorXd vector = json_vector(object, name);
    if (vector.size() != static_cast<Eigen::Index>(forms))
      throw ModelError(fmt::format("field \"{}\" has a wrong size", name));
    return FormVector(vector);
  };
  const auto list = [&](const char* name) -> const nlohmann::json& {
    const nlohmann::json& value = json_field(json, name);
    if (!value.is_array()) throw ModelError(fmt::format("field \"{}\" is not a list", name));
    return value;
  };
  for (const nlohmann::json& item : list("rows")) {
    Row& row = model->rows.emplace_back();
    row.key = json_text(item, "key");
    const Eigen::VectorXd place = json_vector(item, "place");
    if (place.size() != ResidualKernel::inputs) throw ModelError("field \"place\" has a wrong size");
    std::copy(place.data(), place.data() + place.size(), row.place.begin());
    row.log_time = json_number(item, "log_time");
    row.noise = json_number(item, "noise");
    row.log_physics = form_vector(item, "log_physics");
  }
  const double fitted_rows = json_number(json, "fitted_rows");
  if (!(fitted_rows >= 1) || fitted_rows > static_cast<double>(model->rows.size()))
    throw ModelError("field \"fitted_rows\" is out of range");
  model->fitted_rows = static_cast<std::size_t>(fitted_rows);
  const nlohmann::json& json_forms = list("forms");
  if (json_forms.size() != forms) throw ModelError("field \"forms\" has a wrong size");
  for (std::size_t f = 0; f < forms; ++f) {
    if (json_text(json_forms[f], "form") != physics_forms[f].name) throw ModelError("field \"form\" is not known");
    const Eigen::VectorXd costs = json_vector(json_forms[f], "costs");
    if (costs.size() != cost_count) throw ModelError("field \"costs\" has a wrong size");
    model->costs[f] = costs;
    const nlohmann::json& unseen = json_field(json_forms[f], "unseen");
    if (!unseen.is_array() || unseen.size() != cost_count ||
        !std::all_of(unseen.begin(), unseen.end(), [](const nlohmann::json& one) { return one.is_boolean(); })) {
      throw ModelError("field \"unseen\" is not a list of truth values, one a cost");
    }
    for (std::size_t cost = 0; cost < unseen.size(); ++cost) model->unseen[f][cost] = unseen[cost].get<bool>();
  }
  model->weights = form_vector(json, "weights");
  const Eigen::VectorXd theta = json_vector(json, "kernel");
  if (theta.size() != ResidualKernel::parameters) throw ModelError("field \"kernel\" has a wrong size");
  model->kernel.theta = theta;
  const nlohmann::json& calibration = json_field(json, "calibration");
  const auto by_kind = [&](const char* name) {
    const Eigen::VectorXd vector = json_vector(calibration, name);
    if (vector.size() != left_out_kinds) throw ModelError(fmt::format("field \"{}\" has a wrong size", name));
    std::array<double, left_out_kinds> values{};
    std::copy(vector.begin(), vector.end(), values.begin());
    return values;
  };
  model->calibration = {json_number(calibration, "process_log"),
                        json_number(calibration, "novelty"),
                        json_number(calibration, "disagreement_log"),
                        by_kind("shares"),
                        by_kind("quantiles"),
                        json_number(calibration, "most_share")};
  for (const nlohmann::json& item : list("dropped")) {
    model->set_aside.push_back({json_text(item, "key"), json_text(item, "reason")});
  }
  model->prepare();
  return model;
}

}  // namespace

std::unique_ptr<RegressorModel> fit_hybrid(const TrainingTable& table, const HybridConstants& constants) {
  return HybridFit(table, constants).run();
}

const RegressorKind hybrid_kind = {"hybrid", false, fit_by_default, load_hybrid};

}  // namespace perfpred
