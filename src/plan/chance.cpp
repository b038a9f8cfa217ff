// SPDX-License-Identifier: Apache-2.0
#include "plan/chance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "plan/limits.h"

namespace perfpred {
namespace {

double skew_weight(double z) { return std::max(0.0, z * z - 1) / 2; }

class ChanceSolver {
 public:
  ChanceSolver(const AssignmentProblem& problem, std::span<const ChanceTimes> times, const PlanLimits& given,
               std::int64_t max_nodes)
      : problem_(problem),
        times_(times),
        limits_(given),
        max_nodes_(max_nodes),
        jobs_(problem.jobs.size()),
        devices_(problem.budgets.size()),
        grouped_(has_groups(problem.group)) {
    best_.device.resize(jobs_);
    best_.status = grouped_ ? PlanStatus::unknown : PlanStatus::feasible;
    for (const PlanJob& job : problem.jobs) {
      double most = 0;
      for (const auto& item : job) most = std::max(most, item ? item->value : 0);
      best_.upper_bound += most;
    }
  }

  Assignment solve() {
    improve(best_.device);
    if (grouped_) improve(tight_cover());
    // Tangents at the solutions that they lead to, and at their running mean.
    std::vector<Eigen::VectorXd> at(times_.size(), Eigen::VectorXd::Ones(static_cast<Eigen::Index>(jobs_)));
    const int rounds = is_knapsack() ? 30 : 8;
    for (int round = 0; round < rounds && !proved() && (round == 0 || !limits_.expired()); ++round) {
      if (!tighten(at, round)) return best_;
    }
    if (is_knapsack() && !proved() && !limits_.expired()) branch_and_bound();
    if (proved()) {
      best_.status = PlanStatus::optimal;
      best_.upper_bound = best_.value;
    }
    return best_;
  }

 private:
  /// Bounds the value by the tangents at these points, repairs the plan that reaches the bound, and moves the points.
  /// @returns false if there is proved to be no plan
  bool tighten(std::vector<Eigen::VectorXd>& at, int round) {
    AssignmentProblem linear = linearised(at);
    const Assignment relaxed = assign(linear, limits_.remaining(), brief);
    if (relaxed.status == PlanStatus::infeasible && !best_.found()) {
      best_ = relaxed;
      return false;
    }
    if (relaxed.upper_bound < best_.upper_bound || tangent_.size() == 0) tangent_ = times_[0].slopes(at[0]);
    best_.upper_bound = std::min(best_.upper_bound, relaxed.upper_bound);
    improve(repaired(linear, relaxed.device));
    for (std::size_t k = 0; k < at.size(); ++k) {
      const std::size_t device = at.size() == 1 ? static_cast<std::size_t>(round) % devices_ : k;
      at[k] = next_point(at[k], set_on(relaxed.device, device), round);
    }
    return true;
  }

  [[nodiscard]] bool is_knapsack() const { return devices_ == 1 && !grouped_; }
  [[nodiscard]] const ChanceTimes& times_on(std::size_t device) const {
    return times_.size() == 1 ? times_.front() : times_[device];
  }
  [[nodiscard]] double budget(std::size_t device) const { return static_cast<double>(problem_.budgets[device]); }
  [[nodiscard]] double value(std::size_t job, std::optional<std::size_t> device) const {
    return device ? problem_.jobs[job][*device]->value : 0;
  }
  [[nodiscard]] bool proved() const {
    return best_.found() && best_.value >= best_.upper_bound * (1 - chance_tolerance);
  }
  [[nodiscard]] double needed(const JobDevices& places, std::size_t device) const {
    return times_on(device).needed(set_on(places, device));
  }

  [[nodiscard]] Eigen::VectorXd set_on(const JobDevices& places, std::size_t device) const {
    Eigen::VectorXd set = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(jobs_));
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j] == device) set[static_cast<Eigen::Index>(j)] = 1;
    }
    return set;
  }

  /// A point of the next tangent: the last solution at first, then a running mean of the solutions.
  static Eigen::VectorXd next_point(const Eigen::VectorXd& at, const Eigen::VectorXd& solution, int round) {
    if (solution.sum() <= 0) return at;
    constexpr int jumps = 2;
    return round < jumps ? solution : Eigen::VectorXd(0.7 * at + 0.3 * solution);
  }

  /// What a set needs along a tangent is at most this: runs with a negative slope cost nothing, their slack is added.
  [[nodiscard]] double room(std::size_t device, const Eigen::VectorXd& slopes) const {
    return budget(device) - slopes.cwiseMin(0).sum();
  }

  /// Costs along the tangents, rounded down to a share of the room: still a relaxation.
  [[nodiscard]] AssignmentProblem linearised(const std::vector<Eigen::VectorXd>& at) const {
    const double steps = is_knapsack() ? 0x1p40 : 0x1p16;  // few steps keep packing cheap
    AssignmentProblem linear{std::vector<PlanJob>(jobs_, PlanJob(devices_)), {}, problem_.group};
    std::vector<Eigen::VectorXd> slopes;
    for (std::size_t k = 0; k < times_.size(); ++k) slopes.push_back(times_[k].slopes(at[k]));
    for (std::size_t d = 0; d < devices_; ++d) {
      // A run whose slope is below one step counts as one: as many steps more hold them all.
      linear.budgets.push_back(static_cast<std::int64_t>(steps) + static_cast<std::int64_t>(jobs_));
      const Eigen::VectorXd& slope = slopes[slopes.size() == 1 ? 0 : d];
      for (std::size_t j = 0; j < jobs_ && problem_.budgets[d] > 0; ++j) {
        const double cost =
            std::max(0.0, slope[static_cast<Eigen::Index>(j)]) / room(d, slope) * steps * (1 - chance_tolerance);
        if (!problem_.jobs[j][d] || cost > 2 * steps) continue;
        linear.jobs[j][d] = PlanItem{std::max<std::int64_t>(1, static_cast<std::int64_t>(cost)), value(j, d)};
      }
    }
    return linear;
  }

  /// The assignment again with less room, until every device keeps its constraint; at last without the runs that are
  /// worth the least.
  [[nodiscard]] JobDevices repaired(AssignmentProblem& linear, JobDevices places) const {
    constexpr int tries = 8;
    for (int i = 0; i < tries && (i == 0 || !limits_.expired()); ++i) {
      double most = 0;
      for (std::size_t d = 0; d < devices_; ++d) {
        if (problem_.budgets[d] > 0) most = std::max(most, needed(places, d) / budget(d));
      }
      if (most <= 1) return places;
      for (std::int64_t& steps : linear.budgets) {
        steps = static_cast<std::int64_t>(static_cast<double>(steps) / most * (1 - 1e-6 * (1 << i)));
      }
      places = assign(linear, limits_.remaining(), brief).device;
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      while (needed(places, d) > budget(d)) {
        std::optional<std::size_t> worst;
        double least = 0;
        for (std::size_t j = 0; j < jobs_; ++j) {
          if (places[j] != d) continue;
          const double ratio = value(j, d) / static_cast<double>(linear.jobs[j][d]->cost);
          if (worst && ratio >= least) continue;
          worst = j;
          least = ratio;
        }
        places[*worst].reset();
      }
    }
    return places;
  }

  /// A run of each group: group after group, the run and device that take the smallest share of a budget.
  [[nodiscard]] JobDevices tight_cover() const {
    JobDevices places(jobs_);
    std::set<std::size_t> open;
    for (const auto& group : problem_.group) {
      if (group) open.insert(*group);
    }
    for (const std::size_t group : open) {
      std::pair<std::size_t, std::size_t> best;
      double least = 0;
      bool found = false;
      for (std::size_t j = 0; j < jobs_; ++j) {
        for (std::size_t d = 0; d < devices_ && problem_.group[j] == group; ++d) {
          if (!problem_.jobs[j][d]) continue;
          places[j] = d;
          const double needs = needed(places, d);
          places[j].reset();
          if (needs > budget(d) || (found && needs / budget(d) >= least)) continue;
          least = needs / budget(d);
          best = {j, d};
          found = true;
        }
      }
      if (!found) return JobDevices(jobs_);
      places[best.first] = best.second;
    }
    return places;
  }

  void improve(JobDevices places) {
    if (is_knapsack()) {
      fill(places);
    } else {
      solve_each(places);
    }
    keep(places);
  }

  /// On one device: adds the most valuable run that fits, while one does.
  void fill(JobDevices& places) const {
    const ChanceTimes& times = times_[0];
    const Eigen::VectorXd set = set_on(places, 0);
    double fixed = times.fixed.dot(set);
    double random = times.mean.dot(set);
    Eigen::VectorXd pull = times.covariance * set;  // covariance of each run with the sum
    double variance = set.dot(pull);
    std::vector<std::size_t> order(jobs_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
    for (const std::size_t j : order) {
      if (places[j] || !(worth(j) > 0) || limits_.expired()) continue;
      const auto i = static_cast<Eigen::Index>(j);
      const double with = variance + 2 * pull[i] + times.covariance(i, i);
      if (times.needed(fixed + times.fixed[i], random + times.mean[i], with) > budget(0) * (1 - chance_tolerance))
        continue;
      places[j] = 0;
      fixed += times.fixed[i];
      random += times.mean[i];
      variance = with;
      pull += times.covariance.col(i);
    }
  }

  /// On the first device; 0 if the job cannot run there.
  [[nodiscard]] double worth(std::size_t job) const {
    const auto& item = problem_.jobs[job][0];
    return item ? item->value : 0;
  }

  /// Solves one device at a time until none gains, over its own runs, the unplaced ones, and those of other devices at
  /// the value that they would lose there.
  void solve_each(JobDevices& places) const {
    for (bool better = true; better;) {
      better = false;
      for (std::size_t d = 0; d < devices_ && (d == 0 || !limits_.expired()); ++d) better |= solve_again(d, places);
      better &= !limits_.expired();
    }
  }

  /// Changes the places if the value grows thereby; no group loses its only run. @returns whether it did
  bool solve_again(std::size_t device, JobDevices& places) const {
    AssignmentProblem alone{std::vector<PlanJob>(jobs_, PlanJob(1)), {problem_.budgets[device]}, JobGroups(jobs_)};
    double before = 0;
    double all = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (!problem_.jobs[j][device]) continue;
      const double elsewhere = places[j] == device ? 0 : value(j, places[j]);
      alone.jobs[j][0] = PlanItem{1, std::max(0.0, value(j, device) - elsewhere)};
      all += alone.jobs[j][0]->value;
      if (places[j] == device) before += value(j, device);
    }
    const bool covered = covers_groups(problem_.group, places);
    for (const bool keeps_groups : {false, true}) {
      // Values for the only runs of their groups that outweigh all others.
      for (std::size_t j = 0; j < jobs_ && keeps_groups; ++j) {
        if (places[j] != device || !is_alone(places, j)) continue;
        alone.jobs[j][0]->value += all;
        before += all;
      }
      const std::span<const ChanceTimes> times(&times_on(device), 1);
      const Assignment found = ChanceSolver(alone, times, limits_.remaining(), max_nodes_).solve();
      if (found.value <= before * (1 + chance_tolerance)) return false;
      JobDevices next = places;
      std::replace(next.begin(), next.end(), std::optional(device), std::optional<std::size_t>());
      for (std::size_t j = 0; j < jobs_; ++j) {
        if (found.device[j]) next[j] = device;
      }
      if (covered && !covers_groups(problem_.group, next)) continue;
      places = std::move(next);
      return true;
    }
    return false;
  }

  /// Whether no other run of its group is placed.
  [[nodiscard]] bool is_alone(const JobDevices& places, std::size_t job) const {
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (j != job && places[j] && problem_.group[j] == problem_.group[job]) return false;
    }
    return problem_.group[job].has_value();
  }

  void keep(const JobDevices& places) {
    double sum = 0;
    for (std::size_t j = 0; j < jobs_; ++j) sum += value(j, places[j]);
    if ((best_.found() && sum <= best_.value) || !covers_groups(problem_.group, places)) return;
    for (std::size_t d = 0; d < devices_; ++d) {
      if (needed(places, d) > budget(d)) return;
    }
    best_.device = places;
    best_.value = sum;
    best_.status = PlanStatus::feasible;
  }

  /// Depth first, best value for the slope first; Dantzig's bound on the tangent.
  void branch_and_bound() {
    tangent_room_ = room(0, tangent_) * (1 + chance_tolerance);
    tangent_ = tangent_.cwiseMax(0);
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (problem_.jobs[j][0] && value(j, 0) > 0) order_.push_back(j);
    }
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return value(a, 0) * slope(b) > value(b, 0) * slope(a); });
    current_.resize(jobs_);
    descend(0, tangent_room_, 0);
    if (nodes_ < max_nodes_) best_.upper_bound = best_.value;
  }

  [[nodiscard]] double slope(std::size_t job) const { return tangent_[static_cast<Eigen::Index>(job)]; }

  void descend(std::size_t depth, double room, double sum) {
    if (nodes_ >= max_nodes_) return;
    if (++nodes_ % 1024 == 0 && limits_.expired()) nodes_ = max_nodes_;
    if (sum > best_.value) keep(current_);
    if (depth == order_.size()) return;
    double left = room;
    double bound = sum;
    for (std::size_t k = depth; k < order_.size(); ++k) {
      if (slope(order_[k]) > left) {
        bound += value(order_[k], 0) * left / slope(order_[k]);
        break;
      }
      left -= slope(order_[k]);
      bound += value(order_[k], 0);
    }
    if (bound <= best_.value * (1 + chance_tolerance)) return;
    const std::size_t job = order_[depth];
    if (slope(job) <= room) {
      current_[job] = 0;
      descend(depth + 1, room - slope(job), sum + value(job, 0));
      current_[job].reset();
    }
    descend(depth + 1, room, sum);
  }

  const AssignmentProblem& problem_;
  std::span<const ChanceTimes> times_;
  Limits limits_;
  std::int64_t max_nodes_;
  std::size_t jobs_;
  std::size_t devices_;
  bool grouped_;
  Assignment best_;
  Eigen::VectorXd tangent_;  // the first device's with the lowest bound
  double tangent_room_ = 0;
  std::vector<std::size_t> order_;
  JobDevices current_;
  std::int64_t nodes_ = 0;
};

}  // namespace

double ChanceTimes::needed(double fixed_sec, double random_sec, double variance) const {
  if (random_sec <= 0) return fixed_sec;
  variance = std::max(0.0, variance);
  return fixed_sec + random_sec + z * std::sqrt(variance) + skew_weight(z) * variance / random_sec;
}

double ChanceTimes::needed(const Eigen::VectorXd& share) const {
  return needed(fixed.dot(share), mean.dot(share), share.dot(covariance * share));
}

Eigen::VectorXd ChanceTimes::slopes(const Eigen::VectorXd& share) const {
  const double random = mean.dot(share);
  const Eigen::VectorXd pull = covariance * share;
  const double variance = std::max(0.0, share.dot(pull));
  const double weight = skew_weight(z);
  Eigen::VectorXd slopes = fixed + mean * (1 - weight * variance / (random * random)) + 2 * weight / random * pull;
  if (variance > 0) slopes += z / std::sqrt(variance) * pull;
  return slopes;
}

Assignment assign_chance(const AssignmentProblem& problem, std::span<const ChanceTimes> times, const PlanLimits& limits,
                         std::int64_t max_nodes) {
  return ChanceSolver(problem, times, limits, max_nodes).solve();
}

}  // namespace perfpred
