// SPDX-License-Identifier: Apache-2.0
#include "plan/devices/assignment_tree.h"

#include <algorithm>
#include <utility>

#include "plan/knapsack/linear_bound.h"

namespace perfpred {
namespace {

class AssignmentTree {
 public:
  AssignmentTree(const WholeProblem& problem, bool alike, const Multipliers& multipliers,
                 const std::vector<bool>& needed, Places& best, Int128 bound, std::int64_t max_nodes,
                 const Limits& limits)
      : problem_(problem),
        devices_(problem.budgets.size()),
        alike_(alike),
        needed_(needed),
        best_(best),
        bound_(bound),
        max_nodes_(max_nodes),
        limits_(limits),
        current_(problem.jobs.size()) {
    set_order();
    if (!alike_) set_prices(multipliers);
  }

  bool search() {
    descend(0, problem_.budgets, 0);
    return nodes_ < max_nodes_;
  }

 private:
  /// Jobs with one place left first, then by ratio.
  void set_order() {
    for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
      Candidate easiest{j, max_cost, 0};
      for (const auto& item : problem_.jobs[j]) {
        if (!item || (item->profit == 0 && !problem_.group[j])) continue;
        easiest.cost = std::min(easiest.cost, item->cost);
        easiest.profit = std::max(easiest.profit, item->profit);
      }
      if (easiest.cost < max_cost) order_.push_back(easiest);
    }
    std::sort(order_.begin(), order_.end(), better_ratio);
    std::stable_partition(order_.begin(), order_.end(), [&](const Candidate& candidate) {
      const auto& job = problem_.jobs[candidate.job];
      return needed_[candidate.job] && std::count(job.begin(), job.end(), std::nullopt) + 1 == std::ssize(job);
    });
  }

  void set_prices(const Multipliers& multipliers) {
    price_from_.assign(order_.size() + 1, 0);
    priced_.assign(devices_, {});
    for (std::size_t place = order_.size(); place-- > 0;) {
      const std::size_t job = order_[place].job;
      const Int128 price = multipliers.price[job];
      price_from_[place] = price_from_[place + 1] + price;
      for (std::size_t d = 0; d < devices_; ++d) {
        const auto& item = problem_.jobs[job][d];
        if (item && item->profit > price) priced_[d].push_back({place, item->cost, item->profit - price});
      }
    }
    for (std::vector<Candidate>& items : priced_) std::sort(items.begin(), items.end(), better_ratio);
  }

  /// What the jobs from this place of the order on may add at most.
  [[nodiscard]] Int128 max_gain_from(std::size_t depth, const std::vector<std::int64_t>& room) const {
    if (alike_) {
      Int128 left = 0;
      for (const std::int64_t one : room) left += one;
      return relaxed(order_.begin() + static_cast<std::ptrdiff_t>(depth), order_.end(), left, 0);
    }
    Int128 most = price_from_[depth];
    for (std::size_t d = 0; d < devices_; ++d) most += relaxed(priced_[d].begin(), priced_[d].end(), room[d], depth);
    return most;
  }

  /// Dantzig's bound over items in order of their ratios, without those of a job before `first`.
  [[nodiscard]] static Int128 relaxed(std::vector<Candidate>::const_iterator item,
                                      std::vector<Candidate>::const_iterator end, Int128 room, std::size_t first) {
    Int128 sum = 0;
    for (; item != end; ++item) {
      if (item->job < first) continue;
      if (item->cost > room) {
        return sum + knapsack::partial_profit(item->profit, static_cast<std::int64_t>(room), item->cost);
      }
      room -= item->cost;
      sum += item->profit;
    }
    return sum;
  }

  void descend(std::size_t depth, std::vector<std::int64_t> room, Int128 profit) {
    if (profit > best_.profit && covers_groups(problem_.group, current_)) best_ = {current_, profit};
    if (depth == order_.size() || best_.profit >= bound_) return;
    if (++nodes_ >= max_nodes_) return;
    if (nodes_ % 4096 == 0 && limits_.expired()) {
      nodes_ = max_nodes_;
      return;
    }
    if (profit + max_gain_from(depth, room) <= best_.profit) return;
    const std::size_t job = order_[depth].job;
    for (std::size_t d = 0; d < devices_; ++d) {
      const auto& item = problem_.jobs[job][d];
      if (!item || item->cost > room[d]) continue;
      // Of alike devices with equal room the first stands for all.
      const auto here = room.begin() + static_cast<std::ptrdiff_t>(d);
      if (alike_ && std::find(room.begin(), here, room[d]) != here) continue;
      room[d] -= item->cost;
      current_[job] = d;
      descend(depth + 1, room, profit + item->profit);
      current_[job].reset();
      room[d] += item->cost;
    }
    if (!needed_[job]) descend(depth + 1, std::move(room), profit);
  }

  const WholeProblem& problem_;
  std::size_t devices_;
  bool alike_;
  const std::vector<bool>& needed_;
  Places& best_;
  Int128 bound_;
  std::int64_t max_nodes_;
  const Limits& limits_;
  std::vector<Candidate> order_;
  std::vector<Int128> price_from_;              // sum of prices from a place of the order on
  std::vector<std::vector<Candidate>> priced_;  // by device: profit less price, with the place in the order as job
  JobDevices current_;
  std::int64_t nodes_ = 0;
};

}  // namespace

bool search_assignment_tree(const WholeProblem& problem, bool alike, const Multipliers& multipliers,
                            const std::vector<bool>& needed, Places& best, Int128 bound, std::int64_t max_nodes,
                            const Limits& limits) {
  return AssignmentTree(problem, alike, multipliers, needed, best, bound, max_nodes, limits).search();
}

}  // namespace perfpred
