// SPDX-License-Identifier: Apache-2.0
#include "plan/cover_solver.h"

#include <algorithm>
#include <map>

namespace perfpred {
namespace {

using knapsack::Limits;

/// Dynamic programming, group after group: partial plans that hold a job of each group so far and that no other beats
/// in both cost and profit. Dantzig's bound over the later groups prunes.
class CoverSolver {
 public:
  /// `group` is of each job that a candidate names. Profits are >= 0.
  CoverSolver(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget, const Limits& limits)
      : budget_(budget), limits_(limits) {
    std::map<std::size_t, std::size_t> place;
    groups_.emplace_back();  // of the jobs that cover nothing
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
      std::int64_t least = most_cost;
      for (const Candidate& candidate : groups_[g]) least = std::min(least, candidate.cost);
      required_[g] = saturated_sum(required_[g + 1], least);
    }
  }

  /// Empty if the budget does not hold a job of each group.
  std::optional<Chosen> solve() {
    if (required_[1] > budget_) return std::nullopt;
    start_greedily();
    best_.bound = knapsack_of(all(0), budget_, limits_).bound;
    if (best_.bound <= best_.profit) return best_;
    std::vector<State> states = {{0, 0, none}};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      states = after_group(states, g);
      if (gave_up_) return best_;
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
    std::uint32_t last;
  };
  struct Step {
    std::uint32_t before;
    std::uint32_t job;
  };

  [[nodiscard]] std::vector<Candidate> all(std::size_t first_group) const {
    std::vector<Candidate> candidates;
    for (std::size_t g = first_group; g < groups_.size(); ++g) {
      candidates.insert(candidates.end(), groups_[g].begin(), groups_[g].end());
    }
    return candidates;
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
    std::vector<Candidate> rest = all(0);
    std::erase_if(rest, [&](const Candidate& candidate) {
      return std::find(best_.jobs.begin(), best_.jobs.end(), candidate.job) != best_.jobs.end();
    });
    const Chosen more = knapsack_of(rest, room, limits_);
    best_.profit += more.profit;
    best_.jobs.insert(best_.jobs.end(), more.jobs.begin(), more.jobs.end());
  }

  std::vector<State> after_group(const std::vector<State>& before, std::size_t g) {
    // The jobs that come later, best ratio first, with running sums: Dantzig's bound of any room by bisection.
    std::vector<Candidate> later = all(g + 1);
    std::sort(later.begin(), later.end(), better_ratio);
    std::vector<Int128> costs = {0};
    std::vector<Int128> profits = {0};
    for (const Candidate& candidate : later) {
      costs.push_back(costs.back() + candidate.cost);
      profits.push_back(profits.back() + candidate.profit);
    }
    const auto hopeless = [&](const State& state) {
      const std::int64_t room = budget_ - state.cost;
      if (room < required_[g + 1]) return true;
      const auto full =
          static_cast<std::size_t>(std::upper_bound(costs.begin(), costs.end(), Int128{room}) - costs.begin() - 1);
      Int128 bound = state.profit + profits[full];
      if (full < later.size()) {
        // A part of the profit, in long double with room for its rounding; profits are whole, so the bound is, too.
        const auto part = static_cast<long double>(room - costs[full]) / static_cast<long double>(later[full].cost);
        bound += static_cast<Int128>(static_cast<long double>(later[full].profit) * part * (1 + 1e-15L));
      }
      return bound <= best_.profit;
    };
    std::vector<State> with = g == 0 ? before : std::vector<State>();
    std::vector<State> fresh;
    std::vector<State> merged;
    for (const Candidate& candidate : groups_[g]) {
      const auto extend = [&](const std::vector<State>& from) {
        std::vector<State> extended;
        for (const State& state : from) {
          if (state.cost > budget_ - candidate.cost) break;
          const State next{state.cost + candidate.cost, state.profit + candidate.profit, state.last};
          if (budget_ - next.cost < required_[g + 1]) break;
          steps_.push_back({state.last, static_cast<std::uint32_t>(candidate.job)});
          extended.push_back({next.cost, next.profit, static_cast<std::uint32_t>(steps_.size() - 1)});
        }
        return extended;
      };
      fresh = extend(with);
      with = undominated(with, fresh);
      if (g > 0) {
        // The first of its group.
        fresh = extend(before);
        with = undominated(with, fresh);
      }
      constexpr std::size_t most_steps = 40'000'000;
      if (steps_.size() > most_steps || limits_.expired()) {
        gave_up_ = true;
        return with;
      }
    }
    std::erase_if(with, hopeless);
    return with;
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
  std::vector<std::int64_t> required_;
  std::vector<Step> steps_;
  Chosen best_;
  bool gave_up_ = false;
};

}  // namespace

std::optional<Chosen> solve_cover(std::span<const Candidate> candidates, const JobGroups& group, std::int64_t budget,
                                  const knapsack::Limits& limits) {
  return CoverSolver(candidates, group, budget, limits).solve();
}

}  // namespace perfpred
