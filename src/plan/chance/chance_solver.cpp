// SPDX-License-Identifier: Apache-2.0
#include "plan/chance/chance_solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/limits.h"

namespace perfpred {
namespace {

class ChanceSolver {
 public:
  ChanceSolver(const ChanceProblem& problem, const PlanLimits& given, std::int64_t max_nodes)
      : problem_(problem), limits_(given), max_nodes_(max_nodes), n_(problem.mean.size()) {}

  Plan solve() {
    best_ = Eigen::VectorXd::Zero(n_);
    improve(Eigen::VectorXd::Zero(n_));
    tighten();
    if (!proved() && !limits_.expired()) branch_and_bound();
    Plan plan;
    for (Eigen::Index i = 0; i < n_; ++i) {
      if (best_[i] > 0) plan.chosen.push_back(static_cast<std::size_t>(i));
    }
    plan.value = best_value_;
    plan.optimal = proved();
    plan.upper_bound = plan.optimal ? plan.value : bound_;
    return plan;
  }

 private:
  [[nodiscard]] double value(Eigen::Index i) const { return problem_.values[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool proved() const { return best_value_ >= bound_ * (1 - chance_tolerance); }
  [[nodiscard]] bool fits(const Eigen::VectorXd& set) const { return problem_.needed(set) <= problem_.budget; }

  /// The best set by a linear cost. Costs are rounded down to 2^-40 of the capacity: still a relaxation.
  Eigen::VectorXd knapsack(const Eigen::VectorXd& slopes, double capacity, double& bound) const {
    constexpr double steps = 0x1p40;
    std::vector<PlanItem> items;
    std::vector<Eigen::Index> place;
    Eigen::VectorXd set = Eigen::VectorXd::Zero(n_);
    bound = 0;
    for (Eigen::Index i = 0; i < n_; ++i) {
      const double cost = slopes[i] / capacity * steps * (1 - chance_tolerance);
      if (!(value(i) > 0) || cost > 2 * steps) continue;
      items.push_back({std::max<std::int64_t>(1, static_cast<std::int64_t>(cost)), value(i)});
      place.push_back(i);
    }
    // A run whose slope is below one step counts as one: as many steps more hold them all.
    const auto budget = static_cast<std::int64_t>(steps) + static_cast<std::int64_t>(items.size());
    const Plan plan = KnapsackPlanner(budget, limits_.remaining()).plan(items);
    for (const std::size_t index : plan.chosen) set[place[index]] = 1;
    bound = plan.upper_bound;
    return set;
  }

  /// Tangents at the solutions that they lead to, and at their running mean.
  void tighten() {
    constexpr int rounds = 30;
    Eigen::VectorXd at = Eigen::VectorXd::Ones(n_);
    best_tangent_ = tangent_at(problem_, at);
    bound_ = std::accumulate(problem_.values.begin(), problem_.values.end(), 0.0);
    for (int round = 0; round < rounds && (round == 0 || !limits_.expired()); ++round) {
      const Tangent tangent = tangent_at(problem_, at);
      double bound = 0;
      const Eigen::VectorXd set = knapsack(tangent.slopes, tangent.room, bound);
      if (bound < bound_) {
        bound_ = bound;
        best_tangent_ = tangent;
      }
      improve(repaired(set, tangent.slopes));
      if (proved()) return;
      at = next_point(at, set, round);
    }
  }

  /// The knapsack again with less room, until the constraint itself holds.
  Eigen::VectorXd repaired(Eigen::VectorXd set, const Eigen::VectorXd& slopes) const {
    double room = problem_.budget;
    constexpr int tries = 8;
    for (int i = 0; i < tries; ++i) {
      const double needed = problem_.needed(set);
      if (needed <= problem_.budget) return set;
      room *= problem_.budget / needed * (1 - 1e-6 * (1 << i));
      double unused = 0;
      set = knapsack(slopes, room, unused);
    }
    while (set.sum() > 0 && !fits(set)) {
      Eigen::Index worst = -1;
      for (Eigen::Index i = 0; i < n_; ++i) {
        if (set[i] > 0 && (worst < 0 || value(i) * slopes[worst] < value(worst) * slopes[i])) worst = i;
      }
      set[worst] = 0;
    }
    return set;
  }

  /// Adds what fits and exchanges one run for a better one while that helps.
  void improve(Eigen::VectorXd set) {
    while (!limits_.expired()) {
      const Eigen::VectorXd pull = problem_.covariance * set;
      const double random = problem_.mean.dot(set);
      const double fixed = problem_.fixed.dot(set);
      const double variance = set.dot(pull);
      const auto with = [&](Eigen::Index i) {
        return ChanceProblem::needed(fixed + problem_.fixed[i], random + problem_.mean[i],
                                     variance + 2 * pull[i] + problem_.covariance(i, i), problem_.z);
      };
      const auto exchanged = [&](Eigen::Index i, Eigen::Index k) {
        const Eigen::MatrixXd& c = problem_.covariance;
        return ChanceProblem::needed(fixed + problem_.fixed[i] - problem_.fixed[k],
                                     random + problem_.mean[i] - problem_.mean[k],
                                     variance + 2 * (pull[i] - pull[k]) + c(i, i) + c(k, k) - 2 * c(i, k), problem_.z);
      };
      Eigen::Index in = -1;
      Eigen::Index out = -1;
      double gain = 0;
      for (Eigen::Index i = 0; i < n_; ++i) {
        if (set[i] > 0 || value(i) <= gain) continue;
        if (with(i) <= problem_.budget) {
          gain = value(i);
          in = i;
          out = -1;
          continue;
        }
        for (Eigen::Index k = 0; k < n_; ++k) {
          if (set[k] <= 0 || value(i) - value(k) <= gain || exchanged(i, k) > problem_.budget) continue;
          gain = value(i) - value(k);
          in = i;
          out = k;
        }
      }
      if (in < 0) break;
      set[in] = 1;
      if (out >= 0) set[out] = 0;
      if (!fits(set)) return;  // by rounding only
    }
    keep(set);
  }

  void keep(const Eigen::VectorXd& set) {
    double sum = 0;
    for (Eigen::Index i = 0; i < n_; ++i) {
      if (set[i] > 0) sum += value(i);
    }
    if (sum <= best_value_) return;
    best_ = set;
    best_value_ = sum;
  }

  /// Depth first, best value for the slope first; Dantzig's bound on the tangent.
  void branch_and_bound() {
    order_.clear();
    for (Eigen::Index i = 0; i < n_; ++i) {
      if (value(i) > 0) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [&, &slopes = best_tangent_.slopes](Eigen::Index a, Eigen::Index b) {
      return value(a) * slopes[b] > value(b) * slopes[a];
    });
    current_ = Eigen::VectorXd::Zero(n_);
    descend(0, best_tangent_.room * (1 + chance_tolerance), 0);
    if (nodes_ < max_nodes_) bound_ = best_value_;
  }

  void descend(std::size_t depth, double room, double sum) {
    if (nodes_ >= max_nodes_) return;
    if (++nodes_ % 1024 == 0 && limits_.expired()) nodes_ = max_nodes_;
    if (sum > best_value_ && fits(current_)) keep(current_);
    if (depth == order_.size()) return;
    double left = room;
    double bound = sum;
    for (std::size_t k = depth; k < order_.size(); ++k) {
      const double slope = best_tangent_.slopes[order_[k]];
      if (slope > left) {
        bound += value(order_[k]) * left / slope;
        break;
      }
      left -= slope;
      bound += value(order_[k]);
    }
    if (bound <= best_value_ * (1 + chance_tolerance)) return;
    const Eigen::Index i = order_[depth];
    if (best_tangent_.slopes[i] <= room) {
      current_[i] = 1;
      descend(depth + 1, room - best_tangent_.slopes[i], sum + value(i));
      current_[i] = 0;
    }
    descend(depth + 1, room, sum);
  }

  const ChanceProblem& problem_;
  Limits limits_;
  std::int64_t max_nodes_;
  Eigen::Index n_;
  Eigen::VectorXd best_;
  double best_value_ = 0;
  double bound_ = 0;
  Tangent best_tangent_;  // the one with the lowest bound
  std::vector<Eigen::Index> order_;
  Eigen::VectorXd current_;
  std::int64_t nodes_ = 0;
};

}  // namespace

Plan solve_chance(const ChanceProblem& problem, const PlanLimits& limits, std::int64_t max_nodes) {
  return ChanceSolver(problem, limits, max_nodes).solve();
}

}  // namespace perfpred
