// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "plan/assignment.h"
#include "plan/partial_plans.h"

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
    std::vector<PartialPlan> before;  // a job of each earlier group, but none of this one
    std::vector<PartialPlan> with = {{0, 0, PlanSteps::none}};
    constexpr std::size_t first_pruning = 1000;
    std::size_t prune_at = first_pruning;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (begins_group(i)) {
        before = std::move(with);
        with.clear();
      }
      if (limits_.expired() || memory_of_step(before.size(), with.size()) > limits_.memory_bytes ||
          !steps_.has_room_for(before.size() + with.size())) {
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
      best_.jobs = steps_.jobs_of(with.back().last);
    }
    best_.bound = best_.profit;
    return best_;
  }

 private:
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

  /// An upper bound on the bytes in use while a job is added.
  [[nodiscard]] std::size_t memory_of_step(std::size_t before, std::size_t with) const {
    return (2 * before + 5 * with) * sizeof(PartialPlan) + steps_.memory_with(before + with);
  }

  std::vector<PartialPlan> extended(const std::vector<PartialPlan>& from, std::size_t i) {
    std::size_t next = i + 1;  // the next group's first job
    while (next < jobs_.size() && !begins_group(next)) ++next;
    std::vector<PartialPlan> states;
    for (const PartialPlan& state : from) {
      if (state.sec > budget_ - jobs_[i].cost - required_[next]) break;
      states.push_back(
          {state.sec + jobs_[i].cost, state.profit + jobs_[i].profit, steps_.add(state.last, jobs_[i].job)});
    }
    return states;
  }

  /// Drops the states that no choice of the jobs from `first` on makes better than the best plan.
  void prune(std::vector<PartialPlan>& states, std::size_t first) const {
    const LaterJobs later({jobs_.begin() + static_cast<std::ptrdiff_t>(first), jobs_.end()});
    std::erase_if(states, [&](const PartialPlan& state) {
      return state.profit + later.most_in(budget_ - state.sec) <= best_.profit;
    });
  }

  std::int64_t budget_;
  const Limits& limits_;
  std::vector<Candidate> jobs_;
  const JobGroups& group_;
  std::vector<std::int64_t> required_;  // cost of the cheapest jobs of the groups that begin at a job or later
  PlanSteps steps_;
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
