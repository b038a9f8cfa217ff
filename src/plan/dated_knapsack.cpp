// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <utility>

#include "plan/dated.h"
#include "plan/partial_plans.h"

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
    std::vector<PartialPlan> states = {{0, 0, PlanSteps::none}};
    constexpr std::size_t first_pruning = 256;
    std::size_t prune_at = first_pruning;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (limits_.expired() || memory_of_step(states.size()) > limits_.memory_bytes ||
          !steps_.has_room_for(states.size())) {
        return std::nullopt;
      }
      const std::vector<PartialPlan> longer = extended(states, i);
      states = jobs_[i].must ? longer : undominated(states, longer);
      if (states.size() < prune_at) continue;
      prune(states, i + 1);
      prune_at = std::max(first_pruning, 2 * states.size());
    }
    Chosen best{{}, least_, least_};
    if (states.empty() || states.back().profit <= least_) return best;
    best.profit = best.bound = states.back().profit;
    best.jobs = steps_.jobs_of(states.back().last);
    return best;
  }

 private:
  /// An upper bound on the bytes in use while a job is added.
  [[nodiscard]] std::size_t memory_of_step(std::size_t states) const {
    return 7 * states * sizeof(PartialPlan) + steps_.memory_with(states);
  }

  /// Ends stay in order, though several may wait for the job's earliest time.
  std::vector<PartialPlan> extended(const std::vector<PartialPlan>& from, std::size_t i) {
    const DatedCandidate& job = jobs_[i];
    std::vector<PartialPlan> states;
    for (const PartialPlan& state : from) {
      const std::int64_t start = std::max(state.sec, job.window.earliest);
      if (start > job.window.deadline - job.item.cost) break;
      const PartialPlan next{start + job.item.cost, state.profit + job.item.profit,
                             steps_.add(state.last, job.item.job)};
      if (!states.empty() && states.back().sec == next.sec) states.pop_back();  // less profit: states ascend in both
      states.push_back(next);
    }
    return states;
  }

  /// Drops the states that no choice of the jobs from `first` on makes better than what is known.
  void prune(std::vector<PartialPlan>& states, std::size_t first) const {
    std::vector<Candidate> items;
    std::int64_t begin = last_;
    for (std::size_t i = first; i < jobs_.size(); ++i) {
      items.push_back(jobs_[i].item);
      begin = std::min(begin, jobs_[i].window.earliest);
    }
    const LaterJobs later(std::move(items));
    std::erase_if(states, [&](const PartialPlan& state) {
      const Int128 room = last_ - std::min(last_, std::max(state.sec, begin));
      return state.profit + later.most_in(room) <= least_;
    });
  }

  std::vector<DatedCandidate> jobs_;
  Int128 least_;
  const Limits& limits_;
  std::int64_t last_ = 0;
  PlanSteps steps_;
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
