// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <Eigen/Cholesky>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "model/hybrid/hybrid.h"
#include "model/hybrid/hybrid_model.h"
#include "model/hybrid/step_shape.h"
#include "model/random_number.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double min_repeats = 3;        // beyond the first runs, before the run noise is taken from them
constexpr std::size_t random_parts = 5;  // that rows are left out in, beside depths, widths and architectures
constexpr std::size_t few_rows = 8;    // with fewer, each row is left out alone and min_hybrid_rows - 1 rows are fitted
constexpr std::size_t calibrated = 2;  // numbers that calibrate() chooses
constexpr double max_dropped_share = 0.1;  // of the rows, as outliers

std::vector<std::size_t> all_places(std::size_t count) {
  std::vector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

/// Sampled at random: taking every k-th row of an ordered grid would cover only a few batch sizes.
std::vector<std::size_t> random_places(std::size_t count, std::size_t most, std::mt19937_64& random) {
  std::vector<std::size_t> places = all_places(count);
  if (count <= most) return places;
  std::shuffle(places.begin(), places.end(), random);
  places.resize(most);
  std::sort(places.begin(), places.end());
  return places;
}

/// Relative standard error of the mean epoch of a usual run: the root mean square of those that are not wide; 0 if no
/// row has one.
double usual_epoch_sem(const std::vector<AggregateRow>& rows) {
  std::vector<double> sems;
  for (const AggregateRow& row : rows) {
    if (row.epoch_rel_sem) sems.push_back(*row.epoch_rel_sem);
  }
  if (sems.empty()) return 0;
  const double widest = wide_label * median(sems);
  double squares = 0, runs = 0;
  for (const AggregateRow& row : rows) {
    if (!row.epoch_rel_sem || *row.epoch_rel_sem > widest) continue;
    squares += static_cast<double>(row.n) * *row.epoch_rel_sem * *row.epoch_rel_sem;
    runs += static_cast<double>(row.n);
  }
  return std::sqrt(squares / runs);
}

/// Relative standard deviation of a usual run: pooled from repeats, once there are enough; before, the prior, or what
/// the epochs show if that is more. Flagged rows count by their own scatter.
double usual_run_noise(const std::vector<AggregateRow>& rows, double prior) {
  double squares = 0, degrees = 0;
  for (const AggregateRow& row : rows) {
    if (row.n < 2 || !row.avg_time_std || row.flags.unstable || row.flags.disagree) continue;
    const double relative = *row.avg_time_std / *row.avg_time_mean;
    squares += static_cast<double>(row.n - 1) * relative * relative;
    degrees += static_cast<double>(row.n - 1);
  }
  if (degrees >= min_repeats) return std::clamp(std::sqrt(squares / degrees), 1e-4, 0.1);
  return std::clamp(usual_epoch_sem(rows), prior, 0.1);
}

/// Fits in this order: cost model, process, outliers, cost model given the process, held-out groups,
/// intervals.
class HybridFit {
 public:
  HybridFit(const TrainingTable& table, const HybridConstants& constants)
      : constants_(constants), control_(table.control), seed_(table.seed) {
    if (table.rows.size() < min_hybrid_rows) {
      throw InputError(fmt::format(
          "{} rows are too few for a hybrid model: it needs {} where the peaks of the device are not known; "
          "a row of a device file says them",
          table.rows.size(), min_hybrid_rows));
    }
    constants_.process.run_noise = usual_run_noise(table.rows, constants.process.run_noise);
    model_->usual_noise = std::max(constants_.process.run_noise, usual_epoch_sem(table.rows));
    model_->max_rows = constants.max_rows;
    model_->device = table.device;
    std::mt19937_64 random(table.seed);
    const std::vector<std::size_t> taken = random_places(table.rows.size(), constants.max_rows, random);
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const AggregateRow& measured = table.rows[i];
      if (!std::binary_search(taken.begin(), taken.end(), i)) {
        model_->rejected.push_back(
            {measured.workload.key(), fmt::format("beyond the {} rows that a model takes", constants.max_rows)});
        continue;
      }
      shapes_.emplace_back(measured.workload, table.device);
      rows_.push_back(hybrid_row(measured, shapes_.back(), model_->usual_noise));
      random_numbers_.push_back(random_number_of(rows_.back().key, table.seed));
    }
  }

  std::unique_ptr<RegressorModel> run() {
    max_dropped_ = static_cast<std::size_t>(max_dropped_share * static_cast<double>(rows_.size()));
    fit_costs_to_all();
    fit_kernel_without_outliers();
    if (rows_.size() > constants_.search_rows) drop_outliers_of_all();
    const std::vector<std::size_t> searched = sample();
    krige_physics(searched);
    const std::vector<HeldOut> held_out = hold_out(searched);
    const std::size_t dropped = dropped_ * searched.size() / rows_.size();  // as many as in a sample of this size
    model_->calibration = calibrate(held_out, groups_, dropped);
    model_->rows = std::move(rows_);
    model_->prepare();
    return std::move(model_);
  }

 private:
  std::unique_ptr<HybridModel> model_ = std::make_unique<HybridModel>();
  std::vector<StepShape> shapes_;
  std::vector<HybridRow> rows_;
  std::vector<std::uint64_t> random_numbers_;  // of the rows; the least make the sample
  HybridConstants constants_;
  FitControl control_;
  std::uint64_t seed_;
  std::array<std::size_t, left_out_kinds> groups_{};  // that were left out
  std::size_t dropped_ = 0;                           // rows, as outliers
  std::size_t max_dropped_ = 0;

  [[nodiscard]] std::vector<PhysicsRow> physics_rows(const std::vector<std::size_t>& places) const {
    std::vector<PhysicsRow> picked;
    for (const std::size_t i : places) picked.push_back({&shapes_[i], rows_[i].log_time});
    return picked;
  }

  [[nodiscard]] std::vector<HybridRow> pick(const std::vector<std::size_t>& places) const {
    std::vector<HybridRow> picked;
    for (const std::size_t i : places) picked.push_back(rows_[i]);
    return picked;
  }

  /// The same rows each time it is called, but for those that replace dropped ones.
  [[nodiscard]] std::vector<std::size_t> sample() const {
    std::vector<std::size_t> places = all_places(rows_.size());
    if (places.size() <= constants_.search_rows) return places;
    const auto end = places.begin() + static_cast<std::ptrdiff_t>(constants_.search_rows);
    std::nth_element(places.begin(), end, places.end(),
                     [&](std::size_t a, std::size_t b) { return random_numbers_[a] < random_numbers_[b]; });
    places.erase(end, places.end());
    std::sort(places.begin(), places.end());
    return places;
  }

  void fit_costs_to_all(bool again = false) {
    const std::vector<PhysicsRow> rows = physics_rows(all_places(rows_.size()));
    control_.check();
    const Costs start = model_->physics.costs;
    model_->physics.costs = fit_costs(rows, constants_.cost_deviation, again ? &start : nullptr);
    model_->physics.unseen = unseen_costs(rows);
    update_physics();
  }

  /// Fits the costs anew, given the process of what the first fit left over.
  void krige_physics(const std::vector<std::size_t>& searched) {
    const std::vector<PhysicsRow> rows = physics_rows(searched);
    const ResidualProcess process = process_of(model_->kernel, pick(searched), searched.size());
    const Costs before = model_->physics.costs;
    model_->physics.costs = krige_costs(rows, constants_.cost_deviation, before, process.inverse_factor());
    const Unseen unseen = unseen_costs(rows);
    for (std::size_t cost = 0; cost < unseen.size(); ++cost) {  // keep what only rows outside the sample have shown
      const auto at = static_cast<Eigen::Index>(cost);
      if (unseen[cost] && !model_->physics.unseen[cost]) model_->physics.costs[at] = before[at];
    }
    update_physics();
  }

  void update_physics() {
    if (!model_->physics.costs.allFinite()) throw Error("the fit of the cost model diverged");
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].log_physics = model_->physics.view(shapes_[i]).log_time;
  }

  /// Counts and names a row that the other rows do not predict.
  void drop(std::size_t place, const Outlier& outlier) {
    const HybridRow& row = rows_[place];
    model_->rejected.push_back(
        {row.key,
         fmt::format("outlier: {:.4g} s, where the other rows predict {:.4g} s, {:.1f} standard deviations away",
                     std::exp(row.log_time), std::exp(row.log_time - outlier.away * outlier.deviation), outlier.away)});
    ++dropped_;
  }

  void remove(std::size_t place) {
    const auto at = static_cast<std::ptrdiff_t>(place);
    rows_.erase(rows_.begin() + at);
    shapes_.erase(shapes_.begin() + at);
    random_numbers_.erase(random_numbers_.begin() + at);
  }

  /// Fits the kernel to the sample, until the sample has no outlier.
  void fit_kernel_without_outliers() {
    for (bool again = false;; again = true) {
      control_.check();
      const std::vector<std::size_t> searched = sample();
      const std::vector<HybridRow> some = pick(searched);
      const Eigen::VectorXd residuals = residuals_of(some);
      const Eigen::MatrixXd places = places_of(some);
      const Eigen::VectorXd noise = noise_of(some);
      const ResidualKernel start = model_->kernel;
      model_->kernel = fit_kernel(places, residuals, noise, constants_.process, again ? &start : nullptr);
      if (dropped_ == max_dropped_) return;
      const auto worst = process_of(model_->kernel, some, some.size()).outliers(1, [] {});
      if (worst.empty()) return;
      const std::size_t place = searched[worst.front().row];
      drop(place, worst.front());
      remove(place);
      fit_costs_to_all(true);
    }
  }

  /// Drops the outliers among all rows, under the kernel of the sample.
  void drop_outliers_of_all() {
    const auto outliers =
        process_of(model_->kernel, rows_).outliers(max_dropped_ - dropped_, [&] { control_.check(); });
    if (outliers.empty()) return;
    std::vector<std::size_t> places;
    for (const Outlier& outlier : outliers) {
      drop(outlier.row, outlier);
      places.push_back(outlier.row);
    }
    std::sort(places.rbegin(), places.rend());
    for (const std::size_t place : places) remove(place);
    fit_costs_to_all(true);
  }

  /// Predicts groups from the other rows, with costs and kernel fitted anew.
  [[nodiscard]] std::vector<HeldOut> hold_out(const std::vector<std::size_t>& searched) {
    std::vector<HeldOut> held_out;
    const std::vector<HybridRow> some = pick(searched);
    const KernelCovariance kernel_covariance =
        laplace_covariance(model_->kernel, places_of(some), residuals_of(some), noise_of(some), constants_.process);
    const bool few = searched.size() < few_rows;
    const std::size_t min_known = few ? min_hybrid_rows - 1 : min_hybrid_rows;
    double kinds_done = 0;
    const auto hold = [&](LeftOut left_out, const auto& group_of) {
      std::map<decltype(group_of(std::size_t{0})), std::vector<std::size_t>> groups;
      for (const std::size_t i : searched) groups[group_of(i)].push_back(i);
      if (groups.size() >= 2) {
        // Few rows lose noticeable degrees of freedom to the calibration, which the same errors choose.
        groups_[left_out] = left_out == row_alone ? searched.size() - (few ? calibrated : 0) : groups.size();
        const std::size_t first = held_out.size();
        double done = 0;
        for (const auto& [name, out] : groups) {
          control_.check();
          control_.report((kinds_done + done++ / static_cast<double>(groups.size())) / double{left_out_kinds});
          std::vector<std::size_t> in;
          std::set_difference(searched.begin(), searched.end(), out.begin(), out.end(), std::back_inserter(in));
          if (in.size() >= min_known) predict_without(in, out, kernel_covariance, held_out);
        }
        for (std::size_t i = first; i < held_out.size(); ++i) {
          held_out[i].weight = 1.0 / static_cast<double>(held_out.size() - first);
          held_out[i].left_out = left_out;
        }
      }
      ++kinds_done;
    };
    const auto input = [&](std::size_t i, std::size_t which) { return rows_[i].place[which]; };
    hold(depth, [&](std::size_t i) { return input(i, PlaceInput::depth); });
    hold(width, [&](std::size_t i) { return input(i, PlaceInput::log2_width); });
    hold(architecture,
         [&](std::size_t i) { return std::pair(input(i, PlaceInput::depth), input(i, PlaceInput::log2_width)); });
    std::vector<std::size_t> part(rows_.size());
    std::vector<std::size_t> order = searched;
    std::mt19937_64 random(seed_);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < order.size(); ++i) part[order[i]] = few ? i : i % random_parts;
    hold(row_alone, [&](std::size_t i) { return part[i]; });
    return held_out;
  }

  void predict_without(const std::vector<std::size_t>& in, const std::vector<std::size_t>& out,
                       const KernelCovariance& kernel_covariance, std::vector<HeldOut>& held_out) const {
    std::vector<HybridRow> known = pick(in);
    const std::vector<HybridRow> asked = pick(out);
    const std::vector<PhysicsRow> rows = physics_rows(in);
    const Eigen::MatrixXd places = places_of(known);
    // First the costs, given the kernel of all rows; then the kernel of the known rows, given those costs.
    const ResidualProcess given_all = process_of(model_->kernel, known, known.size());
    const FittedPhysics physics = {
        krige_costs(rows, constants_.cost_deviation, model_->physics.costs, given_all.inverse_factor()),
        unseen_costs(rows)};
    for (std::size_t i = 0; i < in.size(); ++i) known[i].log_physics = physics.view(shapes_[in[i]]).log_time;
    const ResidualKernel kernel = refit_kernel(model_->kernel, kernel_covariance, places, residuals_of(known),
                                               noise_of(known), constants_.process);
    const ResidualProcess process = process_of(kernel, known, known.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const ResidualProcess::At residual = process.at(process.inputs().scaled(asked[i].place));
      const PhysicsView view = physics.view(shapes_[out[i]]);
      HeldOut row;
      row.unseen = view.unseen;
      row.predicted = view.log_time + residual.mean;
      row.log_time = asked[i].log_time;
      row.amplitude2 = kernel.amplitude2();
      row.share = residual.variance / row.amplitude2;
      row.noise = std::min(asked[i].noise, 1.0) * kernel.noise2();
      held_out.push_back(row);
    }
  }
};

}  // namespace

std::unique_ptr<RegressorModel> fit_hybrid(const TrainingTable& table, const HybridConstants& constants) {
  return HybridFit(table, constants).run();
}

}  // namespace perfpred
