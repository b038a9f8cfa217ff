// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "plan/assignment.h"
#include "plan/branch_and_cut.h"

namespace perfpred {
namespace {

/// The multiple knapsack problem if devices are alike (S. Martello, P. Toth, Knapsack Problems, ch. 6), else the
/// generalized assignment problem (ch. 7).
class MultiDeviceSolver {
 public:
  MultiDeviceSolver(WholeProblem problem, const Limits& limits, const PlanEffort& effort)
      : problem_(std::move(problem)),
        limits_(limits),
        effort_(effort),
        devices_(problem_.budgets.size()),
        price_(problem_.jobs.size(), 0),
        bonus_(problem_.groups, 0) {
    best_.device.assign(problem_.jobs.size(), std::nullopt);
    if (covers()) best_.profit = -1;
  }

  Assignment solve() {
    bound_ = are_alike() ? summed_budget_bound() : lagrangian_bound();
    if (best_.profit < bound_) improve_from(JobDevices(problem_.jobs.size()));
    restart();
    std::optional<double> cut_bound;
    if (best_.profit < bound_ && effort_.cut_sec > 0 && problem_.jobs.size() <= max_jobs && !limits_.expired()) {
      cut_bound = cut();
    }
    Assignment assignment = to_assignment(problem_, best_, bound_);
    if (cut_bound && *cut_bound < assignment.upper_bound) {
      constexpr double tolerance = 2e-9;  // its own, for its plan and for its bound
      if (assignment.found() && *cut_bound < assignment.value * (1 - tolerance)) return assignment;  // no bound at all
      if (assignment.found() && *cut_bound <= assignment.value * (1 + tolerance)) {
        assignment.status = PlanStatus::optimal;
      }
      assignment.upper_bound = assignment.optimal() ? assignment.value : *cut_bound;
    }
    return assignment;
  }

 private:
  /// With more jobs no search ends; rounds and restarts become fewer as each takes longer.
  static constexpr std::size_t max_jobs = 500;

  [[nodiscard]] int in_proportion(int times) const {
    return static_cast<int>(static_cast<std::size_t>(times) * max_jobs / std::max(max_jobs, problem_.jobs.size()));
  }
  [[nodiscard]] bool covers() const { return problem_.groups > 0; }
  [[nodiscard]] const Candidate& at(std::size_t job, std::size_t d) const { return *problem_.jobs[job][d]; }

  [[nodiscard]] bool are_alike() const {
    for (std::size_t d = 1; d < devices_; ++d) {
      if (problem_.budgets[d] != problem_.budgets[0]) return false;
      for (const auto& job : problem_.jobs) {
        if (job[d] != job[0]) return false;
      }
    }
    return true;
  }

  /// Branch and cut on what is left. CBC computes in floating point: its plans are checked here, its proofs hold to a
  /// tolerance.
  std::optional<double> cut() {
    const BranchAndCut solver = branch_and_cut();
    if (solver == nullptr) return std::nullopt;
    reduce();
    const double seconds = limits_.remaining_sec();
    const auto answer = solver(problem_, best_.profit < 0 ? -1 : problem_.unit.nearest(best_.profit),
                               std::isinf(seconds) ? effort_.cut_sec : seconds);
    if (!answer) return std::nullopt;
    if (answer->infeasible && best_.profit < 0) bound_ = -1;
    if (answer->device && fits(*answer->device)) keep(*answer->device);
    return std::max(0.0, answer->upper_bound);
  }

  /// Removes each place of a job with which the Lagrangian bound is no better than the best plan.
  void reduce() {
    const auto bound_without = [&](std::size_t job, std::size_t d, std::int64_t budget) {
      std::vector<Candidate> candidates = priced_on(d);
      std::erase_if(candidates, [job](const Candidate& item) { return item.job == job; });
      return solve_knapsack(candidates, budget, limits_).bound;
    };
    for (std::size_t j = 0; j < problem_.jobs.size() && !limits_.expired(); ++j) {
      std::vector<Int128> without;
      Int128 others = sum_of_prices() - price_[j] + (problem_.group[j] ? bonus_[*problem_.group[j]] : 0);
      for (std::size_t d = 0; d < devices_; ++d) {
        others += without.emplace_back(bound_without(j, d, problem_.budgets[d]));
      }
      for (std::size_t d = 0; d < devices_; ++d) {
        auto& item = problem_.jobs[j][d];
        if (!item) continue;
        const Int128 rest = bound_without(j, d, problem_.budgets[d] - item->cost);
        if (others - without[d] + item->profit + rest <= best_.profit) item.reset();
      }
    }
  }

  [[nodiscard]] Int128 sum_of_prices() const {
    const auto sum = [](const std::vector<Int128>& all) { return std::accumulate(all.begin(), all.end(), Int128{0}); };
    return sum(price_) - sum(bonus_);
  }

  [[nodiscard]] bool fits(const JobDevices& device) const {
    std::vector<std::int64_t> room = problem_.budgets;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (!device[j]) continue;
      const auto& item = problem_.jobs[j][*device[j]];
      if (!item || (room[*device[j]] -= item->cost) < 0) return false;
    }
    return covers_groups(problem_.group, device);
  }

  void keep(const JobDevices& device) {
    Int128 profit = 0;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j]) profit += at(j, *device[j]).profit;
    }
    if (profit > best_.profit) best_ = {device, profit};
  }

  /// One knapsack with all budgets together gives the bound; its jobs are packed, device after device.
  Int128 summed_budget_bound() {
    const std::vector<Candidate> candidates = problem_.candidates_on(0);
    const std::int64_t budget = summed(problem_.budgets);
    const auto chosen = solve_cover(candidates, problem_.group, budget, limits_);
    if (!chosen) return -1;
    std::vector<Candidate> open;
    for (const std::size_t job : chosen->jobs) open.push_back({job, at(job, 0).cost, at(job, 0).cost});
    JobDevices device(problem_.jobs.size());
    for (std::size_t d = 0; d < devices_; ++d) {
      for (const std::size_t job : solve_knapsack(open, problem_.budgets[d], limits_).jobs) device[job] = d;
      std::erase_if(open, [&](const Candidate& candidate) { return device[candidate.job].has_value(); });
    }
    improve_from(std::move(device));
    return chosen->bound;
  }

  /// Solves one device at a time until none gains, over its own jobs, the unplaced ones, and those of other devices
  /// less their profit there.
  void improve_from(JobDevices device) {
    if (covers() && !cover(device)) return;
    bool better = true;
    while (better && !limits_.expired()) {
      better = false;
      for (std::size_t d = 0; d < devices_; ++d) {
        std::vector<Candidate> candidates;
        Int128 before = 0;
        for (Candidate item : problem_.candidates_on(d)) {
          const auto& place = device[item.job];
          if (place == d) before += item.profit;
          if (place && place != d) item.profit -= at(item.job, *place).profit;
          if (item.profit >= 0) candidates.push_back(item);
        }
        const Chosen chosen = best_on(d, candidates, device);
        if (chosen.profit <= before) continue;
        better = true;
        std::replace(device.begin(), device.end(), std::optional(d), std::optional<std::size_t>());
        for (const std::size_t job : chosen.jobs) device[job] = d;
      }
    }
    keep(device);
  }

  /// The best of the candidates for a device, with a job of each group that no other device covers.
  [[nodiscard]] Chosen best_on(std::size_t d, std::span<const Candidate> candidates, const JobDevices& device) const {
    std::vector<bool> covered(problem_.groups);
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j] && device[j] != d && problem_.group[j]) covered[*problem_.group[j]] = true;
    }
    JobGroups group = problem_.group;
    for (auto& one : group) {
      if (one && covered[*one]) one.reset();
    }
    return solve_cover(candidates, group, problem_.budgets[d], limits_).value_or(Chosen());
  }

  /// Where a group has no job, keeps one job of each other group and places one of this where most room is left.
  /// @returns whether all groups are covered
  bool cover(JobDevices& device) const {
    if (covers_groups(problem_.group, device)) return true;
    std::vector<std::int64_t> room = problem_.budgets;
    std::vector<bool> covered(problem_.groups);
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (!device[j]) continue;
      if (!problem_.group[j] || covered[*problem_.group[j]]) {
        device[j].reset();
      } else {
        covered[*problem_.group[j]] = true;
        room[*device[j]] -= at(j, *device[j]).cost;
      }
    }
    for (std::size_t g = 0; g < covered.size(); ++g) {
      std::optional<std::pair<std::size_t, std::size_t>> best;
      std::int64_t most = -1;
      for (std::size_t j = 0; j < device.size() && !covered[g]; ++j) {
        for (std::size_t d = 0; d < devices_ && problem_.group[j] == g; ++d) {
          if (!problem_.jobs[j][d] || room[d] - at(j, d).cost <= most) continue;
          most = room[d] - at(j, d).cost;
          best = {j, d};
        }
      }
      if (best) device[best->first] = best->second;
      if (best) room[best->second] = most;
    }
    return covers_groups(problem_.group, device);
  }

  /// The jobs that a device can run, by profits less the prices plus the bonuses.
  [[nodiscard]] std::vector<Candidate> priced_on(std::size_t d) const {
    std::vector<Candidate> candidates = problem_.candidates_on(d);
    for (Candidate& item : candidates) {
      item.profit -= price_[item.job];
      if (const auto& group = problem_.group[item.job]) item.profit += bonus_[*group];
    }
    return candidates;
  }

  /// Makes plans from nothing: devices in random order, each by a knapsack over noisy profits less the prices; then
  /// improves them.
  void restart() {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform;
    std::normal_distribution<double> normal;
    std::vector<std::size_t> order(devices_);
    std::iota(order.begin(), order.end(), 0);
    const int restarts =
        in_proportion(covers() ? effort_.restarts / 10 : effort_.restarts);  // each takes ten times as long
    for (int i = 0; i < restarts && best_.profit < bound_ && !limits_.expired(); ++i) {
      std::shuffle(order.begin(), order.end(), random);
      constexpr double max_noise = 0.02;
      const double noise = max_noise * uniform(random);
      JobDevices device(problem_.jobs.size());
      for (const std::size_t d : order) {
        std::vector<Candidate> candidates = priced_on(d);
        std::erase_if(candidates, [&](const Candidate& item) { return device[item.job].has_value(); });
        for (Candidate& item : candidates) {
          item.profit += static_cast<Int128>(static_cast<double>(at(item.job, d).profit) * noise * normal(random));
        }
        for (const std::size_t job : solve_knapsack(candidates, problem_.budgets[d], limits_).jobs) device[job] = d;
      }
      improve_from(std::move(device));
    }
  }

  /// The sum of the best profits of each device alone by priced profits, plus all prices, less all bonuses.
  struct Relaxed {
    Int128 bound = 0;
    std::vector<int> uses;    // of each job
    std::vector<int> placed;  // jobs of each group
    JobDevices device;        // each job on one device only
  };
  [[nodiscard]] Relaxed relaxed() const {
    Relaxed all{sum_of_prices(), std::vector<int>(price_.size()), std::vector<int>(bonus_.size()),
                JobDevices(price_.size())};
    for (std::size_t d = 0; d < devices_; ++d) {
      const Chosen chosen = solve_knapsack(priced_on(d), problem_.budgets[d], limits_);
      all.bound += chosen.bound;
      for (const std::size_t job : chosen.jobs) {
        ++all.uses[job];
        if (problem_.group[job]) ++all.placed[*problem_.group[job]];
        auto& place = all.device[job];
        if (!place || at(job, d).profit > at(job, *place).profit) place = d;
      }
    }
    return all;
  }

  /// A subgradient step: prices of jobs used more than once rise, bonuses of groups without a job do. Returns whether
  /// there was one to take.
  bool reprice(const Relaxed& all, double pace) {
    double norm = 0;
    for (std::size_t j = 0; j < price_.size(); ++j) {
      if (all.uses[j] > 1 || price_[j] > 0) norm += (all.uses[j] - 1.0) * (all.uses[j] - 1.0);
    }
    for (std::size_t g = 0; g < bonus_.size(); ++g) {
      if (all.placed[g] == 0 || bonus_[g] > 0) norm += (all.placed[g] - 1.0) * (all.placed[g] - 1.0);
    }
    if (norm == 0) return false;
    const double length = pace * static_cast<double>(all.bound - best_.profit) / norm;
    const auto moved = [&](Int128 from, int by) {
      return std::max<Int128>(0, from + static_cast<Int128>(length * by));
    };
    for (std::size_t j = 0; j < price_.size(); ++j) price_[j] = moved(price_[j], all.uses[j] - 1);
    for (std::size_t g = 0; g < bonus_.size(); ++g) bonus_[g] = moved(bonus_[g], 1 - all.placed[g]);
    return true;
  }

  /// A Lagrangian bound, valid for any prices and bonuses >= 0; leaves those with the lowest. Every eighth relaxed
  /// solution starts a plan.
  Int128 lagrangian_bound() {
    Int128 least = problem_.profit_of_all();
    auto best_price = price_;
    auto best_bonus = bonus_;
    double pace = 1;
    int stale = 0;
    // 200 rounds come close to the lowest bound whatever the size.
    const int rounds = std::min(effort_.rounds, std::max(200, in_proportion(effort_.rounds)));
    for (int round = 0; round < rounds && pace > 1e-6 && !limits_.expired(); ++round) {
      const Relaxed all = relaxed();
      if (all.bound < least || round == 0) {
        least = std::min(least, all.bound);
        best_price = price_;
        best_bonus = bonus_;
        stale = 0;
      } else if (++stale >= 10) {
        pace /= 2;
        stale = 0;
      }
      if (round % 8 == 0) improve_from(all.device);
      if (least <= best_.profit || !reprice(all, pace)) break;
    }
    price_ = std::move(best_price);
    bonus_ = std::move(best_bonus);
    return least;
  }

  WholeProblem problem_;
  const Limits& limits_;
  PlanEffort effort_;
  std::size_t devices_;
  Places best_;
  Int128 bound_ = 0;
  std::vector<Int128> price_;  // of each job, for being placed at most once; those of the lowest Lagrangian bound
  std::vector<Int128> bonus_;  // of each group, for being placed at least once
};

}  // namespace

Assignment assign_to_several(WholeProblem problem, const Limits& limits, const PlanEffort& effort) {
  return MultiDeviceSolver(std::move(problem), limits, effort).solve();
}

}  // namespace perfpred
