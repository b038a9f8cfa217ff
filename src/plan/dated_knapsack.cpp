// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "plan/dated.h"

namespace perfpred {
namespace {

class AgreeableSolver {
 public:
  AgreeableSolver(std::span<const DatedCandidate> candidates, Int128 least, const Limits& limits)
      : jobs_(candidates.begin(), candidates.end()), least_(least), limits_(limits) {
    std::sort(jobs_.begin(), jobs_.end(), [](const DatedCandidate& a, const DatedCandidate& b) {
      return std::tie(a.window.deadline, a.window.earliest, a.item.job) <
             std::tie(b.window.deadline, b.window.earliest, b.item.job);
    });
    for (const DatedCandidate& job : jobs_) last_ = std::max(last_, job.window.deadline);
  }

  std::optional<Chosen> solve() {
    std::vector<State> states = {{0, 0, none}};
    constexpr std::size_t first_pruning = 256;
    std::size_t prune_at = first_pruning;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (limits_.expired() || memory_of_step(states.size()) > limits_.memory_bytes ||
          steps_.size() + states.size() >= none) {
        return std::nullopt;
      }
      const std::vector<State> longer = extended(states, i);
      states = jobs_[i].must ? longer : undominated(states, longer);
      if (states.size() < prune_at) continue;
      prune(states, i + 1);
      prune_at = std::max(first_pruning, 2 * states.size());
    }
    Chosen best{{}, least_, least_};
    if (states.empty() || states.back().profit <= least_) return best;
    best.profit = best.bound = states.back().profit;
    for (std::uint32_t at = states.back().last; at != none; at = steps_[at].before) best.jobs.push_back(steps_[at].job);
    return best;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct State {
    std::int64_t end;
    Int128 profit;
    std::uint32_t last;  // the step that led here
  };
  struct Step {
    std::uint32_t before;
    std::uint32_t job;
  };

  /// An upper bound on the bytes in use while a job is added. A vector of steps that grows is copied.
  [[nodiscard]] std::size_t memory_of_step(std::size_t states) const {
    return 7 * states * sizeof(State) + 3 * (steps_.size() + states) * sizeof(Step);
  }

  /// Ends stay in order, though several may wait for the job's earliest time.
  std::vector<State> extended(const std::vector<State>& from, std::size_t i) {
    const DatedCandidate& job = jobs_[i];
    std::vector<State> states;
    for (const State& state : from) {
      const std::int64_t start = std::max(state.end, job.window.earliest);
      if (start > job.window.deadline - job.item.cost) break;
      const State next{start + job.item.cost, state.profit + job.item.profit,
                       static_cast<std::uint32_t>(steps_.size())};
      if (!states.empty() && states.back().end == next.end) states.pop_back();  // less profit: states ascend in both
      states.push_back(next);
      steps_.push_back({state.last, static_cast<std::uint32_t>(job.item.job)});
    }
    return states;
  }

  static std::vector<State> undominated(const std::vector<State>& a, const std::vector<State>& b) {
    std::vector<State> all;
    all.reserve(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
               [](const State& x, const State& y) { return x.end != y.end ? x.end < y.end : x.profit > y.profit; });
    std::vector<State> kept;
    for (const State& state : all) {
      if (kept.empty() || state.profit > kept.back().profit) kept.push_back(state);
    }
    return kept;
  }

  /// Drops the states that no choice of the jobs from `first` on makes better than what is known.
  void prune(std::vector<State>& states, std::size_t first) const {
    std::vector<Candidate> later;
    std::int64_t begin = last_;
    for (std::size_t i = first; i < jobs_.size(); ++i) {
      later.push_back(jobs_[i].item);
      begin = std::min(begin, jobs_[i].window.earliest);
    }
    std::sort(later.begin(), later.end(), better_ratio);
    std::vector<Int128> costs = {0};
    std::vector<Int128> profits = {0};
    for (const Candidate& job : later) {
      costs.push_back(costs.back() + job.cost);
      profits.push_back(profits.back() + job.profit);
    }
    std::erase_if(states, [&](const State& state) {
      const Int128 room = last_ - std::min(last_, std::max(state.end, begin));
      const auto end = static_cast<std::size_t>(std::upper_bound(costs.begin(), costs.end(), room) - costs.begin() - 1);
      Int128 bound = state.profit + profits[end];
      if (end < later.size()) bound += share_of(later[end], static_cast<std::int64_t>(room - costs[end]));
      return bound <= least_;
    });
  }

  std::vector<DatedCandidate> jobs_;
  Int128 least_;
  const Limits& limits_;
  std::int64_t last_ = 0;
  std::vector<Step> steps_;
};

/// At most so many of the values, the first and the last among them.
std::vector<std::int64_t> some_of(std::vector<std::int64_t> values, std::size_t most) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() <= most) return values;
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return some;
}

}  // namespace

std::optional<Chosen> solve_agreeable(std::span<const DatedCandidate> candidates, Int128 least, const Limits& limits) {
  return AgreeableSolver(candidates, least, limits).solve();
}

WindowRoom::WindowRoom(std::span<const DatedCandidate> candidates) {
  constexpr std::size_t most = 24;  // the table is read for every job of every node
  for (const DatedCandidate& one : candidates) {
    earliest_.push_back(one.window.earliest);
    deadline_.push_back(one.window.deadline);
  }
  earliest_ = some_of(std::move(earliest_), most);
  deadline_ = some_of(std::move(deadline_), most);
  for (const std::int64_t from : earliest_) {
    for (const std::int64_t to : deadline_) left_.push_back(std::max<std::int64_t>(0, to - from));
  }
}

WindowRoom::Place WindowRoom::place_of(const TimeWindow& window) const {
  const auto after = std::upper_bound(earliest_.begin(), earliest_.end(), window.earliest);
  const auto at = std::lower_bound(deadline_.begin(), deadline_.end(), window.deadline);
  return {static_cast<std::size_t>(after - earliest_.begin()) - 1, static_cast<std::size_t>(at - deadline_.begin())};
}

std::int64_t WindowRoom::room(const Place& place) const {
  std::int64_t least = max_cost;
  for (std::size_t a = 0; a <= place.earliest; ++a) {
    for (std::size_t b = place.deadline; b < deadline_.size(); ++b)
      least = std::min(least, left_[a * deadline_.size() + b]);
  }
  return std::max<std::int64_t>(0, least);
}

void WindowRoom::take(const Place& place, std::int64_t sec) {
  for (std::size_t a = 0; a <= place.earliest; ++a) {
    for (std::size_t b = place.deadline; b < deadline_.size(); ++b) left_[a * deadline_.size() + b] -= sec;
  }
}

}  // namespace perfpred
