// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

namespace perfpred {
namespace {

/// An item of the integer problem. Items are in order of falling `key`, their profit per weight in fixed point.
template <class P>
struct Item {
  P profit;
  std::int64_t weight;  // 0 < weight <= capacity
  std::int64_t key;
  std::uint32_t index;  // into the candidates
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
/// those of a surrogate: `shift` more for the weight of each item, shift * cardinality more capacity. It holds for
/// solutions of at most (shift > 0) or at least (shift < 0) `cardinality` items.
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

/// Bits of a number >= 0.
int bits_of(Int128 value) {
  const auto high = static_cast<std::uint64_t>(value >> 64U);
  return static_cast<int>(high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value)));
}

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
      ++start.units;
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
    std::int32_t units;    // number of items
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

  [[nodiscard]] std::int64_t surrogate_weight(const Item<P>& item) const { return item.weight + problem_.shift; }

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

  /// Doubles the states: each as it is, and with the item flipped. States that another one dominates, or that no open
  /// item makes better than the best solution, are dropped.
  void step(const Item<P>& item, bool held) {
    const std::uint64_t bit = std::uint64_t{1} << (steps_.size() % block);
    steps_.push_back(item.index);
    const int sign = held ? -1 : 1;
    const auto flipped = [&](State state) {
      state.weight += sign * item.weight;
      state.profit += sign * item.profit;
      state.units += sign;
      state.flips |= bit;
      return state;
    };
    const Slopes open = slopes();
    auto old = states_.cbegin();
    auto changed = states_.cbegin();
    const auto end = states_.cend();
    auto changed_end = end;
    if (!held && problem_.shift == 0) {
      // The items of a solution stay within the capacity, so no state above twice it is needed.
      changed_end = std::upper_bound(old, end, problem_.capacity - item.weight,
                                     [](std::int64_t limit, const State& state) { return limit < state.weight; });
    }
    next_.resize(2 * states_.size());
    auto out = next_.begin();
    Int128 least = problem_.scale.above(best_);
    P last_profit = -1;
    std::optional<State> better;
    while (old != end || changed != changed_end) {
      State state = changed != changed_end ? flipped(*changed) : *old;
      const bool fresh = changed != changed_end && (old == end || comes_first(state, *old));
      if (fresh) {
        ++changed;
      } else {
        state = *old++;
      }
      if (state.profit <= last_profit) continue;
      last_profit = state.profit;
      if (fresh && state.weight <= 0 && state.profit > best_) {
        best_ = state.profit;
        better = state;
        least = problem_.scale.above(best_);
      }
      const std::int64_t slack = slack_of(state);
      if (slack < 0 && !open.left) continue;
      if (bound(state.profit, slack, open.gain, open.loss) < least) continue;
      *out++ = state;
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
  bool take_left_ = true;
  std::size_t complete_at_ = 64;           // states
  std::vector<std::uint32_t> best_flips_;  // indices that differ from the break solution
};

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
      if (end == items_.size()) return;
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
  const auto weight = [extra](const Item<P>& item) { return static_cast<double>(item.weight) + extra; };
  double room = static_cast<double>(capacity) + extra * static_cast<double>(cardinality);
  Relaxed sum;
  const auto add = [&](const Item<P>& item, double part) {
    sum.value += part * static_cast<double>(item.profit);
    sum.units += part;
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

/// The whole number that gives about the lowest bound for solutions of at most (sign 1) or at least (sign -1)
/// `cardinality` items. Any shift gives a valid bound.
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
  // The shifts of all items together stay within 59 bits.
  const std::int64_t largest =
      std::min(64 * heaviest, (std::int64_t{1} << 59U) / static_cast<std::int64_t>(items.size()));
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

/// The two halves of a problem: at most, and at least one more than, as many items as its linear relaxation holds, with
/// shifts that make their bounds low.
template <class P>
std::vector<Problem<P>> halves_of(const Problem<P>& problem) {
  std::vector<Problem<P>> halves(2, problem);
  const auto held = static_cast<std::int64_t>(relax(halves[0].items, problem.capacity, 0, 0).units + 1e-9);
  if (held >= static_cast<std::int64_t>(problem.items.size())) halves.pop_back();
  for (std::size_t i = 0; i < halves.size(); ++i) {
    Problem<P>& half = halves[i];
    half.cardinality = held + static_cast<std::int64_t>(i);
    half.shift = best_shift(half.items, half.capacity, half.cardinality, i == 0 ? 1 : -1);
  }
  return halves;
}

/// @returns an upper bound on every solution's profit
template <class P>
P solve(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits) {
  // States that a search makes before the next method is tried.
  const std::uint64_t first_states = 4 * problem.items.size() + 5000;
  constexpr std::size_t small_core = 1000;
  constexpr std::uint64_t max_nodes = 20'000;
  constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();
  constexpr Int128 shiftable = Int128{1} << 50U;
  Core<P> plain(problem, incumbent, limits);
  Progress progress = plain.run(first_states);
  if (progress == Progress::solved) return incumbent.profit;
  const P plain_bound = plain.upper_bound();
  if (progress == Progress::stopped) return plain_bound;

  // Dynamic programming alone is heading for many states.
  const Problem<P> rest = plain.reduced();
  if (rest.items.size() <= small_core && DepthFirst<P>(rest, incumbent, limits).run(max_nodes)) return incumbent.profit;
  Int128 total_weight = 0;
  for (const Item<P>& item : rest.items) total_weight += item.weight;
  std::vector<Problem<P>> halves;
  P bound = incumbent.profit;
  if (total_weight < shiftable) {
    for (Problem<P>& half : halves_of(rest)) {
      const P root = Core<P>(half, incumbent, limits).root_bound();
      if (root <= incumbent.profit) continue;
      bound = std::max(bound, root);
      halves.push_back(std::move(half));
    }
    if (halves.empty()) return incumbent.profit;
  }
  const P gap = plain_bound - incumbent.profit;
  if (halves.empty() || bound - incumbent.profit > gap - (gap >> 3)) {
    return plain.run(no_limit) == Progress::solved ? incumbent.profit : plain.upper_bound();
  }
  bound = incumbent.profit;
  for (Problem<P>& half : halves) {
    Core<P> search(half, incumbent, limits);
    if (search.run(no_limit) != Progress::solved) bound = std::max(bound, search.upper_bound());
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

namespace {

/// A positive finite double is mantissa * 2^exponent, the mantissa odd.
struct Binary {
  std::int64_t mantissa;
  int exponent;
};

Binary binary_of(double value) {
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int zeros = std::countr_zero(static_cast<std::uint64_t>(mantissa));
  return {mantissa >> zeros, exponent - 53 + zeros};
}

}  // namespace

void ValueUnit::add(double value) {
  const Binary binary = binary_of(value);
  lowest_ = std::min(lowest_, binary.exponent);
  highest_ = std::max(highest_, binary.exponent + bits_of(binary.mantissa));
  if (divisor_ != 1) divisor_ = std::gcd(divisor_, binary.mantissa);
  ++count_;
}

int ValueUnit::dropped_bits() const {
  constexpr int most_bits = 118;
  if (count_ == 0) return 0;
  return std::max(0, highest_ - lowest_ + static_cast<int>(std::bit_width(count_)) - most_bits);
}

Int128 ValueUnit::whole(double value) const {
  const Binary binary = binary_of(value);
  const int shift = binary.exponent - lowest_ - dropped_bits();
  if (shift >= 0) return static_cast<Int128>(binary.mantissa / divisor_) << shift;
  return std::max<std::int64_t>(1, shift > -64 ? binary.mantissa / divisor_ >> -shift : 0);
}

double ValueUnit::value(Int128 profit, bool upwards) const {
  if (count_ == 0) return 0;
  profit *= divisor_;
  const int dropped = std::max(0, bits_of(profit) - 64);
  auto leading = static_cast<std::uint64_t>(profit >> dropped);
  // A last bit that stands for the dropped ones keeps the rounding right.
  if (static_cast<Int128>(leading) << dropped != profit) leading |= 1U;
  auto rounded = static_cast<double>(leading);
  if (upwards && static_cast<Int128>(rounded) < static_cast<Int128>(leading)) {
    rounded = std::nextafter(rounded, std::numeric_limits<double>::infinity());
  }
  return std::ldexp(rounded, lowest_ + dropped_bits() + dropped);
}

double ValueUnit::nearest(Int128 profit) const { return value(profit, false); }

double ValueUnit::at_least(Int128 profit) const {
  return value(exact() ? profit : profit + static_cast<Int128>(count_), true);  // each value lost less than a unit
}

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
