// SPDX-License-Identifier: Apache-2.0
#include <perfpred/suggestion.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "model/hybrid/step_shape.h"
#include "model/model_state.h"
#include "model/random_number.h"

namespace perfpred {
namespace {

constexpr std::size_t min_rows_for_model = 8;
constexpr double measured_epochs = 3;
constexpr double startup_sec = 10;  // kernels are chosen and memory is warmed before the first timed epoch
constexpr double single_run_variance = 0.01 * 0.01;

using Point = std::array<double, 3>;

double distance2(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// Depth, log2 width, log2 batch, each scaled to 0..1 over all workloads.
std::vector<Point> unit_cube(const std::vector<Workload>& workloads) {
  std::vector<Point> points;
  Point low, high;
  low.fill(std::numeric_limits<double>::infinity());
  high.fill(-std::numeric_limits<double>::infinity());
  for (const Workload& workload : workloads) {
    // A place does not depend on the device.
    const Place place = StepShape(workload, DeviceKind::gpu).place(workload.batch_size);
    Point& point = points.emplace_back();
    for (std::size_t i = 0; i < point.size(); ++i) {
      point[i] = place[i];
      low[i] = std::min(low[i], point[i]);
      high[i] = std::max(high[i], point[i]);
    }
  }
  for (Point& point : points) {
    for (std::size_t i = 0; i < point.size(); ++i)
      point[i] = high[i] > low[i] ? (point[i] - low[i]) / (high[i] - low[i]) : 0;
  }
  return points;
}

/// Every fifth row of a campaign is drawn at random: left out of a fit, it stands for the rows that are not measured.
bool is_drawn(std::size_t rows_before) { return rows_before % 5 == 4; }

/// @param used  one at least is not
std::size_t draw(const std::vector<Workload>& candidates, const std::vector<bool>& used, std::uint64_t seed) {
  std::size_t drawn = 0;
  std::optional<std::uint64_t> least;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (used[i]) continue;
    const std::uint64_t number = random_number_of(candidates[i].key(), seed);
    if (least && number >= *least) continue;
    drawn = i;
    least = number;
  }
  return drawn;
}

/// The workloads of one group that may be measured, and the rows that were.
struct GridGroup {
  std::vector<Workload> candidates;
  std::vector<AggregateRow> measured;
  std::size_t rows = 0;              // with different keys
  std::vector<std::size_t> filling;  // candidates in the order to take them, if there are too few rows for a model
  std::size_t next = 0;              // of these

  [[nodiscard]] bool is_filled() const { return next == filling.size(); }
};

/// Each next workload is the farthest from all that are taken, or one drawn at random; the first is the nearest to the
/// middle.
std::vector<std::size_t> fill_space(const GridGroup& group, std::size_t n, std::uint64_t seed) {
  const std::vector<Workload>& candidates = group.candidates;
  std::vector<Workload> all = candidates;
  for (const AggregateRow& row : group.measured) all.push_back(row.workload);
  const std::vector<Point> points = unit_cube(all);
  std::vector<double> nearest(candidates.size(), std::numeric_limits<double>::infinity());
  const auto take = [&](const Point& point) {
    for (std::size_t i = 0; i < candidates.size(); ++i) nearest[i] = std::min(nearest[i], distance2(points[i], point));
  };
  for (std::size_t i = candidates.size(); i < points.size(); ++i) take(points[i]);
  std::vector<bool> used(candidates.size(), false);
  std::vector<std::size_t> taken;
  while (taken.size() < std::min(n, candidates.size())) {
    std::size_t best = 0;
    if (is_drawn(group.rows + taken.size())) {
      best = draw(candidates, used, seed);
    } else if (taken.empty() && group.measured.empty()) {
      constexpr Point middle = {0.5, 0.5, 0.5};
      for (std::size_t i = 1; i < candidates.size(); ++i) {
        if (distance2(points[i], middle) < distance2(points[best], middle)) best = i;
      }
    } else {
      best = static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) - nearest.begin());
    }
    taken.push_back(best);
    take(points[best]);
    used[best] = true;
    nearest[best] = -1;
  }
  return taken;
}

/// The grid's workloads that were not measured, and the measured rows, by group.
std::vector<GridGroup> groups_of(std::span<const AggregateRow> measured, std::span<const Workload> grid) {
  std::vector<GridGroup> groups;
  std::set<std::string> taken;
  for (const AggregateRow& row : measured) taken.insert(row.workload.key());
  const auto group_of = [&](const Workload& workload) {
    return std::find_if(groups.begin(), groups.end(),
                        [&](const GridGroup& group) { return same_group(group.candidates.front(), workload); });
  };
  for (const Workload& workload : grid) {
    workload.validate();
    if (!taken.insert(workload.key()).second) continue;
    auto group = group_of(workload);
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->candidates.push_back(workload);
  }
  std::set<std::string> counted;
  for (const AggregateRow& row : measured) {
    if (!row.avg_time_mean || row.n < 1) continue;
    const auto group = group_of(row.workload);
    if (group == groups.end()) continue;  // the grid does not ask for it
    group->measured.push_back(row);
    group->rows += counted.insert(row.workload.key()).second ? 1 : 0;
  }
  return groups;
}

/// Adds workloads of groups with fewer than `rows` rows, the poorest group first, until there are `n`.
void fill_up(std::vector<GridGroup>& groups, std::size_t rows, std::size_t n, std::vector<Suggestion>& suggestions) {
  while (suggestions.size() < n) {
    const auto poorest = std::min_element(groups.begin(), groups.end(), [](const GridGroup& a, const GridGroup& b) {
      return std::pair(a.is_filled(), a.rows) < std::pair(b.is_filled(), b.rows);
    });
    if (poorest == groups.end() || poorest->is_filled() || poorest->rows >= rows) return;
    suggestions.push_back({poorest->candidates[poorest->filling[poorest->next++]], std::nullopt});
    ++poorest->rows;
  }
}

/// What a model learns from, and chooses among.
struct Modelled {
  std::vector<AggregateRow> timed;
  std::size_t rows = 0;  // with different keys
  std::vector<Workload> candidates;
};

/// The candidate whose measurement takes most of all variance per second. One at least is not used.
Eigen::Index most_telling(const Eigen::Ref<const Eigen::MatrixXd>& covariance, const Eigen::VectorXd& cost,
                          const std::vector<bool>& used) {
  Eigen::Index best = -1;
  double best_gain = -1;
  for (Eigen::Index i = 0; i < cost.size(); ++i) {
    if (used[static_cast<std::size_t>(i)]) continue;
    const double gain = covariance.col(i).squaredNorm() / (covariance(i, i) + single_run_variance) / cost[i];
    if (gain > best_gain) {
      best_gain = gain;
      best = i;
    }
  }
  return best;
}

/// Adds candidates by what they tell of all others, until there are `n`.
void choose(const Modelled& modelled, std::size_t n, const FitOptions& fit, std::vector<Suggestion>& suggestions) {
  const std::vector<Workload>& candidates = modelled.candidates;
  FitOptions hybrid = fit;
  hybrid.kind = "hybrid";
  const TimeRegressor model = TimeRegressor::fit(modelled.timed, hybrid);
  JointPrediction joint = model.joint(candidates);
  const auto count = static_cast<Eigen::Index>(candidates.size());
  Eigen::Map<Eigen::MatrixXd> covariance(joint.covariance.data(), count, count);
  const Eigen::VectorXd cost =
      measured_epochs * Eigen::Map<const Eigen::ArrayXd>(joint.mean.data(), count).exp() + startup_sec;
  std::vector<bool> used(candidates.size(), false);
  for (std::size_t chosen = 0; chosen < candidates.size() && suggestions.size() < n; ++chosen) {
    const Eigen::Index best = is_drawn(modelled.rows + chosen)
                                  ? static_cast<Eigen::Index>(draw(candidates, used, fit.seed))
                                  : most_telling(covariance, cost, used);
    used[static_cast<std::size_t>(best)] = true;
    suggestions.push_back({candidates[static_cast<std::size_t>(best)], cost[best]});
    const Eigen::VectorXd column = covariance.col(best);
    covariance -= column * column.transpose() / (column[best] + single_run_variance);
  }
}

}  // namespace

std::vector<Suggestion> suggest(std::span<const AggregateRow> measured, std::span<const Workload> grid, std::size_t n,
                                const FitOptions& fit) {
  std::vector<GridGroup> groups = groups_of(measured, grid);
  Modelled modelled;
  for (GridGroup& group : groups) {
    if (group.rows < min_rows_for_model) {
      group.filling = fill_space(group, n, fit.seed);
    } else {
      modelled.timed.insert(modelled.timed.end(), group.measured.begin(), group.measured.end());
      modelled.rows += group.rows;
      modelled.candidates.insert(modelled.candidates.end(), group.candidates.begin(), group.candidates.end());
    }
  }
  std::vector<Suggestion> suggestions;
  if (!modelled.candidates.empty()) {
    fill_up(groups, min_rows_for_model, n, suggestions);
    choose(modelled, n, fit, suggestions);
  }
  fill_up(groups, std::numeric_limits<std::size_t>::max(), n, suggestions);
  return suggestions;
}

}  // namespace perfpred
