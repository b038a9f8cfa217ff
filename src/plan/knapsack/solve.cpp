// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack/solve.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "plan/knapsack/core_solver.h"
#include "plan/knapsack/linear_bound.h"
#include "plan/knapsack/surrogate_dual.h"

namespace perfpred::knapsack {
namespace {

/// Work that each method gets before the next one is tried. In states of the dynamic program, or nodes of the tree.
constexpr std::uint64_t first_states_per_item = 4;
constexpr std::uint64_t first_states = 5000;
constexpr std::size_t small_core = 64;  // items
constexpr std::uint64_t small_core_nodes = 100'000;
constexpr std::uint64_t second_states = 300'000;
constexpr std::size_t medium_core = 1000;
constexpr std::uint64_t medium_core_nodes = 2'000'000;
constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();

/// Depth first over items in order of their ratios with Dantzig's bound: faster than dynamic programming where few
/// items have many different sums.
template <class P>
class DepthFirst {
 public:
  DepthFirst(const Problem<P>& problem, Incumbent<P>& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit) {
    std::sort(items_.begin(), items_.end(), [](const Item<P>& a, const Item<P>& b) {
      return compare_ratios(a.profit, a.weight, b.profit, b.weight) > 0;
    });
    for (const Item<P>& item : items_) linear_.add(item.profit, item.weight);
    lightest_.assign(items_.size() + 1, std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = items_.size(); i-- > 0;) lightest_[i] = std::min(lightest_[i + 1], items_[i].weight);
  }

  /// @returns whether the incumbent is proved
  bool run(std::uint64_t max_nodes) {
    nodes_left_ = max_nodes;
    descend(0, problem_.capacity, 0);
    return nodes_left_ != 0;
  }

 private:
  void descend(std::size_t at, std::int64_t room, const P& profit) {
    while (nodes_left_ != 0) {
      if (--nodes_left_ % 4096 == 0 && limits_.expired()) nodes_left_ = 0;
      const auto filled = linear_.fill(at, room);
      if (profit + filled.profit > best_) keep(at, filled.end, profit + filled.profit);
      if (filled.end == items_.size() || room < lightest_[at]) return;
      if (profit + linear_.bound(filled) <= best_) return;
      const Item<P>& item = items_[at];
      if (item.weight <= room) {
        taken_.push_back(item.index);
        descend(at + 1, room - item.weight, profit + item.profit);
        taken_.pop_back();
      }
      ++at;
    }
  }

  void keep(std::size_t at, std::size_t end, const P& profit) {
    best_ = profit;
    incumbent_.profit = profit + problem_.fixed_profit;
    incumbent_.chosen = problem_.fixed;
    incumbent_.chosen.insert(incumbent_.chosen.end(), taken_.begin(), taken_.end());
    for (std::size_t i = at; i < end; ++i) incumbent_.chosen.push_back(items_[i].index);
  }

  const Problem<P>& problem_;
  std::vector<Item<P>> items_;
  Incumbent<P>& incumbent_;
  const Limits& limits_;
  P best_;  // incumbent without the fixed part
  LinearBound<P> linear_;
  std::vector<std::int64_t> lightest_;  // from an item on
  std::vector<std::uint32_t> taken_;
  std::uint64_t nodes_left_ = 0;
};

/// Counts units where every profit is the weight plus a small multiple of one number: a solution that holds at most k
/// of these multiples is worth at most the capacity plus k of that number. Elsewhere each item is one unit.
template <class P>
void count_units(std::vector<Item<P>>& items) {
  constexpr int max_units = 64;
  P divisor = 0;
  P largest = 0;
  for (const Item<P>& item : items) {
    const P excess = item.profit - P(item.weight);
    if (excess < 0) return;
    largest = std::max(largest, excess);
    divisor = common_divisor(divisor, excess);
    if (divisor == 1) return;
  }
  if (divisor == 0 || divisor * max_units < largest) return;
  for (Item<P>& item : items) item.units = static_cast<std::int32_t>((item.profit - P(item.weight)) / divisor);
}

/// The two halves of a problem: at most, and at least, about as many units as its linear relaxation holds, with shifts
/// that make their bounds low. Halves whose bound is no better than the incumbent are left out; `bound` is that of the
/// others. Empty too if the weights are too large to be shifted; then `tried` is false.
template <class P>
struct Branches {
  Branches(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits) : bound(incumbent.profit) {
    constexpr Int128 max_total_weight = Int128{1} << 50U;
    Int128 total_weight = 0;
    for (const Item<P>& item : problem.items) total_weight += item.weight;
    tried = total_weight < max_total_weight;
    if (!tried) return;
    count_units(problem.items);
    SurrogateDual dual(problem);
    const std::int64_t held = dual.relaxed_units();
    for (const int sign : {1, -1}) {
      Problem<P> half = problem;
      half.cardinality = sign > 0 ? held : held + 1;
      if (half.cardinality > dual.units()) continue;
      half.shift = dual.best_shift(half.cardinality, sign);
      const P root = CoreSolver<P>(half, incumbent, limits).root_bound();
      if (root <= incumbent.profit) continue;
      bound = std::max(bound, root);
      halves.push_back(std::move(half));
    }
  }

  bool tried = false;
  std::vector<Problem<P>> halves;
  P bound;
};

}  // namespace

template <class P>
P solve(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits) {
  Int128 total_weight = 0;
  for (const Item<P>& item : problem.items) total_weight += item.weight;
  if (total_weight <= problem.capacity) {
    for (const Item<P>& item : problem.items) {
      incumbent.profit += item.profit;
      incumbent.chosen.push_back(item.index);
    }
    return incumbent.profit;
  }
  auto plain = std::make_unique<CoreSolver<P>>(problem, incumbent, limits);
  const Progress progress = plain->run(first_states_per_item * problem.items.size() + first_states);
  if (progress == Progress::solved) return incumbent.profit;
  const P plain_bound = plain->upper_bound();
  if (progress == Progress::stopped) return plain_bound;

  // Dynamic programming alone is heading for many states.
  const Problem<P> rest = plain->reduced();
  const auto solved_depth_first = [&](std::size_t max_items, std::uint64_t max_nodes) {
    if constexpr (std::is_same_v<P, Wide>) {
      return false;  // its bounds are long doubles, which do not hold such profits
    } else {
      return rest.items.size() <= max_items && DepthFirst<P>(rest, incumbent, limits).run(max_nodes);
    }
  };
  if (solved_depth_first(small_core, small_core_nodes)) return incumbent.profit;

  Branches<P> branches(rest, incumbent, limits);
  if (branches.tried && branches.halves.empty()) return incumbent.profit;
  const P gap = plain_bound - incumbent.profit;
  std::vector<std::unique_ptr<CoreSolver<P>>> searches;
  if (branches.halves.empty() || branches.bound - incumbent.profit > gap - (gap >> 3)) {
    searches.push_back(std::move(plain));
  } else {
    plain.reset();
    for (Problem<P>& half : branches.halves) {
      searches.push_back(std::make_unique<CoreSolver<P>>(half, incumbent, limits));
    }
  }
  std::erase_if(searches, [](const auto& search) { return search->run(second_states) == Progress::solved; });
  if (!searches.empty() && solved_depth_first(medium_core, medium_core_nodes)) return incumbent.profit;
  P bound = incumbent.profit;
  for (auto& search : searches) {
    if (search->run(no_limit) != Progress::solved) bound = std::max<P>(bound, search->upper_bound());
    search.reset();
    bound = std::max<P>(bound, incumbent.profit);
  }
  return std::min<P>(bound, plain_bound);
}

template std::int64_t solve(Problem<std::int64_t>, Incumbent<std::int64_t>&, const Limits&);
template Int128 solve(Problem<Int128>, Incumbent<Int128>&, const Limits&);
template Wide solve(Problem<Wide>, Incumbent<Wide>&, const Limits&);

}  // namespace perfpred::knapsack
