// SPDX-License-Identifier: Apache-2.0
#include "plan/chance/chance_assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "plan/chance/chance_solver.h"
#include "plan/limits.h"

namespace perfpred {
namespace {

class ChanceAssigner {
 public:
  ChanceAssigner(std::span<const ChanceProblem> problems, std::span<const double> budgets, const JobGroups& group,
                 const PlanLimits& given, std::int64_t max_nodes)
      : problems_(problems),
        budgets_(budgets),
        devices_(budgets.size()),
        group_(group),
        limits_(given),
        max_nodes_(max_nodes),
        jobs_(problems.front().values.size()) {}

  Assignment solve() {
    best_.device.assign(jobs_, std::nullopt);
    best_.status = covers_groups(group_, best_.device) ? PlanStatus::feasible : PlanStatus::unknown;
    for (std::size_t j = 0; j < jobs_; ++j) {
      double most = 0;
      for (const ChanceProblem& problem : problems_) most = std::max(most, problem.values[j]);
      best_.upper_bound += most;
    }
    improve(best_.device);
    if (has_groups(group_)) improve(tight_cover());
    std::vector<Eigen::VectorXd> at(problems_.size(), Eigen::VectorXd::Ones(static_cast<Eigen::Index>(jobs_)));
    constexpr int rounds = 8;
    for (int round = 0; round < rounds && !proved() && !limits_.expired(); ++round) {
      AssignmentProblem linear = linearised(at);
      const Assignment relaxed = assign(linear, limits_.remaining(), brief);
      if (relaxed.status == PlanStatus::infeasible && !best_.found()) return relaxed;
      best_.upper_bound = std::min(best_.upper_bound, relaxed.upper_bound);
      improve(repaired(linear, relaxed.device));
      for (std::size_t k = 0; k < at.size(); ++k) {
        const std::size_t device = at.size() == 1 ? static_cast<std::size_t>(round) % devices_ : k;
        at[k] = next_point(at[k], set_on(relaxed.device, device), round);
      }
    }
    if (proved()) {
      best_.status = PlanStatus::optimal;
      best_.upper_bound = best_.value;
    }
    return best_;
  }

 private:
  [[nodiscard]] const ChanceProblem& problem_of(std::size_t device) const {
    return problems_.size() == 1 ? problems_.front() : problems_[device];
  }
  [[nodiscard]] bool proved() const {
    return best_.found() && best_.value >= best_.upper_bound * (1 - chance_tolerance);
  }
  /// The share of a device's budget that its runs need.
  [[nodiscard]] double share_needed(const JobDevices& places, std::size_t device) const {
    return problem_of(device).needed(set_on(places, device)) / budgets_[device];
  }

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
      const std::size_t k = tangents.size() == 1 ? 0 : d;
      const double room = tangents[k].room - problems_[k].budget + budgets_[d];
      for (std::size_t j = 0; j < jobs_; ++j) {
        const double cost = tangents[k].slopes[static_cast<Eigen::Index>(j)] / room * steps * (1 - chance_tolerance);
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
      for (std::size_t d = 0; d < devices_; ++d) most = std::max(most, share_needed(places, d));
      if (most <= 1) return places;
      for (std::int64_t& budget : linear.budgets) {
        budget = static_cast<std::int64_t>(static_cast<double>(budget) / most * (1 - 1e-6 * (1 << i)));
      }
      places = assign(linear, limits_.remaining(), brief).device;
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      if (share_needed(places, d) <= 1) continue;
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

  /// The places after this device is solved alone; unchanged if its value does not exceed `before`.
  [[nodiscard]] JobDevices solved_again(const JobDevices& places, std::size_t device, const ChanceProblem& alone,
                                        double before) const {
    const Plan plan = solve_chance(alone, limits_.remaining(), max_nodes_);
    if (plan.value <= before * (1 + chance_tolerance)) return places;
    JobDevices next = places;
    for (auto& place : next) {
      if (place == device) place.reset();
    }
    for (const std::size_t job : plan.chosen) next[job] = device;
    return next;
  }

  /// A run of each group: group after group, the run and device that take the smallest share of a budget.
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
          const double share = share_needed(places, d);
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

  /// Solves one device at a time until none gains, over its own runs, the unplaced ones, and those of other devices at
  /// the value that they would lose there.
  void improve(JobDevices places) {
    bool better = false;
    do {
      better = false;
      for (std::size_t d = 0; d < devices_ && (d == 0 || !limits_.expired()); ++d) {
        JobDevices next = improved_on(d, places);
        if (next == places) continue;
        better = true;
        places = std::move(next);
      }
    } while (better && !limits_.expired());
    keep(std::move(places));
  }

  /// The places after a device is solved again; no group loses its only run.
  [[nodiscard]] JobDevices improved_on(std::size_t d, const JobDevices& places) const {
    ChanceProblem alone = problem_of(d);
    alone.budget = budgets_[d];
    double before = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j] == d) before += alone.values[j];
      if (!places[j] || places[j] == d) continue;
      alone.values[j] = std::max(0.0, alone.values[j] - problem_of(*places[j]).values[j]);
    }
    JobDevices next = solved_again(places, d, alone, before);
    if (!covers_groups(group_, places) || covers_groups(group_, next)) return next;
    // Solve again, with values for the only runs of their groups that outweigh all others.
    const double all = std::accumulate(alone.values.begin(), alone.values.end(), 0.0);
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j] != d || !is_alone(places, j)) continue;
      alone.values[j] += all;
      before += all;
    }
    next = solved_again(places, d, alone, before);
    return covers_groups(group_, next) ? next : places;
  }

  void keep(JobDevices places) {
    if (!covers_groups(group_, places)) return;
    double value = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (places[j]) value += problem_of(*places[j]).values[j];
    }
    if (best_.found() && value <= best_.value) return;
    best_.device = std::move(places);
    best_.value = value;
    best_.status = PlanStatus::feasible;
  }

  std::span<const ChanceProblem> problems_;
  std::span<const double> budgets_;
  std::size_t devices_;
  const JobGroups& group_;
  Limits limits_;
  std::int64_t max_nodes_;
  std::size_t jobs_;
  Assignment best_;
};

}  // namespace

Assignment assign_chance(std::span<const ChanceProblem> problems, std::span<const double> budgets,
                         const JobGroups& group, const PlanLimits& limits, std::int64_t max_nodes) {
  return ChanceAssigner(problems, budgets, group, limits, max_nodes).solve();
}

}  // namespace perfpred
