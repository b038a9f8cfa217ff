// SPDX-License-Identifier: Apache-2.0
#include "plan/chance_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "plan/knapsack/knapsack_solver.h"

namespace perfpred {
namespace {

/// What is no better by more than this share of the value is called equal.
constexpr double tolerance = 1e-12;

/// The constraint's tangent at a point: slopes * x <= room. A run that makes room is free; the room of all of them is
/// granted.
struct Tangent {
  Eigen::VectorXd slopes;
  double room = 0;
};

Tangent tangent_at(const ChanceProblem& problem, const Eigen::VectorXd& share) {
  const Eigen::VectorXd slopes = problem.slopes(share);
  return {slopes.cwiseMax(0), problem.budget - slopes.cwiseMin(0).sum()};
}

class ChanceSolver {
 public:
  ChanceSolver(const ChanceProblem& problem, const PlanLimits& given, std::int64_t most_nodes)
      : problem_(problem), limits_(knapsack::Limits::from(given)), most_nodes_(most_nodes), n_(problem.mean.size()) {}

  Plan solve() {
    best_ = Eigen::VectorXd::Zero(n_);
    improve(Eigen::VectorXd::Zero(n_));
    tighten();
    if (best_value_ < bound_ * (1 - tolerance)) branch_and_bound();
    Plan plan;
    for (Eigen::Index i = 0; i < n_; ++i) {
      if (best_[i] > 0) plan.chosen.push_back(static_cast<std::size_t>(i));
    }
    plan.value = best_value_;
    plan.optimal = best_value_ >= bound_ * (1 - tolerance);
    plan.upper_bound = plan.optimal ? plan.value : bound_;
    return plan;
  }

 private:
  [[nodiscard]] double value(Eigen::Index i) const { return problem_.values[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool fits(const Eigen::VectorXd& set) const { return problem_.needed(set) <= problem_.budget; }

  /// The best set by a linear cost. Costs are rounded down to 2^-40 of the capacity: still a relaxation.
  Eigen::VectorXd knapsack(const Eigen::VectorXd& slopes, double capacity, double& bound) const {
    constexpr double steps = 0x1p40;
    std::vector<PlanItem> items;
    std::vector<Eigen::Index> place;
    Eigen::VectorXd set = Eigen::VectorXd::Zero(n_);
    bound = 0;
    for (Eigen::Index i = 0; i < n_; ++i) {
      const double cost = slopes[i] / capacity * steps * (1 - tolerance);
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

  /// Tangents at the sets that they lead to, and at their running mean.
  void tighten() {
    constexpr int rounds = 30;
    Eigen::VectorXd at = Eigen::VectorXd::Ones(n_);
    bound_ = std::accumulate(problem_.values.begin(), problem_.values.end(), 0.0);
    for (int round = 0; round < rounds && !limits_.expired(); ++round) {
      const Tangent tangent = tangent_at(problem_, at);
      double bound = 0;
      const Eigen::VectorXd set = knapsack(tangent.slopes, tangent.room, bound);
      if (bound < bound_ || round == 0) {
        bound_ = std::min(bound_, bound);
        best_tangent_ = tangent;
      }
      improve(repaired(set, tangent.slopes));
      if (best_value_ >= bound_ * (1 - tolerance)) return;
      if (set.sum() > 0) at = round < 2 ? set : Eigen::VectorXd(0.7 * at + 0.3 * set);
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
    descend(0, best_tangent_.room * (1 + tolerance), 0);
    if (nodes_ < most_nodes_) bound_ = best_value_;
  }

  void descend(std::size_t depth, double room, double sum) {
    if (nodes_ >= most_nodes_) return;
    if (++nodes_ % 1024 == 0 && limits_.expired()) nodes_ = most_nodes_;
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
    if (bound <= best_value_ * (1 + tolerance)) return;
    const Eigen::Index i = order_[depth];
    if (best_tangent_.slopes[i] <= room) {
      current_[i] = 1;
      descend(depth + 1, room - best_tangent_.slopes[i], sum + value(i));
      current_[i] = 0;
    }
    descend(depth + 1, room, sum);
  }

  const ChanceProblem& problem_;
  knapsack::Limits limits_;
  std::int64_t most_nodes_;
  Eigen::Index n_;
  Eigen::VectorXd best_;
  double best_value_ = 0;
  double bound_ = 0;
  Tangent best_tangent_;  // the one with the least bound
  std::vector<Eigen::Index> order_;
  Eigen::VectorXd current_;
  std::int64_t nodes_ = 0;
};

/// Several devices, or groups.
class ChanceAssigner {
 public:
  ChanceAssigner(std::span<const ChanceProblem> problems, std::size_t devices, const JobGroups& group,
                 const PlanLimits& given, std::int64_t most_nodes)
      : problems_(problems),
        devices_(devices),
        group_(group),
        limits_(knapsack::Limits::from(given)),
        most_nodes_(most_nodes),
        jobs_(problems.front().values.size()) {}

  Assignment solve() {
    best_.device.assign(jobs_, std::nullopt);
    best_.covers = covers_groups(group_, best_.device);
    best_.upper_bound = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      double most = 0;
      for (const ChanceProblem& problem : problems_) most = std::max(most, problem.values[j]);
      best_.upper_bound += most;
    }
    improve(best_.device);
    if (has_groups(group_)) improve(tight_cover());
    std::vector<Eigen::VectorXd> at(problems_.size(), Eigen::VectorXd::Ones(static_cast<Eigen::Index>(jobs_)));
    constexpr std::size_t rounds = 8;
    for (std::size_t round = 0; round < rounds && !proved() && !limits_.expired(); ++round) {
      AssignmentProblem linear = linearised(at);
      const Assignment relaxed = assign(linear, limits_.remaining(), brief);
      best_.upper_bound = std::min(best_.upper_bound, relaxed.upper_bound);
      improve(repaired(linear, relaxed.device));
      for (std::size_t k = 0; k < at.size(); ++k) {
        const Eigen::VectorXd set = set_on(relaxed.device, at.size() == 1 ? round % devices_ : k);
        if (set.sum() > 0) at[k] = round < 2 ? set : Eigen::VectorXd(0.7 * at[k] + 0.3 * set);
      }
    }
    best_.optimal = proved();
    if (best_.optimal) best_.upper_bound = best_.value;
    return best_;
  }

 private:
  [[nodiscard]] const ChanceProblem& problem_of(std::size_t device) const {
    return problems_.size() == 1 ? problems_.front() : problems_[device];
  }
  [[nodiscard]] bool proved() const { return best_.covers && best_.value >= best_.upper_bound * (1 - tolerance); }

  [[nodiscard]] Eigen::VectorXd set_on(const JobDevices& places, std::size_t device) const {
    Eigen::VectorXd set = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(jobs_));
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j] == device) set[static_cast<Eigen::Index>(j)] = 1;
    }
    return set;
  }

  /// Costs are rounded down to 2^-16 of the room, which keeps packing cheap: still a relaxation.
  [[nodiscard]] AssignmentProblem linearised(const std::vector<Eigen::VectorXd>& at) const {
    constexpr double steps = 0x1p16;
    AssignmentProblem linear;
    linear.group = group_;
    linear.jobs.assign(jobs_, PlanJob(devices_));
    std::vector<Tangent> tangents;
    for (std::size_t k = 0; k < problems_.size(); ++k) tangents.push_back(tangent_at(problems_[k], at[k]));
    for (std::size_t d = 0; d < devices_; ++d) {
      // A run whose slope is below one step counts as one: as many steps more hold them all.
      linear.budgets.push_back(static_cast<std::int64_t>(steps) + static_cast<std::int64_t>(jobs_));
      const Tangent& tangent = tangents.size() == 1 ? tangents.front() : tangents[d];
      for (std::size_t j = 0; j < jobs_; ++j) {
        const double cost = tangent.slopes[static_cast<Eigen::Index>(j)] / tangent.room * steps * (1 - tolerance);
        if (cost > 2 * steps) continue;
        linear.jobs[j][d] =
            PlanItem{std::max<std::int64_t>(1, static_cast<std::int64_t>(cost)), problem_of(d).values[j]};
      }
    }
    return linear;
  }

  /// The assignment again with less room, until every device keeps its constraint.
  [[nodiscard]] JobDevices repaired(AssignmentProblem& linear, JobDevices places) const {
    constexpr int tries = 8;
    for (int i = 0; i < tries && !limits_.expired(); ++i) {
      double most = 0;
      for (std::size_t d = 0; d < devices_; ++d) {
        const double needed = problem_of(d).needed(set_on(places, d)) / problem_of(d).budget;
        most = std::max(most, needed);
      }
      if (most <= 1) return places;
      for (std::int64_t& budget : linear.budgets) {
        budget = static_cast<std::int64_t>(static_cast<double>(budget) / most * (1 - 1e-6 * (1 << i)));
      }
      places = assign(linear, limits_.remaining(), brief).device;
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      if (problem_of(d).needed(set_on(places, d)) <= problem_of(d).budget) continue;
      for (auto& place : places) {
        if (place == d) place.reset();
      }
    }
    return places;
  }

  /// Whether no other run of its group is placed.
  [[nodiscard]] bool is_alone(const JobDevices& places, std::size_t job) const {
    if (!group_[job]) return false;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (j != job && places[j] && group_[j] == group_[job]) return false;
    }
    return true;
  }

  /// The places after this device is solved alone; the same ones if that gains nothing over `before`.
  [[nodiscard]] JobDevices solved_again(const JobDevices& places, std::size_t device, const ChanceProblem& alone,
                                        double before) const {
    const Plan plan = solve_chance(alone, limits_.remaining(), most_nodes_);
    if (plan.value <= before * (1 + tolerance)) return places;
    JobDevices next = places;
    for (auto& place : next) {
      if (place == device) place.reset();
    }
    for (const std::size_t job : plan.chosen) next[job] = device;
    return next;
  }

  /// A run of each group, one after the other where it leaves the fullest device the most room.
  [[nodiscard]] JobDevices tight_cover() const {
    JobDevices places(jobs_);
    std::set<std::size_t> open;
    for (const auto& group : group_) {
      if (group) open.insert(*group);
    }
    for (const std::size_t group : open) {
      double least = std::numeric_limits<double>::infinity();
      std::pair<std::size_t, std::size_t> best;
      for (std::size_t j = 0; j < jobs_; ++j) {
        if (group_[j] != group) continue;
        for (std::size_t d = 0; d < devices_; ++d) {
          places[j] = d;
          const double share = problem_of(d).needed(set_on(places, d)) / problem_of(d).budget;
          if (share < least) {
            least = share;
            best = {j, d};
          }
        }
        places[j].reset();
      }
      if (least > 1) return JobDevices(jobs_);
      places[best.first] = best.second;
    }
    return places;
  }

  /// Solves one device at a time over its own runs, the free ones and, at their loss, those of the others, until no
  /// device gains.
  void improve(JobDevices places) {
    bool better = true;
    while (better && !limits_.expired()) {
      better = false;
      for (std::size_t d = 0; d < devices_; ++d) {
        ChanceProblem alone = problem_of(d);
        double before = 0;
        for (std::size_t j = 0; j < jobs_; ++j) {
          if (places[j] == d) before += alone.values[j];
          if (places[j] && places[j] != d) {
            alone.values[j] = std::max(0.0, alone.values[j] - problem_of(*places[j]).values[j]);
          }
        }
        JobDevices next = solved_again(places, d, alone, before);
        if (covers_groups(group_, places) && !covers_groups(group_, next)) {
          // Again, what a group has alone here outweighing all else.
          double all = 0;
          for (const double value : alone.values) all += value;
          for (std::size_t j = 0; j < jobs_; ++j) {
            if (places[j] != d || !is_alone(places, j)) continue;
            alone.values[j] += all;
            before += all;
          }
          next = solved_again(places, d, alone, before);
          if (!covers_groups(group_, next)) continue;
        }
        if (next == places) continue;
        better = true;
        places = std::move(next);
      }
    }
    if (!covers_groups(group_, places)) return;
    double value = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j]) value += problem_of(*places[j]).values[j];
    }
    if (best_.covers && value <= best_.value) return;
    best_.device = std::move(places);
    best_.value = value;
    best_.covers = true;
  }

  std::span<const ChanceProblem> problems_;
  std::size_t devices_;
  const JobGroups& group_;
  knapsack::Limits limits_;
  std::int64_t most_nodes_;
  std::size_t jobs_;
  Assignment best_;
};

double skew_weight(double z) { return std::max(0.0, z * z - 1) / 2; }

}  // namespace

double ChanceProblem::needed(double fixed, double random, double variance, double z) {
  if (random <= 0) return fixed;
  variance = std::max(0.0, variance);
  return fixed + random + z * std::sqrt(variance) + skew_weight(z) * variance / random;
}

double ChanceProblem::needed(const Eigen::VectorXd& share) const {
  return needed(fixed.dot(share), mean.dot(share), share.dot(covariance * share), z);
}

Eigen::VectorXd ChanceProblem::slopes(const Eigen::VectorXd& share) const {
  const double random = mean.dot(share);
  const Eigen::VectorXd pull = covariance * share;
  const double variance = std::max(0.0, share.dot(pull));
  const double weight = skew_weight(z);
  Eigen::VectorXd slopes = fixed + mean * (1 - weight * variance / (random * random)) + 2 * weight / random * pull;
  if (variance > 0) slopes += z / std::sqrt(variance) * pull;
  return slopes;
}

Plan solve_chance(const ChanceProblem& problem, const PlanLimits& limits, std::int64_t most_nodes) {
  return ChanceSolver(problem, limits, most_nodes).solve();
}

Assignment assign_chance(std::span<const ChanceProblem> problems, std::size_t devices, const JobGroups& group,
                         const PlanLimits& limits, std::int64_t most_nodes) {
  return ChanceAssigner(problems, devices, group, limits, most_nodes).solve();
}

}  // namespace perfpred
