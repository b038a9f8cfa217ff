// SPDX-License-Identifier: Apache-2.0
#include "plan/cover_solver.h"

#include <algorithm>
#include <limits>
#include <map>

#include "plan/knapsack/linear_bound.h"

namespace perfpred {
namespace {

/// Dynamic programming, group after group, over partial plans that hold a job of each group so far. Plans that another
/// one dominates in cost and profit are dropped; Dantzig's bound on the jobs to come prunes.
class CoverSolver {
 public:
  CoverSolver(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget, const Limits& limits)
      : budget_(budget), limits_(limits) {
    std::map<std::size_t, std::size_t> place;
    groups_.emplace_back();  // of the jobs without a group
    for (const Candidate& candidate : candidates) {
      std::size_t index = 0;
      if (group[candidate.job]) {
        index = place.emplace(*group[candidate.job], groups_.size()).first->second;
        if (index == groups_.size()) groups_.emplace_back();
      }
      groups_[index].push_back(candidate);
    }
    required_.assign(groups_.size() + 1, 0);
    for (std::size_t g = groups_.size(); g-- > 1;) {
      std::int64_t least = max_cost;
      for (const Candidate& candidate : groups_[g]) least = std::min(least, candidate.cost);
      required_[g] = saturated_sum(required_[g + 1], least);
    }
  }

  std::optional<Chosen> solve() {
    if (required_[1] > budget_) return std::nullopt;
    start_greedily();
    best_.bound = knapsack_of(jobs_from(0, 0), budget_, limits_).bound;
    if (best_.bound <= best_.profit) return best_;
    std::vector<State> states = {{0, 0, none}};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      auto next = after_group(states, g);
      if (!next) return best_;
      states = *std::move(next);
    }
    for (const State& state : states) {
      if (state.profit <= best_.profit) continue;
      best_.profit = state.profit;
      best_.jobs.clear();
      for (std::uint32_t at = state.last; at != none; at = steps_[at].before) best_.jobs.push_back(steps_[at].job);
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

  /// The jobs of group g from one of its candidates on, and those of all later groups.
  [[nodiscard]] std::vector<Candidate> jobs_from(std::size_t g, std::size_t candidate) const {
    std::vector<Candidate> jobs(groups_[g].begin() + static_cast<std::ptrdiff_t>(candidate), groups_[g].end());
    while (++g < groups_.size()) jobs.insert(jobs.end(), groups_[g].begin(), groups_[g].end());
    return jobs;
  }

  /// The cheapest job of each group, then the best of the rest.
  void start_greedily() {
    std::int64_t room = budget_;
    for (std::size_t g = 1; g < groups_.size(); ++g) {
      const Candidate& cheapest = *std::min_element(
          groups_[g].begin(), groups_[g].end(), [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
      best_.jobs.push_back(cheapest.job);
      best_.profit += cheapest.profit;
      room -= cheapest.cost;
    }
    std::vector<Candidate> rest = jobs_from(0, 0);
    std::erase_if(rest, [&](const Candidate& candidate) {
      return std::find(best_.jobs.begin(), best_.jobs.end(), candidate.job) != best_.jobs.end();
    });
    const Chosen more = knapsack_of(rest, room, limits_);
    best_.profit += more.profit;
    best_.jobs.insert(best_.jobs.end(), more.jobs.begin(), more.jobs.end());
  }

  /// Empty if a limit is met.
  std::optional<std::vector<State>> after_group(const std::vector<State>& before, std::size_t g) {
    std::vector<State> with = g == 0 ? before : std::vector<State>();  // those that hold a job of this group
    constexpr std::size_t first_pruning = 1000;
    std::size_t prune_at = first_pruning;
    for (std::size_t c = 0; c < groups_[g].size(); ++c) {
      if (limits_.expired() || memory_of_step(before.size(), with.size()) > limits_.memory_bytes ||
          steps_.size() + before.size() + with.size() >= none) {
        return std::nullopt;
      }
      with = undominated(with, extended(with, groups_[g][c], g));
      if (g > 0) with = undominated(with, extended(before, groups_[g][c], g));
      if (with.size() < prune_at) continue;
      prune(with, g, c + 1);
      prune_at = std::max(first_pruning, 2 * with.size());
    }
    prune(with, g, groups_[g].size());
    return with;
  }

  /// An upper bound on the bytes in use while a job is added. A vector of steps that grows is copied.
  [[nodiscard]] std::size_t memory_of_step(std::size_t before, std::size_t with) const {
    return (2 * before + 5 * with) * sizeof(State) + 3 * (steps_.size() + before + with) * sizeof(Step);
  }

  std::vector<State> extended(const std::vector<State>& from, const Candidate& candidate, std::size_t g) {
    std::vector<State> states;
    for (const State& state : from) {
      if (state.cost > budget_ - candidate.cost - required_[g + 1]) break;
      steps_.push_back({state.last, static_cast<std::uint32_t>(candidate.job)});
      states.push_back({state.cost + candidate.cost, state.profit + candidate.profit,
                        static_cast<std::uint32_t>(steps_.size() - 1)});
    }
    return states;
  }

  /// Drops the states that no choice of the jobs to come makes better than the best plan.
  void prune(std::vector<State>& states, std::size_t g, std::size_t candidate) const {
    std::vector<Candidate> later = jobs_from(g, candidate);
    std::sort(later.begin(), later.end(), better_ratio);
    knapsack::LinearBound<Int128> linear;
    for (const Candidate& job : later) linear.add(job.profit, job.cost);
    std::erase_if(states, [&](const State& state) {
      return state.profit + linear.bound(linear.fill(0, budget_ - state.cost)) <= best_.profit;
    });
  }

  static std::vector<State> undominated(const std::vector<State>& a, const std::vector<State>& b) {
    std::vector<State> merged;
    merged.reserve(a.size() + b.size());
    std::size_t i = 0;
    std::size_t k = 0;
    while (i < a.size() || k < b.size()) {
      const bool first =
          k == b.size() ||
          (i < a.size() && (a[i].cost != b[k].cost ? a[i].cost < b[k].cost : a[i].profit >= b[k].profit));
      const State& state = first ? a[i++] : b[k++];
      if (merged.empty() || state.profit > merged.back().profit) merged.push_back(state);
    }
    return merged;
  }

  std::int64_t budget_;
  const Limits& limits_;
  std::vector<std::vector<Candidate>> groups_;
  std::vector<std::int64_t> required_;  // cost of the cheapest jobs of this group and all later ones
  std::vector<Step> steps_;
  Chosen best_;
};

}  // namespace

std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget,
                                  const Limits& limits) {
  return CoverSolver(candidates, group, budget, limits).solve();
}

}  // namespace perfpred
