// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "plan/knapsack.h"

namespace perfpred::knapsack {

/// An item of the integer problem. Items are in order of falling `key`, their profit per weight in fixed point.
template <class P>
struct Item {
  P profit;
  std::int64_t weight;  // 0 < weight <= capacity
  std::int64_t key;
  std::uint32_t index;     // into the candidates
  std::int32_t units = 1;  // of a problem's cardinality
};

/// The best solution so far; all searches of a problem share it.
template <class P>
struct Incumbent {
  P profit = 0;
  std::vector<std::uint32_t> chosen;
};

/// Fixed point: profits times 2^bits.
struct Scale {
  int bits = 0;

  /// Not below the profit.
  [[nodiscard]] Int128 up(Int128 profit) const { return bits >= 0 ? profit << bits : (profit >> -bits) + 1; }
  /// Not below the scaled value.
  [[nodiscard]] Int128 back(Int128 value) const { return bits >= 0 ? value >> bits : (value + 1) << -bits; }
  /// A solution is worth more than a profit only if its scaled bound is at least this.
  [[nodiscard]] Int128 above(Int128 profit) const { return bits >= 0 ? (profit + 1) << bits : (profit >> -bits) + 1; }
};

/// Max profit with sum of weights <= capacity, plus what is already decided. With a shift, the bounds of the search are
/// those of a surrogate: `shift` more for the weight of each unit, shift * cardinality more capacity. It holds for
/// solutions of at most (shift > 0) or at least (shift < 0) `cardinality` units.
template <class P>
struct Problem {
  std::vector<Item<P>> items;
  std::int64_t capacity = 0;
  P fixed_profit = 0;
  std::vector<std::uint32_t> fixed = {};  // items that every better solution holds
  std::int64_t shift = 0;
  std::int64_t cardinality = 0;
  Scale scale = {};  // of the keys
};

struct Range {
  std::size_t first;
  std::size_t last;
};

/// The items around the first that does not fit if items fill the room in order: by halving what is unsorted.
struct Break {
  std::size_t at;            // the items before fit
  std::vector<Range> left;   // those, as ranges of which each is better than the next one
  std::vector<Range> right;  // the others, as ranges of which each is worse than the next one
};

template <class Iterator, class Before, class WeightOf, class Room>
Break find_break(Iterator items, std::size_t first, std::size_t last, Room room, const Before& before,
                 const WeightOf& weight_of) {
  constexpr std::size_t sortable = 128;
  Break found;
  if (first > 0) found.left.push_back({0, first});
  const auto at = [&](std::size_t i) { return items + static_cast<std::ptrdiff_t>(i); };
  while (last - first > sortable) {
    const std::size_t middle = first + (last - first) / 2;
    std::nth_element(at(first), at(middle), at(last), before);
    Room sum = 0;
    for (std::size_t i = first; i < middle; ++i) sum += weight_of(*at(i));
    if (sum > room) {
      found.right.push_back({middle, last});
      last = middle;
    } else {
      room -= sum;
      found.left.push_back({first, middle});
      first = middle;
    }
  }
  std::sort(at(first), at(last), before);
  found.at = first;
  for (; found.at < last && weight_of(*at(found.at)) <= room; ++found.at) room -= weight_of(*at(found.at));
  if (found.at > first) found.left.push_back({first, found.at});
  if (found.at < last) found.right.push_back({found.at, last});
  return found;
}

enum class Progress { solved, growing, stopped };

/// Dynamic programming over the expanding core of one 0/1 knapsack problem:
///   S. Martello, P. Toth, Knapsack Problems, Wiley 1990 (bounds, reduction);
///   D. Pisinger, A minimal algorithm for the 0-1 knapsack problem, Oper. Res. 45 (1997): the core grows outwards from
///     the break item, sorted only as far as needed;
///   S. Martello, D. Pisinger, P. Toth, Dynamic programming and strong bounds for the 0-1 knapsack problem, Manag. Sci.
///     45 (1999): surrogate relaxation.
template <class P>
class Core {
 public:
  Core(Problem<P>& problem, Incumbent<P>& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit) {
    set_keys();
    const auto heavy =
        std::partition(items_.begin(), items_.end(), [](const Item<P>& item) { return item.key == free; });
    Int128 room = static_cast<Int128>(problem.capacity) + static_cast<Int128>(problem.shift) * problem.cardinality;
    for (auto item = items_.begin(); item != heavy; ++item) room -= surrogate_weight(*item);
    Break found = find_break(items_.begin(), static_cast<std::size_t>(heavy - items_.begin()), items_.size(), room,
                             order(), [this](const Item<P>& item) { return surrogate_weight(item); });
    break_ = found.at;
    left_ = std::move(found.left);
    right_ = std::move(found.right);
    State start{-problem.capacity, 0, 0, root, 0};
    for (std::size_t i = 0; i < break_; ++i) {
      start.weight += items_[i].weight;
      start.profit += items_[i].profit;
      start.units += items_[i].units;
    }
    start_ = start;
    break_key_ = break_ < items_.size() ? items_[break_].key : 0;
    states_ = {start};
    if (start.weight <= 0 && start.profit > best_) keep_best(start);
  }

  /// Runs until nothing better can exist (solved), a limit is met (stopped), or the run has made more than `max_work`
  /// states (growing).
  Progress run(std::uint64_t max_work) {
    best_ = std::max<P>(best_, incumbent_.profit - problem_.fixed_profit);  // another search may have found more
    constexpr std::uint64_t work_per_look = 10'000;  // reading the clock takes as long as a short step
    std::uint64_t work = 0;
    std::uint64_t look_after = 0;
    std::uint64_t complete_after = 0;
    Progress progress = Progress::solved;
    while (!states_.empty()) {
      supply(right_, right_ready_, false);
      supply(left_, left_ready_, true);
      if (right_ready_.empty() && left_ready_.empty()) {
        states_.clear();
        break;
      }
      if (states_.size() >= complete_at_ && work >= complete_after) {
        complete_after = work + 4 * complete_states();  // as much work as the steps since the last time, at most
        complete_at_ = states_.size() + states_.size() / 2;
      }
      if (work > max_work) {
        progress = Progress::growing;
        break;
      }
      const bool late = work >= look_after && limits_.expired();
      if (work >= look_after) look_after = work + work_per_look;
      if (late || memory_is_short()) {
        progress = Progress::stopped;
        break;
      }
      const bool held = right_ready_.empty() || (!left_ready_.empty() && take_left_);
      take_left_ = !take_left_;
      std::vector<Item<P>>& ready = held ? left_ready_ : right_ready_;
      const Item<P> item = ready.back();
      ready.pop_back();
      ++work;
      if (settled(item, held)) continue;
      supply(right_, right_ready_, false);
      supply(left_, left_ready_, true);
      work += states_.size();
      step(item, held);
    }
    publish();
    return progress;
  }

  /// No solution of this problem, fixed part included, is worth more, unless it is the incumbent.
  [[nodiscard]] P upper_bound() const {
    const Slopes open = slopes();
    P most = best_;
    for (const State& state : states_) {
      if (slack_of(state) < 0 && !open.left) continue;
      most = std::max<P>(
          most, static_cast<P>(problem_.scale.back(bound(state.profit, slack_of(state), open.gain, open.loss))));
    }
    return most + problem_.fixed_profit;
  }

  /// The linear bound of the whole problem.
  [[nodiscard]] P root_bound() const {
    return static_cast<P>(problem_.scale.back(bound(start_.profit, slack_of(start_), break_key_, lower(break_key_)))) +
           problem_.fixed_profit;
  }

  /// The problem without items whose choice is settled by their bound, and without surrogate.
  [[nodiscard]] Problem<P> reduced() const {
    Problem<P> rest{{}, 0, problem_.fixed_profit, problem_.fixed};
    Int128 capacity = problem_.capacity;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item<P>& item = items_[i];
      const bool held = i < break_;
      if (!settled(item, held)) {
        rest.items.push_back(item);
      } else if (held) {
        rest.fixed.push_back(item.index);
        rest.fixed_profit += item.profit;
        capacity -= item.weight;
      }
    }
    rest.scale = problem_.scale;
    rest.capacity = static_cast<std::int64_t>(capacity);
    std::erase_if(rest.items, [&](const Item<P>& item) { return item.weight > rest.capacity; });
    return rest;
  }

 private:
  /// The items of the break solution, but for the flipped ones.
  struct State {
    std::int64_t weight;  // minus the capacity: feasible when <= 0
    P profit;
    std::uint64_t flips;   // of the current block of 64 steps
    std::uint32_t parent;  // flips of earlier blocks
    std::int32_t units;    // of all items
  };
  struct Past {
    std::uint64_t flips;
    std::uint32_t parent;
  };
  /// What a unit of slack may gain, and a unit of overweight costs at least; whether there is an item to take out.
  struct Slopes {
    std::int64_t gain;
    std::int64_t loss;
    bool left;
  };
  static constexpr std::uint32_t root = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t block = 64;  // steps whose flips a state holds itself
  static constexpr std::int64_t free = std::numeric_limits<std::int64_t>::max();  // key of an item without weight

  [[nodiscard]] std::int64_t surrogate_weight(const Item<P>& item) const {
    return item.weight + problem_.shift * item.units;
  }

  /// Keys are profits per weight, times 2^scale, rounded up: as many bits as 64-bit keys and 128-bit bounds hold.
  void set_keys() {
    P total = 0;
    int& scale = problem_.scale.bits;
    scale = 122;
    for (const Item<P>& item : items_) {
      total += item.profit;
      if (surrogate_weight(item) > 0) {
        scale = std::min(scale, 60 - bits_of(item.profit) + bits_of(surrogate_weight(item)));
      }
    }
    scale = std::min(scale, 122 - bits_of(total));
    for (Item<P>& item : items_) {
      const std::int64_t weight = surrogate_weight(item);
      item.key = weight > 0 ? static_cast<std::int64_t>((problem_.scale.up(item.profit) + weight - 1) / weight) : free;
    }
  }

  /// Not above the profit per weight of an item with this key, or a larger one.
  [[nodiscard]] static std::int64_t lower(std::int64_t key) { return std::max<std::int64_t>(0, key - 2); }

  /// Better items first. Where the surrogate cannot tell, the problem itself can: solutions then start near the
  /// capacity.
  [[nodiscard]] auto order() const {
    return [shift = problem_.shift](const Item<P>& a, const Item<P>& b) {
      if (a.key != b.key) return a.key > b.key;
      return shift > 0 ? a.weight < b.weight : shift < 0 && a.weight > b.weight;
    };
  }

  [[nodiscard]] std::int64_t slack_of(const State& state) const {
    return problem_.shift * (problem_.cardinality - state.units) - state.weight;
  }
  [[nodiscard]] Int128 bound(const P& profit, std::int64_t slack, std::int64_t gain, std::int64_t loss) const {
    return problem_.scale.up(profit) + static_cast<Int128>(slack) * (slack >= 0 ? gain : loss);
  }

  /// Whether no better solution has this item in another state than the break solution.
  [[nodiscard]] bool settled(const Item<P>& item, bool held) const {
    const std::int64_t slack = slack_of(start_);
    const std::int64_t weight = surrogate_weight(item);
    const Int128 flipped = held ? bound(start_.profit - item.profit, slack + weight, break_key_, lower(break_key_))
                                : bound(start_.profit + item.profit, slack - weight, break_key_, lower(break_key_));
    return flipped < problem_.scale.above(best_);
  }

  /// Sorts the nearest range with an item that is not settled.
  void supply(std::vector<Range>& ranges, std::vector<Item<P>>& ready, bool held) {
    while (ready.empty() && !ranges.empty()) {
      const Range range = ranges.back();
      ranges.pop_back();
      std::copy_if(items_.begin() + static_cast<std::ptrdiff_t>(range.first),
                   items_.begin() + static_cast<std::ptrdiff_t>(range.last), std::back_inserter(ready),
                   [&](const Item<P>& item) { return !settled(item, held); });
      std::sort(ready.begin(), ready.end(), order());
      if (!held) std::reverse(ready.begin(), ready.end());
    }
  }

  [[nodiscard]] Slopes slopes() const {
    Slopes open{right_ready_.empty() ? 0 : right_ready_.back().key, 0, false};
    open.left = !left_ready_.empty() && left_ready_.back().key != free;
    if (open.left) open.loss = lower(left_ready_.back().key);
    return open;
  }

  [[nodiscard]] bool promising(const State& state, const Slopes& open, Int128 least) const {
    const std::int64_t slack = slack_of(state);
    return (slack >= 0 || open.left) && bound(state.profit, slack, open.gain, open.loss) >= least;
  }

  /// The end of the states that may be flipped. Without a surrogate, the items of a solution stay within the capacity,
  /// so no state above twice it is needed.
  [[nodiscard]] auto end_of_flips(const Item<P>& item, bool held) const {
    if (held || problem_.shift != 0) return states_.cend();
    return std::upper_bound(states_.cbegin(), states_.cend(), problem_.capacity - item.weight,
                            [](std::int64_t limit, const State& state) { return limit < state.weight; });
  }

  [[nodiscard]] bool is_better(const State& state) const { return state.weight <= 0 && state.profit > best_; }

  /// Doubles the states: each as it is, and with the item flipped. States that another one dominates, or that no open
  /// item makes better than the best solution, are dropped.
  void step(const Item<P>& item, bool held) {
    const std::uint64_t bit = std::uint64_t{1} << (steps_.size() % block);
    steps_.push_back(item.index);
    const int sign = held ? -1 : 1;
    const auto flipped = [&](State state) {
      state.weight += sign * item.weight;
      state.profit += sign * item.profit;
      state.units += sign * item.units;
      state.flips |= bit;
      return state;
    };
    const Slopes open = slopes();
    auto old = states_.cbegin();
    auto changed = states_.cbegin();
    const auto end = states_.cend();
    const auto changed_end = end_of_flips(item, held);
    next_.resize(2 * states_.size());
    auto out = next_.begin();
    P last_profit = -1;
    std::optional<State> better;
    Int128 least = problem_.scale.above(best_);
    while (old != end || changed != changed_end) {
      const State state = changed != changed_end ? flipped(*changed) : *old;
      const bool fresh = changed != changed_end && (old == end || comes_first(state, *old));
      const State& next = fresh ? state : *old;
      fresh ? ++changed : ++old;
      if (next.profit <= last_profit) continue;
      last_profit = next.profit;
      if (fresh && is_better(next)) {
        best_ = next.profit;
        better = next;
        least = problem_.scale.above(best_);
      }
      if (promising(next, open, least)) *out++ = next;
    }
    next_.resize(static_cast<std::size_t>(out - next_.begin()));
    states_.swap(next_);
    if (better) keep_best(*better);
    if (steps_.size() % block == 0) new_block();
  }

  /// Adds to each state one open item, or takes one out, that makes it feasible. Items from all over: those near the
  /// break item have nearly its weight where profits follow weights. @returns how many items it tried
  std::size_t complete_states() {
    std::size_t tried = 0;
    const auto try_item = [&](const Item<P>& item, bool held) {
      ++tried;
      const int sign = held ? -1 : 1;
      const auto place = std::upper_bound(states_.begin(), states_.end(), -sign * item.weight,
                                          [](std::int64_t most, const State& state) { return most < state.weight; });
      if (place == states_.begin() || std::prev(place)->profit + sign * item.profit <= best_) return;
      keep_best(*std::prev(place));
      best_ += sign * item.profit;
      best_flips_.push_back(item.index);
    };
    const auto try_side = [&](const std::vector<Item<P>>& ready, const std::vector<Range>& ranges, bool held) {
      for (const Item<P>& item : ready) try_item(item, held);
      for (const Range& range : ranges) {
        for (std::size_t i = range.first; i < range.last; ++i) try_item(items_[i], held);
      }
    };
    try_side(right_ready_, right_, false);
    try_side(left_ready_, left_, true);
    return tried;
  }

  static bool comes_first(const State& a, const State& b) {
    if (a.weight != b.weight) return a.weight < b.weight;
    return a.profit != b.profit ? a.profit > b.profit : a.units < b.units;
  }

  void keep_best(const State& state) {
    best_ = state.profit;
    improved_ = true;
    best_flips_.clear();
    std::size_t first = block_first_;
    Past past{state.flips, state.parent};
    while (true) {
      for (std::size_t bit = 0; past.flips != 0; ++bit, past.flips >>= 1U) {
        if ((past.flips & 1U) != 0) best_flips_.push_back(steps_[first + bit]);
      }
      if (past.parent == root) return;
      past = history_[past.parent];
      first -= block;
    }
  }

  void new_block() {
    for (State& state : states_) {
      history_.push_back({state.flips, state.parent});
      state.parent = static_cast<std::uint32_t>(history_.size() - 1);
      state.flips = 0;
    }
    block_first_ = steps_.size();
  }

  [[nodiscard]] bool memory_is_short() const {
    const std::size_t next = std::max(next_.capacity(), 2 * states_.size());
    const std::size_t bytes = (states_.capacity() + next) * sizeof(State) + 2 * history_.capacity() * sizeof(Past);
    return bytes > limits_.memory_bytes || history_.size() + states_.size() >= root;
  }

  /// Makes the best solution the incumbent if this search found it.
  void publish() {
    if (!improved_) return;
    improved_ = false;
    incumbent_.profit = best_ + problem_.fixed_profit;
    incumbent_.chosen = problem_.fixed;
    std::sort(best_flips_.begin(), best_flips_.end());
    std::vector<std::uint32_t> held;
    for (std::size_t i = 0; i < break_; ++i) held.push_back(items_[i].index);
    std::sort(held.begin(), held.end());
    std::set_symmetric_difference(held.begin(), held.end(), best_flips_.begin(), best_flips_.end(),
                                  std::back_inserter(incumbent_.chosen));
  }

  Problem<P>& problem_;
  std::vector<Item<P>>& items_;
  Incumbent<P>& incumbent_;
  const Limits& limits_;
  P best_;  // incumbent without the fixed part; may be negative
  bool improved_ = false;

  std::size_t break_ = 0;
  State start_{};  // the break solution
  std::int64_t break_key_ = 0;

  std::vector<Range> left_;  // unsorted, nearest to the break item last
  std::vector<Range> right_;
  std::vector<Item<P>> left_ready_;  // sorted, next one last
  std::vector<Item<P>> right_ready_;
  std::vector<std::uint32_t> steps_;  // index of each item that was stepped over
  std::vector<State> states_;         // by rising weight and profit
  std::vector<State> next_;
  std::vector<Past> history_;
  std::size_t block_first_ = 0;  // step at which the current block of 64 begins
  bool take_left_ = false;
  std::size_t complete_at_ = 500;          // states
  std::vector<std::uint32_t> best_flips_;  // indices that differ from the break solution
};

}  // namespace perfpred::knapsack
