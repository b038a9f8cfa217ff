// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack.h"

#include <algorithm>
#include <list>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "plan/knapsack_core.h"

namespace perfpred {
namespace {

using namespace knapsack;

/// Depth first over items in order of their keys with Dantzig's bound: faster than dynamic programming where few items
/// have many different sums. Keys are those without a shift.
template <class P>
class DepthFirst {
 public:
  DepthFirst(const Problem<P>& problem, Incumbent<P>& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit) {
    std::sort(items_.begin(), items_.end(), [](const Item<P>& a, const Item<P>& b) { return a.key > b.key; });
    for (const Item<P>& item : items_) {
      profits_.push_back(profits_.back() + item.profit);
      weights_.push_back(weights_.back() + item.weight);
    }
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
    for (; nodes_left_ != 0; ++at) {
      if (--nodes_left_ % 4096 == 0 && limits_.expired()) nodes_left_ = 0;
      const auto after =
          std::upper_bound(weights_.begin() + static_cast<std::ptrdiff_t>(at), weights_.end(), weights_[at] + room);
      const auto end = static_cast<std::size_t>(after - weights_.begin() - 1);
      const P filled = profit + profits_[end] - profits_[at];
      if (filled > best_) keep(at, end, filled);
      if (end == items_.size() || room < lightest_[at]) return;
      // Keys are rounded: a unit of weight before `end` may be worth 2 less than the key there.
      const Int128 open = room - (weights_[end] - weights_[at]);
      const Int128 bound = problem_.scale.up(filled) + open * items_[end].key + 2 * static_cast<Int128>(room);
      if (bound < problem_.scale.above(best_)) return;
      const Item<P>& item = items_[at];
      if (item.weight > room) continue;
      taken_.push_back(item.index);
      descend(at + 1, room - item.weight, profit + item.profit);
      taken_.pop_back();
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
  P best_;                        // incumbent without the fixed part
  std::vector<P> profits_ = {0};  // of the items before
  std::vector<Int128> weights_ = {0};
  std::vector<std::int64_t> lightest_;  // from an item on
  std::vector<std::uint32_t> taken_;
  std::uint64_t nodes_left_ = 0;
};

/// The linear relaxation of a problem in its surrogate form, in floating point.
struct Relaxed {
  double value = 0;
  double units = 0;
};

template <class P>
Relaxed relax(std::vector<Item<P>>& items, std::int64_t capacity, std::int64_t shift, std::int64_t cardinality) {
  const auto extra = static_cast<double>(shift);
  const auto weight = [extra](const Item<P>& item) { return static_cast<double>(item.weight) + extra * item.units; };
  double room = static_cast<double>(capacity) + extra * static_cast<double>(cardinality);
  Relaxed sum;
  const auto add = [&](const Item<P>& item, double part) {
    sum.value += part * static_cast<double>(item.profit);
    sum.units += part * item.units;
    room -= part * weight(item);
  };
  const auto heavy = std::partition(items.begin(), items.end(), [&](const Item<P>& item) { return weight(item) <= 0; });
  for (auto item = items.begin(); item != heavy; ++item) add(*item, 1);
  const Break found = find_break(
      items.begin(), static_cast<std::size_t>(heavy - items.begin()), items.size(), room,
      [&](const Item<P>& a, const Item<P>& b) {
        return static_cast<double>(a.profit) * weight(b) > static_cast<double>(b.profit) * weight(a);
      },
      weight);
  for (auto item = heavy; item != items.begin() + static_cast<std::ptrdiff_t>(found.at); ++item) add(*item, 1);
  if (found.at < items.size()) add(items[found.at], std::max(0.0, room) / weight(items[found.at]));
  return sum;
}

template <class P>
std::int64_t units_of(const std::vector<Item<P>>& items) {
  std::int64_t units = 0;
  for (const Item<P>& item : items) units += item.units;
  return units;
}

/// The whole number that gives about the lowest bound for solutions of at most (sign 1) or at least (sign -1)
/// `cardinality` units. Any shift gives a valid bound.
template <class P>
std::int64_t best_shift(std::vector<Item<P>>& items, std::int64_t capacity, std::int64_t cardinality, int sign) {
  // The relaxation's units fall as the shift grows.
  const auto beyond = [&](std::int64_t magnitude) {
    const double units = relax(items, capacity, sign * magnitude, cardinality).units;
    return sign > 0 ? units <= static_cast<double>(cardinality) : units >= static_cast<double>(cardinality);
  };
  if (beyond(0)) return 0;
  std::int64_t heaviest = 0;
  for (const Item<P>& item : items) heaviest = std::max(heaviest, item.weight);
  const std::int64_t units = units_of(items);
  // The shifts of all items together stay within 59 bits.
  const std::int64_t largest = std::min(64 * heaviest, (std::int64_t{1} << 59U) / units);
  std::int64_t low = 0;
  std::int64_t high = std::min(largest, std::max<std::int64_t>(1, heaviest / 16));
  while (!beyond(high)) {
    if (high >= largest) return sign * high;
    low = high;
    high *= 4;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (beyond(middle) ? high : low) = middle;
  }
  const auto value = [&](std::int64_t magnitude) {
    return relax(items, capacity, sign * magnitude, cardinality).value;
  };
  return value(low) < value(high) ? sign * low : sign * high;
}

/// Counts units where every profit is the weight plus a small multiple of one number, as with a bonus for each run: a
/// solution of at most k of these multiples is worth at most the capacity plus k times that number. Elsewhere each item
/// is one unit.
template <class P>
void count_units(std::vector<Item<P>>& items) {
  constexpr int max_units = 64;
  P divisor = 0;
  P largest = 0;
  for (const Item<P>& item : items) {
    const P excess = item.profit - item.weight;
    if (excess < 0) return;
    largest = std::max(largest, excess);
    for (P rest = excess; rest != 0;) divisor = std::exchange(rest, divisor % rest);
  }
  if (divisor == 0 || divisor * max_units < largest) return;
  for (Item<P>& item : items) item.units = static_cast<std::int32_t>((item.profit - item.weight) / divisor);
}

/// The two halves of a problem: at most, and at least one more than, as many units as its linear relaxation holds, with
/// shifts that make their bounds low.
template <class P>
std::vector<Problem<P>> halves_of(Problem<P> problem) {
  count_units(problem.items);
  std::vector<Problem<P>> halves(2, problem);
  const auto held = static_cast<std::int64_t>(relax(halves[0].items, problem.capacity, 0, 0).units + 1e-9);
  if (held >= units_of(problem.items)) halves.pop_back();
  for (std::size_t i = 0; i < halves.size(); ++i) {
    Problem<P>& half = halves[i];
    half.cardinality = held + static_cast<std::int64_t>(i);
    half.shift = best_shift(half.items, half.capacity, half.cardinality, i == 0 ? 1 : -1);
  }
  return halves;
}

/// The halves that may hold a better solution than the incumbent; empty if weights are too large to be shifted.
/// @param bound  becomes the highest of their linear bounds
template <class P>
std::optional<std::vector<Problem<P>>> open_halves(const Problem<P>& problem, Incumbent<P>& incumbent,
                                                   const Limits& limits, P& bound) {
  constexpr Int128 shiftable = Int128{1} << 50U;
  Int128 total_weight = 0;
  for (const Item<P>& item : problem.items) total_weight += item.weight;
  if (total_weight >= shiftable) return std::nullopt;
  std::vector<Problem<P>> halves;
  for (Problem<P>& half : halves_of(problem)) {
    const P root = Core<P>(half, incumbent, limits).root_bound();
    if (root <= incumbent.profit) continue;
    bound = std::max(bound, root);
    halves.push_back(std::move(half));
  }
  return halves;
}

/// @returns an upper bound on every solution's profit
template <class P>
P solve(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits) {
  // States of a dynamic program, or nodes of a tree, before the next method is tried.
  const std::uint64_t first_states = 4 * problem.items.size() + 5000;
  constexpr std::size_t small_core = 64;
  constexpr std::uint64_t small_core_nodes = 20'000;
  constexpr std::uint64_t second_states = 300'000;
  constexpr std::size_t medium_core = 1000;
  constexpr std::uint64_t medium_core_nodes = 2'000'000;
  constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();
  Core<P> plain(problem, incumbent, limits);
  Progress progress = plain.run(first_states);
  if (progress == Progress::solved) return incumbent.profit;
  const P plain_bound = plain.upper_bound();
  if (progress == Progress::stopped) return plain_bound;

  // Dynamic programming alone is heading for many states.
  const Problem<P> rest = plain.reduced();
  const auto solved_depth_first = [&](std::size_t max_items, std::uint64_t max_nodes) {
    return rest.items.size() <= max_items && DepthFirst<P>(rest, incumbent, limits).run(max_nodes);
  };
  if (solved_depth_first(small_core, small_core_nodes)) return incumbent.profit;
  P bound = incumbent.profit;
  std::optional<std::vector<Problem<P>>> halves = open_halves(rest, incumbent, limits, bound);
  if (halves && halves->empty()) return incumbent.profit;
  const P gap = plain_bound - incumbent.profit;
  std::list<Core<P>> searches;
  std::vector<Core<P>*> open;
  if (!halves || bound - incumbent.profit > gap - (gap >> 3)) {
    open.push_back(&plain);
  } else {
    for (Problem<P>& half : *halves) open.push_back(&searches.emplace_back(half, incumbent, limits));
  }
  std::erase_if(open, [](Core<P>* search) { return search->run(second_states) == Progress::solved; });
  if (open.empty() || solved_depth_first(medium_core, medium_core_nodes)) return incumbent.profit;
  bound = incumbent.profit;
  for (Core<P>* search : open) {
    if (search->run(no_limit) != Progress::solved) bound = std::max(bound, search->upper_bound());
  }
  return std::min(std::max(bound, incumbent.profit), plain_bound);
}

template <class P>
Chosen solve_in(std::span<const Candidate> candidates, std::int64_t budget, std::int64_t divisor,
                const Limits& limits) {
  Problem<P> problem;
  problem.capacity = budget / divisor;
  Int128 total_weight = 0;
  problem.items.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (candidate.profit <= 0 || candidate.cost > budget) continue;
    problem.items.push_back(
        {static_cast<P>(candidate.profit), candidate.cost / divisor, 0, static_cast<std::uint32_t>(i)});
    total_weight += problem.items.back().weight;
  }
  Incumbent<P> incumbent;
  Chosen chosen;
  if (total_weight <= problem.capacity) {
    for (const Item<P>& item : problem.items) {
      incumbent.profit += item.profit;
      incumbent.chosen.push_back(item.index);
    }
    chosen.bound = incumbent.profit;
  } else {
    chosen.bound = solve(std::move(problem), incumbent, limits);
  }
  chosen.profit = incumbent.profit;
  for (const std::uint32_t index : incumbent.chosen) chosen.jobs.push_back(candidates[index].job);
  return chosen;
}

}  // namespace

bool better_ratio(const Candidate& a, const Candidate& b) {
  const Int128 whole_a = a.profit / a.cost;
  const Int128 whole_b = b.profit / b.cost;
  if (whole_a != whole_b) return whole_a > whole_b;
  return a.profit % a.cost * b.cost > b.profit % b.cost * a.cost;
}

Int128 share_of(const Candidate& candidate, std::int64_t room) {
  return candidate.profit / candidate.cost * room + candidate.profit % candidate.cost * room / candidate.cost;
}

Chosen solve_knapsack(std::span<const Candidate> candidates, std::int64_t budget, const Limits& limits) {
  std::int64_t divisor = 0;
  Int128 total = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.profit <= 0 || candidate.cost > budget) continue;
    if (divisor != 1) divisor = std::gcd(divisor, candidate.cost);
    total += candidate.profit;
  }
  if (total == 0) return {};
  if (bits_of(total) <= 61) return solve_in<std::int64_t>(candidates, budget, divisor, limits);
  return solve_in<Int128>(candidates, budget, divisor, limits);
}

}  // namespace perfpred
