// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include "plan/assignment.h"

namespace perfpred {
namespace {

/// Dynamic programming, group after group, over partial plans that hold a job of each group so far. Plans that another
/// one dominates in cost and profit are dropped; Dantzig's bound on the jobs to come prunes.
class CoverSolver {
 public:
  CoverSolver(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget, const Limits& limits)
      : budget_(budget), limits_(limits), jobs_(candidates.begin(), candidates.end()), group_(group) {
    // Jobs of a group stand together, those without a group first.
    std::stable_sort(jobs_.begin(), jobs_.end(), [&](const Candidate& a, const Candidate& b) {
      return group_[a.job] != group_[b.job] ? group_[a.job] < group_[b.job] : a.cost < b.cost;
    });
    required_.assign(jobs_.size() + 1, 0);
    for (std::size_t i = jobs_.size(); i-- > 0;) {
      required_[i] = saturated_sum(required_[i + 1], begins_group(i) ? jobs_[i].cost : 0);
    }
  }

  std::optional<Chosen> solve() {
    if (required_[0] > budget_) return std::nullopt;
    start_greedily();
    best_.bound = solve_knapsack(jobs_, budget_, limits_).bound;
    if (best_.bound <= best_.profit) return best_;
    std::vector<State> before;  // a job of each earlier group, but none of this one
    std::vector<State> with = {{0, 0, none}};
    constexpr std::size_t first_pruning = 1000;
    std::size_t prune_at = first_pruning;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (begins_group(i)) {
        before = std::move(with);
        with.clear();
      }
      if (limits_.expired() || memory_of_step(before.size(), with.size()) > limits_.memory_bytes ||
          steps_.size() + before.size() + with.size() >= none) {
        return best_;
      }
      with = undominated(with, extended(with, i));
      with = undominated(with, extended(before, i));
      if (with.size() < prune_at && i + 1 < jobs_.size() && !begins_group(i + 1)) continue;
      prune(with, i + 1);
      prune_at = std::max(first_pruning, 2 * with.size());
    }
    if (!with.empty() && with.back().profit > best_.profit) {
      best_.profit = with.back().profit;
      best_.jobs.clear();
      for (std::uint32_t at = with.back().last; at != none; at = steps_[at].before)
        best_.jobs.push_back(steps_[at].job);
    }
    best_.bound = best_.profit;
    return best_;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct State {
    std::int64_t cost;
    Int128 profit;
    std::uint32_t last;  // the step that led here
  };
  struct Step {
    std::uint32_t before;
    std::uint32_t job;
  };

  [[nodiscard]] bool begins_group(std::size_t i) const {
    return group_[jobs_[i].job] && (i == 0 || group_[jobs_[i].job] != group_[jobs_[i - 1].job]);
  }

  /// The cheapest job of each group, then the best of the rest.
  void start_greedily() {
    std::vector<Candidate> rest;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (begins_group(i)) {
        best_.jobs.push_back(jobs_[i].job);
        best_.profit += jobs_[i].profit;
      } else {
        rest.push_back(jobs_[i]);
      }
    }
    const Chosen more = solve_knapsack(rest, budget_ - required_[0], limits_);
    best_.profit += more.profit;
    best_.jobs.insert(best_.jobs.end(), more.jobs.begin(), more.jobs.end());
  }

  /// An upper bound on the bytes in use while a job is added. A vector of steps that grows is copied.
  [[nodiscard]] std::size_t memory_of_step(std::size_t before, std::size_t with) const {
    return (2 * before + 5 * with) * sizeof(State) + 3 * (steps_.size() + before + with) * sizeof(Step);
  }

  std::vector<State> extended(const std::vector<State>& from, std::size_t i) {
    std::size_t next = i + 1;  // the next group's first job
    while (next < jobs_.size() && !begins_group(next)) ++next;
    std::vector<State> states;
    for (const State& state : from) {
      if (state.cost > budget_ - jobs_[i].cost - required_[next]) break;
      steps_.push_back({state.last, static_cast<std::uint32_t>(jobs_[i].job)});
      states.push_back(
          {state.cost + jobs_[i].cost, state.profit + jobs_[i].profit, static_cast<std::uint32_t>(steps_.size() - 1)});
    }
    return states;
  }

  /// Drops the states that no choice of the jobs from `first` on makes better than the best plan.
  void prune(std::vector<State>& states, std::size_t first) const {
    std::vector<Candidate> later(jobs_.begin() + static_cast<std::ptrdiff_t>(first), jobs_.end());
    std::sort(later.begin(), later.end(), better_ratio);
    std::vector<Int128> costs = {0};
    std::vector<Int128> profits = {0};
    for (const Candidate& job : later) {
      costs.push_back(costs.back() + job.cost);
      profits.push_back(profits.back() + job.profit);
    }
    std::erase_if(states, [&](const State& state) {
      const Int128 room = budget_ - state.cost;
      const auto end = static_cast<std::size_t>(std::upper_bound(costs.begin(), costs.end(), room) - costs.begin() - 1);
      Int128 bound = state.profit + profits[end];
      if (end < later.size()) bound += share_of(later[end], static_cast<std::int64_t>(room - costs[end]));
      return bound <= best_.profit;
    });
  }

  static std::vector<State> undominated(const std::vector<State>& a, const std::vector<State>& b) {
    std::vector<State> all;
    all.reserve(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
               [](const State& x, const State& y) { return x.cost != y.cost ? x.cost < y.cost : x.profit > y.profit; });
    std::vector<State> kept;
    for (const State& state : all) {
      if (kept.empty() || state.profit > kept.back().profit) kept.push_back(state);
    }
    return kept;
  }

  std::int64_t budget_;
  const Limits& limits_;
  std::vector<Candidate> jobs_;
  const JobGroups& group_;
  std::vector<std::int64_t> required_;  // cost of the cheapest jobs of the groups that begin at a job or later
  std::vector<Step> steps_;
  Chosen best_;
};

}  // namespace

std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget,
                                  const Limits& limits) {
  std::map<std::size_t, int> members, open;
  for (const Candidate& candidate : candidates) {
    if (group[candidate.job]) ++members[*group[candidate.job]];
  }
  open = members;
  const Chosen free = solve_knapsack(candidates, budget, limits);
  for (const std::size_t job : free.jobs) {
    if (group[job]) open.erase(*group[job]);
  }
  if (open.empty()) return free;
  // The only candidate of a group is chosen.
  Chosen only;
  std::vector<Candidate> rest;
  for (const Candidate& candidate : candidates) {
    if (!group[candidate.job] || members[*group[candidate.job]] > 1) {
      rest.push_back(candidate);
      continue;
    }
    if (candidate.cost > budget) return std::nullopt;
    budget -= candidate.cost;
    only.profit += candidate.profit;
    only.jobs.push_back(candidate.job);
  }
  const bool covers = only.jobs.size() < members.size();
  auto chosen = covers ? CoverSolver(rest, group, budget, limits).solve() : solve_knapsack(rest, budget, limits);
  if (!chosen) return chosen;
  chosen->profit += only.profit;
  chosen->bound += only.profit;
  chosen->jobs.insert(chosen->jobs.end(), only.jobs.begin(), only.jobs.end());
  return chosen;
}

}  // namespace perfpred
