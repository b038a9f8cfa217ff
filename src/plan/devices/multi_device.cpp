// SPDX-License-Identifier: Apache-2.0
#include "plan/devices/multi_device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>

#include "plan/cover_solver.h"
#include "plan/devices/assignment_tree.h"
#include "plan/devices/branch_and_cut.h"

namespace perfpred {
namespace {

/// The multiple knapsack problem if devices are alike (S. Martello, P. Toth, Knapsack Problems, ch. 6; D. Pisinger, An
/// exact algorithm for large multiple knapsack problems, EJOR 114, 1999), else the generalized assignment problem
/// (ch. 7).
class MultiDeviceSolver {
 public:
  MultiDeviceSolver(WholeProblem problem, const Limits& limits, const PlanEffort& effort)
      : problem_(std::move(problem)),
        limits_(limits),
        effort_(effort),
        devices_(problem_.budgets.size()),
        alike_(are_alike()),
        needed_(problem_.jobs.size(), false) {
    std::map<std::size_t, std::size_t> number;
    for (auto& group : problem_.group) {
      if (group) group = number.emplace(*group, number.size()).first->second;
    }
    multipliers_.price.assign(problem_.jobs.size(), 0);
    multipliers_.bonus.assign(number.size(), 0);
    best_.device.assign(problem_.jobs.size(), std::nullopt);
    if (covers()) best_.profit = -1;
  }

  Assignment solve() {
    bound_ = alike_ ? summed_budget_bound() : lagrangian_bound();
    if (best_.profit < bound_) improve_from(JobDevices(problem_.jobs.size()));
    restart();
    if (problem_.jobs.size() <= max_jobs) {
      for (int i = 0; i < effort_.reductions && !alike_ && best_.profit < bound_ && reduce(); ++i) {
        bound_ = std::min(bound_, lagrangian_bound());
      }
      if (best_.profit < bound_ &&
          search_assignment_tree(problem_, alike_, multipliers_, needed_, best_, bound_, effort_.nodes, limits_)) {
        bound_ = best_.profit;
      }
      if (best_.profit < bound_ && effort_.cut_sec > 0 && !limits_.expired()) cut();
    }
    Assignment assignment = to_assignment(problem_, best_, bound_);
    if (cut_bound_ < assignment.upper_bound) {
      constexpr double tolerance = 2e-9;  // its own, for its plan and for its bound
      if (assignment.found() && cut_bound_ <= assignment.value * (1 + tolerance)) {
        assignment.status = PlanStatus::optimal;
      }
      assignment.upper_bound = assignment.optimal() ? assignment.value : cut_bound_;
    }
    return assignment;
  }

 private:
  /// With more jobs no search ends; rounds and restarts become fewer as each takes longer.
  static constexpr std::size_t max_jobs = 500;

  [[nodiscard]] int in_proportion(int times) const {
    return static_cast<int>(static_cast<std::size_t>(times) * max_jobs / std::max(max_jobs, problem_.jobs.size()));
  }

  /// Branch and cut on what is left. CBC computes in floating point: its plans are checked here, its proofs hold to a
  /// tolerance.
  void cut() {
    const BranchAndCut solver = branch_and_cut();
    if (solver == nullptr) return;
    const double seconds = limits_.remaining().time_sec;
    const auto answer = solver(problem_, needed_, best_.profit < 0 ? -1 : problem_.unit.value(best_.profit),
                               std::isinf(seconds) ? effort_.cut_sec : seconds);
    if (!answer) return;
    if (answer->infeasible && best_.profit < 0) bound_ = -1;
    if (answer->device && fits(*answer->device)) keep(*answer->device);
    cut_bound_ = std::max(0.0, answer->upper_bound);
  }

  [[nodiscard]] bool fits(const JobDevices& device) const {
    std::vector<std::int64_t> room = problem_.budgets;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j] && (!problem_.jobs[j][*device[j]] || (room[*device[j]] -= cost_of(j, *device[j])) < 0))
        return false;
    }
    return covers_groups(problem_.group, device);
  }

  [[nodiscard]] bool are_alike() const {
    for (std::size_t d = 1; d < devices_; ++d) {
      if (problem_.budgets[d] != problem_.budgets[0]) return false;
      for (const auto& job : problem_.jobs) {
        if (job[d] != job[0]) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool covers() const { return !multipliers_.bonus.empty(); }

  [[nodiscard]] Int128 profit_of(std::size_t job, std::size_t d) const { return problem_.jobs[job][d]->profit; }
  [[nodiscard]] std::int64_t cost_of(std::size_t job, std::size_t d) const { return problem_.jobs[job][d]->cost; }

  void keep(const JobDevices& device) {
    Int128 profit = 0;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j]) profit += profit_of(j, *device[j]);
    }
    if (profit <= best_.profit) return;
    best_.device = device;
    best_.profit = profit;
  }

  /// One knapsack with all budgets together gives the bound; its jobs are packed in several orders.
  Int128 summed_budget_bound() {
    const std::int64_t budget = summed(problem_.budgets);
    const std::vector<Candidate> candidates = problem_.candidates_on(0);
    Chosen chosen;
    if (covers()) {
      auto covering = solve_cover(candidates, problem_.group, budget, limits_);
      if (!covering) return -1;
      chosen = *std::move(covering);
    } else {
      chosen = knapsack_of(candidates, budget, limits_);
    }
    std::mt19937_64 random(1);
    constexpr int orders = 12;
    for (int order = 0; order < orders && best_.profit < chosen.bound && !limits_.expired(); ++order) {
      std::vector<std::size_t> jobs = chosen.jobs;
      std::sort(jobs.begin(), jobs.end(),
                [&](std::size_t a, std::size_t b) { return problem_.jobs[a][0]->cost > problem_.jobs[b][0]->cost; });
      if (order > 0) shuffle_lightly(jobs, random);
      pack(jobs, order % 2 == 0);
    }
    return chosen.bound;
  }

  static void shuffle_lightly(std::vector<std::size_t>& jobs, std::mt19937_64& random) {
    for (std::size_t i = 0; i + 1 < jobs.size(); ++i)
      std::swap(jobs[i], jobs[i + random() % std::min<std::size_t>(8, jobs.size() - i)]);
  }

  /// Fills device after device as far as possible, or puts each job on the emptiest device.
  void pack(const std::vector<std::size_t>& jobs, bool fill) {
    JobDevices device(problem_.jobs.size());
    if (fill) {
      std::vector<Candidate> open;
      for (const std::size_t job : jobs)
        open.push_back({job, problem_.jobs[job][0]->cost, problem_.jobs[job][0]->cost});
      for (std::size_t d = 0; d < devices_; ++d) {
        for (const std::size_t job : knapsack_of(open, problem_.budgets[d], limits_).jobs) device[job] = d;
        std::erase_if(open, [&](const Candidate& candidate) { return device[candidate.job].has_value(); });
      }
    } else {
      std::vector<std::int64_t> room = problem_.budgets;
      for (const std::size_t job : jobs) {
        const auto emptiest = std::max_element(room.begin(), room.end());
        if (*emptiest < problem_.jobs[job][0]->cost) continue;
        *emptiest -= problem_.jobs[job][0]->cost;
        device[job] = static_cast<std::size_t>(emptiest - room.begin());
      }
    }
    improve_from(std::move(device));
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
        for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
          const auto& item = problem_.jobs[j][d];
          if (!item) continue;
          if (device[j] == d) before += item->profit;
          const Int128 elsewhere = device[j] && *device[j] != d ? profit_of(j, *device[j]) : 0;
          if (item->profit >= elsewhere) candidates.push_back({j, item->cost, item->profit - elsewhere});
        }
        const Chosen chosen = best_on(d, candidates, device);
        if (chosen.profit <= before) continue;
        better = true;
        for (auto& place : device) {
          if (place == d) place.reset();
        }
        for (const std::size_t job : chosen.jobs) device[job] = d;
      }
    }
    keep(device);
  }

  /// The best of the candidates for a device, with a job of each group that no other device covers.
  [[nodiscard]] Chosen best_on(std::size_t d, std::span<const Candidate> candidates, const JobDevices& device) const {
    Chosen chosen = knapsack_of(candidates, problem_.budgets[d], limits_);
    if (!covers()) return chosen;
    std::vector<bool> covered(multipliers_.bonus.size());
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (problem_.group[j] && device[j] && device[j] != d) covered[*problem_.group[j]] = true;
    }
    JobGroups group = problem_.group;
    for (auto& one : group) {
      if (one && covered[*one]) one.reset();
    }
    for (const std::size_t job : chosen.jobs) {
      if (problem_.group[job]) covered[*problem_.group[job]] = true;
    }
    const bool holds_all = std::all_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return !group[candidate.job] || covered[*group[candidate.job]];
    });
    if (holds_all) return chosen;
    return solve_cover(candidates, group, problem_.budgets[d], limits_).value_or(Chosen());
  }

  /// Places a job of each group where there is most room, after removing the least profitable jobs that are not the
  /// only ones of their groups. Returns whether all groups are covered.
  bool cover(JobDevices& device) const {
    std::vector<std::int64_t> room = problem_.budgets;
    std::vector<int> placed(multipliers_.bonus.size());
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (!device[j]) continue;
      room[*device[j]] -= cost_of(j, *device[j]);
      if (problem_.group[j]) ++placed[*problem_.group[j]];
    }
    for (std::size_t g = 0; g < placed.size(); ++g) {
      struct Option {
        std::size_t job;
        std::size_t device;
        std::int64_t left;
      };
      std::vector<Option> options;
      for (std::size_t j = 0; j < device.size(); ++j) {
        if (placed[g] > 0 || problem_.group[j] != g) continue;
        for (std::size_t d = 0; d < devices_; ++d) {
          if (problem_.jobs[j][d]) options.push_back({j, d, room[d] - cost_of(j, d)});
        }
      }
      std::stable_sort(options.begin(), options.end(),
                       [](const Option& a, const Option& b) { return a.left > b.left; });
      for (const Option& option : options) {
        if (!make_room(option.device, cost_of(option.job, option.device), device, room, placed)) continue;
        device[option.job] = option.device;
        room[option.device] -= cost_of(option.job, option.device);
        ++placed[g];
        break;
      }
    }
    return covers_groups(problem_.group, device);
  }

  /// Removes the least profitable jobs that are not the only ones of their groups from a device until a cost fits.
  bool make_room(std::size_t d, std::int64_t cost, JobDevices& device, std::vector<std::int64_t>& room,
                 std::vector<int>& placed) const {
    std::vector<Candidate> spare;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j] == d) spare.push_back({j, cost_of(j, d), profit_of(j, d)});
    }
    std::sort(spare.begin(), spare.end(), better_ratio);
    while (room[d] < cost && !spare.empty()) {
      const std::size_t job = spare.back().job;
      spare.pop_back();
      const auto& group = problem_.group[job];
      if (group && placed[*group] == 1) continue;
      if (group) --placed[*group];
      device[job].reset();
      room[d] += cost_of(job, d);
    }
    return room[d] >= cost;
  }

  [[nodiscard]] Int128 price_of(std::size_t job) const { return multipliers_.of(problem_, job); }

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
        std::vector<Candidate> candidates;
        for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
          const auto& item = problem_.jobs[j][d];
          if (!item || device[j]) continue;
          const double profit = static_cast<double>(item->profit) * (1 + noise * normal(random));
          candidates.push_back({j, item->cost, static_cast<Int128>(profit) - price_of(j)});
        }
        for (const std::size_t job : knapsack_of(candidates, problem_.budgets[d], limits_).jobs) device[job] = d;
      }
      improve_from(std::move(device));
    }
  }

  [[nodiscard]] Int128 sum_of_prices() const {
    const auto sum = [](const std::vector<Int128>& all) { return std::accumulate(all.begin(), all.end(), Int128{0}); };
    return sum(multipliers_.price) - sum(multipliers_.bonus);
  }

  /// The jobs that a device can run, by profits less the prices.
  [[nodiscard]] std::vector<Candidate> priced_on(std::size_t d) const {
    std::vector<Candidate> candidates = problem_.candidates_on(d);
    for (Candidate& candidate : candidates) candidate.profit -= price_of(candidate.job);
    return candidates;
  }

  /// The best of one device without a job, by profits less the prices.
  [[nodiscard]] Int128 bound_without(std::size_t job, std::size_t d, std::int64_t budget) const {
    std::vector<Candidate> candidates = priced_on(d);
    std::erase_if(candidates, [job](const Candidate& candidate) { return candidate.job == job; });
    return knapsack_of(candidates, budget, limits_).bound;
  }

  /// Removes each place of a job, or its absence, with which the Lagrangian bound is no better than the best plan.
  /// Returns whether it removed one.
  bool reduce() {
    const Int128 prices = sum_of_prices();
    bool reduced = false;
    for (std::size_t j = 0; j < problem_.jobs.size() && !limits_.expired(); ++j) {
      auto& job = problem_.jobs[j];
      if (std::none_of(job.begin(), job.end(), [](const auto& item) { return item.has_value(); })) continue;
      std::vector<Int128> without(devices_);
      Int128 absent = prices - price_of(j);
      for (std::size_t d = 0; d < devices_; ++d) {
        without[d] = bound_without(j, d, problem_.budgets[d]);
        absent += without[d];
      }
      if (!needed_[j] && absent <= best_.profit) needed_[j] = reduced = true;
      for (std::size_t d = 0; d < devices_; ++d) {
        auto& item = job[d];
        if (!item) continue;
        const Int128 others = absent - without[d] + item->profit;
        if (others + bound_without(j, d, problem_.budgets[d] - item->cost) > best_.profit) continue;
        item.reset();
        reduced = true;
      }
    }
    return reduced;
  }

  /// The sum of the best profits of each device alone, less a price for each job plus a bonus for each group, plus all
  /// prices, less all bonuses: a bound for any prices and bonuses >= 0. Subgradient steps lower it. Every eighth
  /// solution, with each job on one device only, starts a plan.
  Int128 lagrangian_bound() {
    Multipliers best_multipliers = multipliers_;
    auto& [price, bonus] = multipliers_;
    std::optional<Int128> least;
    double pace = 1;
    int stale = 0;
    // 200 rounds come close to the lowest bound whatever the size.
    const int rounds = std::min(effort_.rounds, std::max(200, in_proportion(effort_.rounds)));
    for (int round = 0; round < rounds && pace > 1e-6 && !limits_.expired(); ++round) {
      Int128 bound = sum_of_prices();
      std::vector<int> uses(problem_.jobs.size());
      std::vector<int> placed(multipliers_.bonus.size());
      JobDevices device(problem_.jobs.size());
      for (std::size_t d = 0; d < devices_; ++d) {
        const Chosen chosen = knapsack_of(priced_on(d), problem_.budgets[d], limits_);
        bound += chosen.bound;
        for (const std::size_t job : chosen.jobs) {
          ++uses[job];
          if (problem_.group[job]) ++placed[*problem_.group[job]];
          if (!device[job] || profit_of(job, d) > profit_of(job, *device[job])) device[job] = d;
        }
      }
      if (!least || bound < *least) {
        least = bound;
        best_multipliers = multipliers_;
        stale = 0;
      } else if (++stale >= 10) {
        pace /= 2;
        stale = 0;
      }
      if (round % 8 == 0) improve_from(device);
      if (*least <= best_.profit) break;
      double norm = 0;
      for (std::size_t j = 0; j < uses.size(); ++j) {
        if (uses[j] > 1 || price[j] > 0) norm += (uses[j] - 1.0) * (uses[j] - 1.0);
      }
      for (std::size_t g = 0; g < placed.size(); ++g) {
        if (placed[g] == 0 || bonus[g] > 0) norm += (placed[g] - 1.0) * (placed[g] - 1.0);
      }
      if (norm == 0) break;
      const double length = pace * static_cast<double>(bound - best_.profit) / norm;
      for (std::size_t j = 0; j < uses.size(); ++j) {
        price[j] = std::max<Int128>(0, price[j] + static_cast<Int128>(length * (uses[j] - 1)));
      }
      for (std::size_t g = 0; g < placed.size(); ++g) {
        bonus[g] = std::max<Int128>(0, bonus[g] - static_cast<Int128>(length * (placed[g] - 1)));
      }
    }
    multipliers_ = std::move(best_multipliers);
    return std::min(least.value_or(max_profit()), max_profit());
  }

  [[nodiscard]] Int128 max_profit() const {
    Int128 sum = 0;
    for (const auto& job : problem_.jobs) {
      Int128 most = 0;
      for (const auto& item : job) most = std::max(most, item ? item->profit : 0);
      sum += most;
    }
    return sum;
  }

  WholeProblem problem_;
  const Limits& limits_;
  PlanEffort effort_;
  std::size_t devices_;
  bool alike_;
  Places best_;
  Int128 bound_ = 0;
  double cut_bound_ = std::numeric_limits<double>::infinity();
  Multipliers multipliers_;   // with the lowest Lagrangian bound; 0 if devices are alike
  std::vector<bool> needed_;  // of each job: no better plan lacks it
};

}  // namespace

Assignment assign_to_several(WholeProblem problem, const Limits& limits, const PlanEffort& effort) {
  return MultiDeviceSolver(std::move(problem), limits, effort).solve();
}

}  // namespace perfpred
