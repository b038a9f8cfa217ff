// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/hybrid_model.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/hybrid/step_shape.h"
#include "statistics/confidence.h"
#include "statistics/estimate.h"

namespace perfpred {
namespace {

constexpr double same_level = 0.1;                  // depths or log2 widths that differ by less count as one
constexpr double widest = z90 * traffic_deviation;  // largest half width of log time: of a run all of unseen costs
constexpr std::size_t block_columns = 128;          // predictions that share a pass over the process's matrices

/// Averages two labels of one workload by their precision.
void merge_into(HybridRow& row, const HybridRow& other) {
  const double weight = 1 / row.noise, more = 1 / other.noise;
  row.log_time = (weight * row.log_time + more * other.log_time) / (weight + more);
  row.noise = 1 / (weight + more);
}

void add_level(std::vector<double>& levels, double value) {
  if (std::find(levels.begin(), levels.end(), value) == levels.end()) levels.push_back(value);
}

bool is_new(const std::vector<double>& levels, double value) {
  return std::none_of(levels.begin(), levels.end(), [&](double one) { return std::abs(one - value) < same_level; });
}

}  // namespace

PhysicsView FittedPhysics::view(const StepShape& shape) const {
  Costs gradient;
  const double total = epoch_time(costs, shape, &gradient).total();
  PhysicsView seen{.log_time = std::log(total)};
  for (std::size_t cost = 0; cost < unseen.size(); ++cost) {
    if (unseen[cost]) seen.unseen += std::pow(traffic_deviation * gradient[static_cast<Eigen::Index>(cost)] / total, 2);
  }
  return seen;
}

HybridRow hybrid_row(const AggregateRow& measured, const StepShape& shape, double usual_noise) {
  double run = measured.epoch_rel_sem.value_or(0);
  if ((measured.flags.unstable || measured.flags.disagree) && measured.n > 1 && measured.avg_time_std)
    run = std::max(run, *measured.avg_time_std / *measured.avg_time_mean);
  const double ratio = run / usual_noise;
  HybridRow row;
  row.key = measured.workload.key();
  row.place = shape.place(measured.workload.batch_size);
  row.log_time = std::log(*measured.avg_time_mean);
  row.noise = (ratio > wide_label ? ratio * ratio : 1) / static_cast<double>(measured.n);
  return row;
}

Eigen::MatrixXd places_of(std::span<const HybridRow> rows) {
  std::vector<Place> places;
  for (const HybridRow& row : rows) places.push_back(row.place);
  return place_matrix(places);
}

Eigen::VectorXd noise_of(std::span<const HybridRow> rows) {
  Eigen::VectorXd noise(static_cast<Eigen::Index>(rows.size()));
  for (Eigen::Index i = 0; i < noise.size(); ++i) noise[i] = rows[static_cast<std::size_t>(i)].noise;
  return noise;
}

Eigen::VectorXd residuals_of(std::span<const HybridRow> rows) {
  Eigen::VectorXd residuals(static_cast<Eigen::Index>(rows.size()));
  for (Eigen::Index i = 0; i < residuals.size(); ++i) {
    const HybridRow& row = rows[static_cast<std::size_t>(i)];
    residuals[i] = row.log_time - row.log_physics;
  }
  return residuals;
}

ResidualProcess process_of(const ResidualKernel& kernel, std::span<const HybridRow> rows, std::size_t max_exact) {
  return {ResidualInputs(kernel, places_of(rows)), kernel.label_variance(noise_of(rows)), residuals_of(rows),
          max_exact};
}

void HybridModel::prepare() {
  process_ = process_of(kernel, rows);
  depths_.clear();
  widths_.clear();
  for (const HybridRow& row : rows) {
    add_level(depths_, row.place[PlaceInput::depth]);
    add_level(widths_, row.place[PlaceInput::log2_width]);
  }
}

// ---- prediction

Estimate HybridModel::estimate(const Workload& workload) const {
  return calibrated(evidence(StepShape(workload, device), workload.batch_size));
}

void HybridModel::estimate(std::span<const Workload> workloads, std::span<Estimate> out) const {
  for (std::size_t begin = 0; begin < workloads.size(); begin += block_columns) {
    const Asked asked = ask(workloads.subspan(begin, std::min(workloads.size() - begin, block_columns)));
    const std::vector<ResidualProcess::At> residuals = process_.at(asked.scaled);
    for (std::size_t i = 0; i < residuals.size(); ++i)
      out[begin + i] = calibrated(combine(asked.physics[i], residuals[i], asked.places[i]));
  }
}

JointNormal HybridModel::joint(std::span<const Workload> workloads) const {
  const Asked asked = ask(workloads);
  const auto count = static_cast<Eigen::Index>(workloads.size());
  ResidualProcess::Joint residuals = process_.joint(asked.scaled);
  JointNormal joint{Eigen::VectorXd(count), std::move(residuals.covariance)};
  // Correlations come from the process, variances from the calibrated intervals.
  Eigen::VectorXd factor(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double process = std::max(joint.covariance(i, i), 1e-12);
    const Evidence of_one = combine(asked.physics[at], {residuals.mean[i], process}, asked.places[at]);
    joint.mean[i] = of_one.mean;
    const double deviation = std::min(quantile(of_one) / z90 * std::sqrt(latent(of_one)), traffic_deviation);
    factor[i] = deviation / std::sqrt(process);
    joint.covariance(i, i) = process;
  }
  joint.covariance = factor.asDiagonal() * joint.covariance * factor.asDiagonal();
  return joint;
}

std::vector<TimeTerm> HybridModel::breakdown(const Workload& workload) const {
  const StepShape shape(workload, device);
  const EpochTime time = epoch_time(physics.costs, shape);
  const double predicted = calibrated(evidence(shape, workload.batch_size)).quantiles().p50;
  return {{"input", time.input},   {"launch", time.launch},   {"compute", time.compute},
          {"memory", time.memory}, {"weights", time.weights}, {"residual", predicted - time.total()}};
}

HybridModel::Asked HybridModel::ask(std::span<const Workload> workloads) const {
  Asked asked;
  for (const Workload& workload : workloads) {
    const StepShape shape(workload, device);
    asked.places.push_back(shape.place(workload.batch_size));
    asked.scaled.push_back(process_.inputs().scaled(asked.places.back()));
    asked.physics.push_back(physics.view(shape));
  }
  return asked;
}

HybridModel::Evidence HybridModel::evidence(const StepShape& shape, std::int64_t batch_size) const {
  const Place place = shape.place(batch_size);
  return combine(physics.view(shape), process_.at(process_.inputs().scaled(place)), place);
}

HybridModel::Evidence HybridModel::combine(const PhysicsView& view, const ResidualProcess::At& residual,
                                           const Place& place) const {
  return {view.log_time + residual.mean, residual.variance, view.unseen, is_new(depths_, place[PlaceInput::depth]),
          is_new(widths_, place[PlaceInput::log2_width])};
}

double HybridModel::latent(const Evidence& evidence) const {
  return calibration.latent(kernel.amplitude2(), share(evidence)) + evidence.unseen;
}

double HybridModel::share(const Evidence& evidence) const { return evidence.process / kernel.amplitude2(); }

double HybridModel::quantile(const Evidence& evidence) const {
  return calibration.quantile(share(evidence), evidence.new_depth, evidence.new_width);
}

double HybridModel::half_width(const Evidence& evidence) const {
  return std::min(quantile(evidence) * std::sqrt(kernel.noise2() + latent(evidence)), widest);
}

Estimate HybridModel::calibrated(const Evidence& evidence) const {
  return {evidence.mean, {.model = half_width(evidence)}};
}

// ---- learning

std::optional<std::string> HybridModel::outlier(const HybridRow& row, const Evidence& expected, double stated) const {
  const double deviation =
      std::max(std::sqrt(expected.process + kernel.noise2() * row.noise), std::max(stated, half_width(expected)) / z90);
  const double away = (row.log_time - expected.mean) / deviation;
  if (std::abs(away) <= outlier_deviations) return std::nullopt;
  return fmt::format("outlier: {:.4g} s, where {:.4g} s was expected, {:.1f} standard deviations away",
                     std::exp(row.log_time), std::exp(expected.mean), away);
}

LearnResult HybridModel::learn(std::span<const AggregateRow> measured, std::span<const double> stated) const {
  LearnResult result;
  auto model = std::make_unique<HybridModel>(*this);
  bool changed = false;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const AggregateRow& one = measured[i];
    std::optional<std::string>& reason = result.rejected.emplace_back();
    try {
      const StepShape shape(one.workload, device);
      HybridRow row = hybrid_row(one, shape, usual_noise);
      row.log_physics = physics.view(shape).log_time;
      reason = outlier(row, evidence(shape, one.workload.batch_size), stated[i]);
      if (reason) continue;
      changed = true;
      const auto known = std::find_if(model->rows.begin(), model->rows.end(),
                                      [&](const HybridRow& other) { return other.key == row.key; });
      if (known == model->rows.end()) {
        model->rows.push_back(std::move(row));
      } else {
        merge_into(*known, row);
      }
    } catch (const InputError& error) {
      reason = error.what();
    }
  }
  if (!changed) return result;
  model->prepare();
  result.forgotten = model->forget_redundant_rows();
  result.model = std::move(model);
  return result;
}

/// Forgets rows until there are at most max_rows: each time the one that its nearest others already determine best,
/// which has the smallest leave-one-out variance in units of its own noise. @returns their keys
std::vector<std::string> HybridModel::forget_redundant_rows() {
  std::vector<std::string> forgotten;
  if (rows.size() <= max_rows) return forgotten;
  const auto redundancy = [&](std::size_t i, const std::vector<bool>& gone, NearestRows& others) {
    return rows[i].noise / (process_.at_row(i, gone, others).variance + process_.label_variance(i));
  };
  std::vector<bool> gone(rows.size(), false);
  remove_worst(rows.size(), redundancy, [&](std::size_t worst) {
    if (rows.size() - forgotten.size() == max_rows) return false;
    gone[worst] = true;
    forgotten.push_back(rows[worst].key);
    return true;
  });
  std::vector<HybridRow> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(rows[i]));
  }
  rows = std::move(kept);
  prepare();
  return forgotten;
}

}  // namespace perfpred
