// SPDX-License-Identifier: Apache-2.0
#include "plan/chance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "plan/limits.h"

namespace perfpred {
namespace {

double skew_weight(double z) { return std::max(0.0, z * z - 1) / 2; }

/// The runs on one device, to which runs are added in time linear in the number of all.
class DeviceLoad {
 public:
  /// @param set  1 for each run that is there, else 0
  DeviceLoad(const ChanceTimes& times, const Eigen::VectorXd& set)
      : times_(times),
        pull_(times.covariance * set),
        fixed_(times.fixed.dot(set)),
        random_(times.mean.dot(set)),
        variance_(set.dot(pull_)) {}

  /// What the set needs with one run more.
  [[nodiscard]] double needed_with(Eigen::Index job) const {
    return times_.needed(fixed_ + times_.fixed[job], random_ + times_.mean[job], variance_with(job));
  }

  void add(Eigen::Index job) {
    variance_ = variance_with(job);
    pull_ += times_.covariance.col(job);
    fixed_ += times_.fixed[job];
    random_ += times_.mean[job];
  }

 private:
  [[nodiscard]] double variance_with(Eigen::Index job) const {
    return variance_ + 2 * pull_[job] + times_.covariance(job, job);
  }

  const ChanceTimes& times_;
  Eigen::VectorXd pull_;  // covariance of the set's time with each run's
  double fixed_, random_, variance_;
};

class ChanceSolver {
 public:
  ChanceSolver(const AssignmentProblem& problem, std::span<const ChanceTimes> times, const Limits& limits,
               std::int64_t max_nodes)
      : problem_(problem),
        times_(times),
        limits_(limits),
        max_nodes_(max_nodes),
        jobs_(problem.jobs.size()),
        devices_(problem.budgets.size()) {
    best_.device.resize(jobs_);
    best_.status = covers_groups(problem.group, best_.device) ? PlanStatus::feasible : PlanStatus::unknown;
    for (std::size_t j = 0; j < jobs_; ++j) best_.upper_bound += most_value(j);
  }

  Assignment solve() {
    improve(best_.device);
    // Tangents at the solutions that they lead to, and at their running mean.
    std::vector<Eigen::VectorXd> at(times_.size(), Eigen::VectorXd::Ones(static_cast<Eigen::Index>(jobs_)));
    const int rounds = devices_ == 1 ? 30 : 8;
    for (int round = 0; round < rounds && !proved() && (round == 0 || !limits_.expired()); ++round) {
      if (!tighten(at, round)) return best_;
    }
    if (!proved() && !limits_.expired()) search();
    if (proved()) best_.status = PlanStatus::optimal;
    sum_again(problem_, best_, false);
    for (std::size_t d = 0; d < devices_; ++d) {
      if (!fits(best_.device, d)) throw Error("the planner failed: the plan that it found does not keep its budget");
    }
    return best_;
  }

 private:
  struct Group {
    int undecided = 0;
    int placed = 0;
    double cheapest = HUGE_VAL;  // share
  };
  /// A run in the search.
  struct Branch {
    std::size_t job;
    std::vector<double> share;  // of each device's room that it takes along the tangent; infinite where it cannot run
    double least_share;
    double value;  // where it is worth the most
    Group* group = nullptr;
    std::size_t position = 0;  // in the order of decisions
  };

  /// Bounds the value by the tangents at these points, repairs the plan that reaches the bound, and moves the points.
  /// @returns false if there is proved to be no plan
  bool tighten(std::vector<Eigen::VectorXd>& at, int round) {
    std::vector<Eigen::VectorXd> slopes;
    for (std::size_t k = 0; k < times_.size(); ++k) slopes.push_back(times_[k].slopes(at[k]));
    AssignmentProblem linear = linearised(slopes);
    const Assignment relaxed = assign(linear, limits_, brief);
    if (relaxed.status == PlanStatus::infeasible && !best_.found()) {
      best_ = relaxed;
      return false;
    }
    if (relaxed.upper_bound < best_.upper_bound || tangents_.empty()) tangents_ = std::move(slopes);
    best_.upper_bound = std::min(best_.upper_bound, relaxed.upper_bound);
    improve(repaired(linear, relaxed.device));
    for (std::size_t k = 0; k < at.size(); ++k) {
      const std::size_t device = at.size() == 1 ? static_cast<std::size_t>(round) % devices_ : k;
      at[k] = next_point(at[k], set_on(relaxed.device, device), round);
    }
    return true;
  }

  /// What a device has, where all may have the same.
  template <class List>
  static const auto& of(const List& list, std::size_t device) {
    return list[list.size() == 1 ? 0 : device];
  }
  [[nodiscard]] const ChanceTimes& times_on(std::size_t device) const { return of(times_, device); }
  [[nodiscard]] double budget(std::size_t device) const { return static_cast<double>(problem_.budgets[device]); }
  [[nodiscard]] double value(std::size_t job, std::optional<std::size_t> device) const {
    return device ? problem_.jobs[job][*device]->value : 0;
  }
  [[nodiscard]] double most_value(std::size_t job) const {
    double most = 0;
    for (const auto& item : problem_.jobs[job]) most = std::max(most, item ? item->value : 0);
    return most;
  }
  [[nodiscard]] bool proved() const {
    return best_.found() && best_.value >= best_.upper_bound * (1 - chance_tolerance);
  }
  [[nodiscard]] bool fits(const JobDevices& places, std::size_t device) const {
    return times_on(device).needed(set_on(places, device)) <= budget(device);
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

  /// The share of a device's room that a run takes along a tangent. What a set needs is at most the room: runs with a
  /// negative slope cost nothing, their slack is added.
  [[nodiscard]] double share(std::size_t job, std::size_t device, const Eigen::VectorXd& slope) const {
    if (!problem_.jobs[job][device] || problem_.budgets[device] <= 0) return HUGE_VAL;
    const double room = budget(device) - slope.cwiseMin(0).sum();
    return std::max(0.0, slope[static_cast<Eigen::Index>(job)]) / room * (1 - chance_tolerance);
  }

  /// Costs along the tangents, rounded down to a share of the room: still a relaxation.
  [[nodiscard]] AssignmentProblem linearised(const std::vector<Eigen::VectorXd>& slopes) const {
    const double steps = devices_ == 1 ? 0x1p40 : 0x1p16;  // few steps keep packing cheap
    AssignmentProblem linear{std::vector<PlanJob>(jobs_, PlanJob(devices_)), {}, problem_.group};
    for (std::size_t d = 0; d < devices_; ++d) {
      // A run whose slope is below one step counts as one: as many steps more hold them all.
      linear.budgets.push_back(static_cast<std::int64_t>(steps) + static_cast<std::int64_t>(jobs_));
      for (std::size_t j = 0; j < jobs_; ++j) {
        const double cost = share(j, d, of(slopes, d)) * steps;
        if (cost > 2 * steps) continue;
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
        if (problem_.budgets[d] > 0) most = std::max(most, times_on(d).needed(set_on(places, d)) / budget(d));
      }
      if (most <= 1) return places;
      for (std::int64_t& steps : linear.budgets) {
        steps = static_cast<std::int64_t>(static_cast<double>(steps) / most * (1 - 1e-6 * (1 << i)));
      }
      places = assign(linear, limits_, brief).device;
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      while (!fits(places, d)) {
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

  /// Adds the most valuable run that fits a device, while one does, and keeps the plan.
  void improve(JobDevices places) {
    std::vector<std::pair<std::size_t, std::size_t>> options;  // job, device
    for (std::size_t j = 0; j < jobs_; ++j) {
      for (std::size_t d = 0; d < devices_ && !places[j]; ++d) {
        if (problem_.jobs[j][d] && value(j, d) > 0) options.emplace_back(j, d);
      }
    }
    std::stable_sort(options.begin(), options.end(),
                     [&](const auto& a, const auto& b) { return value(a.first, a.second) > value(b.first, b.second); });
    std::vector<DeviceLoad> loads;
    for (std::size_t d = 0; d < devices_; ++d) loads.emplace_back(times_on(d), set_on(places, d));
    for (const auto& [job, device] : options) {
      const auto row = static_cast<Eigen::Index>(job);
      if (places[job]) continue;
      const double share = loads[device].needed_with(row) / budget(device);
      if (share > 1 + chance_tolerance) continue;
      places[job] = device;
      if (share > 1 - chance_tolerance && !fits(places, device)) {  // too close for sums that were rounded
        places[job].reset();
        continue;
      }
      loads[device].add(row);
    }
    keep(places);
  }

  void keep(const JobDevices& places) {
    double sum = 0;
    for (std::size_t j = 0; j < jobs_; ++j) sum += value(j, places[j]);
    if ((best_.found() && sum <= best_.value) || !covers_groups(problem_.group, places)) return;
    for (std::size_t d = 0; d < devices_; ++d) {
      if (!fits(places, d)) return;
    }
    best_.device = places;
    best_.value = sum;
    best_.status = PlanStatus::feasible;
  }

  void make_branches() {
    for (std::size_t j = 0; j < jobs_; ++j) {
      Branch branch{j, {}, HUGE_VAL, most_value(j)};
      if (const auto& group = problem_.group[j]) branch.group = &groups_[*group];
      for (std::size_t d = 0; d < devices_; ++d) {
        branch.share.push_back(share(j, d, of(tangents_, d)));
        branch.least_share = std::min(branch.least_share, branch.share.back());
      }
      if (std::isinf(branch.least_share) || (branch.value <= 0 && branch.group == nullptr)) continue;
      if (branch.group != nullptr) {
        ++branch.group->undecided;
        branch.group->cheapest = std::min(branch.group->cheapest, branch.least_share);
      }
      by_ratio_.push_back(std::move(branch));
    }
    std::stable_sort(by_ratio_.begin(), by_ratio_.end(), [](const Branch& a, const Branch& b) {
      return a.value * b.least_share > b.value * a.least_share;
    });
    for (Branch& branch : by_ratio_) order_.push_back(&branch);
    std::stable_partition(order_.begin(), order_.end(), [](const Branch* branch) {
      return branch->group != nullptr && branch->least_share == branch->group->cheapest;
    });
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i]->position = i;
  }

  /// Depth first over the places of runs: those that cover the groups at the least cost, then the best value for the
  /// slope. Dantzig's bound on the tangents of all devices together.
  void search() {
    make_branches();
    room_.assign(devices_, 1 + chance_tolerance);
    uncovered_ = groups_.size();
    current_.resize(jobs_);
    descend(0, 0);
    if (nodes_ >= max_nodes_) return;
    best_.upper_bound = best_.value;
    if (!best_.found()) best_.status = PlanStatus::infeasible;
  }

  void descend(std::size_t depth, double sum) {
    if (nodes_ >= max_nodes_) return;
    if (++nodes_ % 1024 == 0 && limits_.expired()) nodes_ = max_nodes_;
    if (uncovered_ == 0 && (!best_.found() || sum > best_.value)) keep(current_);
    if (depth == order_.size() || !is_promising(depth, sum)) return;
    const Branch& branch = *order_[depth];
    if (branch.group != nullptr) --branch.group->undecided;
    for (std::size_t d = 0; d < devices_; ++d) {
      if (branch.share[d] > room_[d]) continue;
      place(branch, d, 1);
      descend(depth + 1, sum + value(branch.job, d));
      place(branch, d, -1);
    }
    const bool coverable = branch.group == nullptr || branch.group->placed + branch.group->undecided > 0;
    if (coverable) descend(depth + 1, sum);
    if (branch.group != nullptr) ++branch.group->undecided;
  }

  /// @param sign  1 puts the run there, -1 takes it back
  void place(const Branch& branch, std::size_t device, int sign) {
    current_[branch.job] = sign > 0 ? std::optional(device) : std::nullopt;
    room_[device] -= sign * branch.share[device];
    if (branch.group == nullptr) return;
    const bool was_covered = branch.group->placed > 0;
    branch.group->placed += sign;
    if (was_covered != (branch.group->placed > 0)) sign > 0 ? --uncovered_ : ++uncovered_;
  }

  [[nodiscard]] bool is_promising(std::size_t depth, double sum) const {
    return !best_.found() || bound(depth, sum) > best_.value * (1 + chance_tolerance);
  }

  /// The sum with what the runs that are not decided yet add at most.
  [[nodiscard]] double bound(std::size_t depth, double sum) const {
    double left = std::accumulate(room_.begin(), room_.end(), 0.0);
    for (const Branch& branch : by_ratio_) {
      if (branch.position < depth) continue;
      if (branch.least_share > left) return sum + branch.value * left / branch.least_share;
      left -= branch.least_share;
      sum += branch.value;
    }
    return sum;
  }

  const AssignmentProblem& problem_;
  std::span<const ChanceTimes> times_;
  const Limits& limits_;
  std::int64_t max_nodes_;
  std::size_t jobs_;
  std::size_t devices_;
  Assignment best_;
  std::vector<Eigen::VectorXd> tangents_;  // those with the lowest bound, as times_
  std::vector<Branch> by_ratio_;
  std::vector<Branch*> order_;
  std::map<std::size_t, Group> groups_;
  std::size_t uncovered_ = 0;
  std::vector<double> room_;  // of each device, as a share
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

Assignment assign_chance(const AssignmentProblem& problem, std::span<const ChanceTimes> times, const Limits& limits,
                         std::int64_t max_nodes) {
  return ChanceSolver(problem, times, limits, max_nodes).solve();
}

}  // namespace perfpred
