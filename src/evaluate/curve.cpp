// SPDX-License-Identifier: Apache-2.0
#include "evaluate/curve.h"

#include <perfpred/error.h>
#include <perfpred/suggestion.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "evaluate/evaluation.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

using Indices = std::vector<std::size_t>;

/// Learning curves on the rows of some workloads.
class Curve {
 public:
  explicit Curve(std::vector<AggregateRow> rows) : rows_(std::move(rows)), workloads_(rows_by_workload(rows_)) {
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      grid_.push_back(rows_[workloads_[i].front()].workload);
      index_[grid_.back().key()] = i;
    }
  }

  void check_size(std::size_t size) const {
    if (size >= 1 && size < workloads_.size()) return;
    throw InputError(fmt::format("a curve of {} rows has sizes from 1 to {}, not {}", workloads_.size(),
                                 workloads_.size() - 1, size));
  }

  /// On a random subset; of one seed, larger subsets hold the smaller ones.
  [[nodiscard]] Evaluation random(std::size_t size, std::uint64_t seed, const FitOptions& fit) const {
    std::vector<Indices> order = workloads_;
    std::mt19937_64 random(seed);
    std::shuffle(order.begin(), order.end(), random);
    return score(flatten(std::span(order).first(size)), fit);
  }

  /// A campaign: measures suggestions, five at a time, and asks again. @param sizes  ascending; one evaluation for each
  [[nodiscard]] std::vector<Evaluation> campaign(std::span<const std::size_t> sizes, const FitOptions& fit) const {
    constexpr std::size_t batch = 5, first_batch = 10;
    std::vector<Evaluation> scores;
    std::vector<Indices> chosen;
    for (const std::size_t size : sizes) {
      while (chosen.size() < size) {
        const std::size_t most = chosen.empty() ? std::min(sizes.front(), first_batch) : batch;
        const std::size_t wanted = std::min(size - chosen.size(), most);
        for (const Suggestion& next : suggest(pick(rows_, flatten(chosen)), grid_, wanted, fit))
          chosen.push_back(workloads_[index_.at(next.workload.key())]);
      }
      scores.push_back(score(flatten(chosen), fit));
    }
    return scores;
  }

 private:
  /// Fits on the chosen rows and scores all others.
  [[nodiscard]] Evaluation score(const Indices& chosen, const FitOptions& fit) const {
    const std::vector<AggregateRow> test = pick(rows_, all_but(chosen, rows_.size()));
    return evaluate(test, predict_rows(TimeRegressor::fit(pick(rows_, chosen), fit), test));
  }

  std::vector<AggregateRow> rows_;
  std::vector<Indices> workloads_;            // indices of the rows of each
  std::vector<Workload> grid_;                // the workloads
  std::map<std::string, std::size_t> index_;  // in workloads_, by key
};

CurvePoint point_of(std::size_t size, const char* selection, const std::vector<Evaluation>& scores) {
  std::vector<double> mape;
  double coverage = 0;
  for (const Evaluation& one : scores) {
    mape.push_back(*one.metrics.time.mape);
    coverage += *one.coverage90 / static_cast<double>(scores.size());
  }
  return {size, selection, median(mape), quantile(mape, 0.9), coverage};
}

}  // namespace

std::vector<CurvePoint> evaluate_curve(std::span<const AggregateRow> rows, std::span<const std::size_t> sizes,
                                       int subsets, const FitOptions& fit, const ProtocolOptions& options) {
  const Curve curve(timed(rows));
  if (subsets < 1) throw InputError("subsets is not positive");
  std::vector<std::size_t> used(sizes.begin(), sizes.end());
  for (const std::size_t size : used) curve.check_size(size);
  std::sort(used.begin(), used.end());

  const auto per_size = static_cast<std::size_t>(subsets);
  std::vector<std::vector<Evaluation>> random_scores(used.size(), std::vector<Evaluation>(per_size));
  std::vector<std::vector<Evaluation>> suggested_scores = random_scores;
  parallel_for(per_size + used.size() * per_size, options, [&](std::size_t task) {  // campaigns, the longest, first
    const std::size_t subset = task % per_size;
    const std::uint64_t seed = options.seed * 1'000'003U + subset;
    if (task >= per_size) {
      const std::size_t i = task / per_size - 1;
      random_scores[i][subset] = curve.random(used[i], seed, fit);
      return;
    }
    FitOptions own = fit;
    own.seed = seed;
    const std::vector<Evaluation> scores = curve.campaign(used, own);
    for (std::size_t i = 0; i < used.size(); ++i) suggested_scores[i][subset] = scores[i];
  });

  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < used.size(); ++i) {
    points.push_back(point_of(used[i], "random", random_scores[i]));
    points.push_back(point_of(used[i], "suggested", suggested_scores[i]));
  }
  return points;
}

}  // namespace perfpred
