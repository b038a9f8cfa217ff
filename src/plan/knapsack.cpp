// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack.h"

#include <perfpred/error.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <optional>
#include <utility>

namespace perfpred {
namespace {

/// An item of the integer problem.
struct Item {
  Int128 profit;
  std::int64_t weight;     // 0 < weight <= capacity
  std::int64_t key;        // profit per weight in fixed point
  std::uint32_t index;     // into the candidates
  std::int32_t units = 1;  // of a problem's cardinality
};

/// The best solution so far; all searches of a problem share it.
struct Incumbent {
  Int128 profit = 0;
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
struct Problem {
  std::vector<Item> items;
  std::int64_t capacity = 0;
  Int128 fixed_profit = 0;
  std::vector<std::uint32_t> fixed = {};  // items that every better solution holds
  std::int64_t shift = 0;
  std::int64_t cardinality = 0;
  Scale scale = {};  // of the keys
};

enum class Progress { solved, growing, stopped };

/// Dynamic programming over the expanding core of one problem, which grows outwards from the break item, the first that
/// does not fit if items are taken by falling key (sources: KnapsackPlanner).
class Core {
 public:
  Core(Problem& problem, Incumbent& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit),
        start_{-problem.capacity, 0, 0, root, 0} {
    set_keys();
    // Where the surrogate cannot tell, the problem itself can: solutions then start near the capacity.
    std::sort(items_.begin(), items_.end(), [shift = problem.shift](const Item& a, const Item& b) {
      if (a.key != b.key) return a.key > b.key;
      return shift > 0 ? a.weight < b.weight : shift < 0 && a.weight > b.weight;
    });
    Int128 room = static_cast<Int128>(problem.capacity) + static_cast<Int128>(problem.shift) * problem.cardinality;
    for (const Item& item : items_) {
      if (item.key != free && surrogate_weight(item) > room) break;
      room -= surrogate_weight(item);
      start_ = flipped(start_, item, 1);
      ++break_;
    }
    left_ = right_ = break_;
    break_key_ = break_ < items_.size() ? items_[break_].key : 0;
    states_ = {start_};
    if (is_better(start_)) keep_best(start_);
  }

  /// Runs until nothing better can exist (solved), a limit is met (stopped), or the run has made more than `max_work`
  /// states (growing).
  Progress run(std::uint64_t max_work) {
    best_ = std::max(best_, incumbent_.profit - problem_.fixed_profit);  // another search may have found more
    constexpr std::uint64_t work_per_look = 10'000;  // reading the clock takes as long as a short step
    std::uint64_t work = 0;
    std::uint64_t look_after = 0;
    std::uint64_t complete_after = 0;
    Progress progress = Progress::solved;
    while (!states_.empty() && progress == Progress::solved) {
      skip_settled();
      if (left_ == 0 && right_ == items_.size()) {
        states_.clear();
        break;
      }
      if (states_.size() >= complete_at_ && work >= complete_after) {
        complete_after = work + 4 * complete_states();  // as much work as the steps since the last time, at most
        complete_at_ = states_.size() + states_.size() / 2;
      }
      const bool looks = work >= look_after;
      if (looks) look_after = work + work_per_look;
      if (work > max_work) {
        progress = Progress::growing;
      } else if ((looks && limits_.expired()) || memory_is_short()) {
        progress = Progress::stopped;
      } else {
        work += 1 + states_.size();
        const bool held = next_is_held();
        step(held ? items_[--left_] : items_[right_++], held);
      }
    }
    publish();
    return progress;
  }

  /// No solution of this problem, fixed part included, is worth more, unless it is the incumbent.
  [[nodiscard]] Int128 upper_bound() const {
    const Slopes open = slopes();
    Int128 most = best_;
    for (const State& state : states_) {
      if (slack_of(state) < 0 && !open.left) continue;
      most = std::max(most, (problem_.scale.back(bound(state.profit, slack_of(state), open.gain, open.loss))));
    }
    return most + problem_.fixed_profit;
  }

  /// The linear bound of the whole problem.
  [[nodiscard]] Int128 root_bound() const {
    return (problem_.scale.back(bound(start_.profit, slack_of(start_), break_key_, lower(break_key_)))) +
           problem_.fixed_profit;
  }

  /// The problem without items whose choice is settled by their bound, and without surrogate.
  [[nodiscard]] Problem reduced() const {
    Problem rest{{}, problem_.capacity, problem_.fixed_profit, problem_.fixed, 0, 0, problem_.scale};
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const bool held = i < break_;
      if (!settled(item, held)) {
        rest.items.push_back(item);
      } else if (held) {
        rest.fixed.push_back(item.index);
        rest.fixed_profit += item.profit;
        rest.capacity -= item.weight;
      }
    }
    std::erase_if(rest.items, [&](const Item& item) { return item.weight > rest.capacity; });
    return rest;
  }

 private:
  /// The items of the break solution, but for the flipped ones.
  struct State {
    std::int64_t weight;  // minus the capacity: feasible when <= 0
    Int128 profit;
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

  [[nodiscard]] std::int64_t surrogate_weight(const Item& item) const {
    return item.weight + problem_.shift * item.units;
  }

  /// Keys are profits per weight, times 2^scale, rounded up: as many bits as 64-bit keys and 128-bit bounds hold.
  void set_keys() {
    Int128 total = 0;
    int& scale = problem_.scale.bits;
    scale = 122;
    for (const Item& item : items_) {
      total += item.profit;
      if (surrogate_weight(item) > 0) {
        scale = std::min(scale, 60 - bits_of(item.profit) + bits_of(surrogate_weight(item)));
      }
    }
    scale = std::min(scale, 122 - bits_of(total));
    for (Item& item : items_) {
      const std::int64_t weight = surrogate_weight(item);
      item.key = weight > 0 ? static_cast<std::int64_t>((problem_.scale.up(item.profit) + weight - 1) / weight) : free;
    }
  }

  /// Not above the profit per weight of an item with this key, or a larger one.
  [[nodiscard]] static std::int64_t lower(std::int64_t key) { return std::max<std::int64_t>(0, key - 2); }

  [[nodiscard]] std::int64_t slack_of(const State& state) const {
    return problem_.shift * (problem_.cardinality - state.units) - state.weight;
  }
  [[nodiscard]] Int128 bound(Int128 profit, std::int64_t slack, std::int64_t gain, std::int64_t loss) const {
    return problem_.scale.up(profit) + static_cast<Int128>(slack) * (slack >= 0 ? gain : loss);
  }

  /// Whether no better solution has this item in another state than the break solution.
  [[nodiscard]] bool settled(const Item& item, bool held) const {
    const int sign = held ? -1 : 1;
    const std::int64_t slack = slack_of(start_) - sign * surrogate_weight(item);
    return bound(start_.profit + sign * item.profit, slack, break_key_, lower(break_key_)) <
           problem_.scale.above(best_);
  }

  void skip_settled() {
    while (right_ < items_.size() && settled(items_[right_], false)) ++right_;
    while (left_ > 0 && settled(items_[left_ - 1], true)) --left_;
  }

  [[nodiscard]] Slopes slopes() const {
    Slopes open{right_ < items_.size() ? items_[right_].key : 0, 0, left_ > 0 && items_[left_ - 1].key != free};
    if (open.left) open.loss = lower(items_[left_ - 1].key);
    return open;
  }

  [[nodiscard]] bool promising(const State& state, const Slopes& open, Int128 least) const {
    const std::int64_t slack = slack_of(state);
    return (slack >= 0 || open.left) && bound(state.profit, slack, open.gain, open.loss) >= least;
  }

  /// The end of the states that may be flipped. Without a surrogate, the items of a solution stay within the capacity,
  /// so no state above twice it is needed.
  [[nodiscard]] auto end_of_flips(const Item& item, bool held) const {
    if (held || problem_.shift != 0) return states_.cend();
    return std::upper_bound(states_.cbegin(), states_.cend(), problem_.capacity - item.weight,
                            [](std::int64_t limit, const State& state) { return limit < state.weight; });
  }

  [[nodiscard]] bool is_better(const State& state) const { return state.weight <= 0 && state.profit > best_; }

  static State flipped(State state, const Item& item, int sign, std::uint64_t bit = 0) {
    state.weight += sign * item.weight;
    state.profit += sign * item.profit;
    state.units += sign * item.units;
    state.flips |= bit;
    return state;
  }

  /// From either side in turn.
  bool next_is_held() {
    take_left_ = !take_left_;
    return right_ == items_.size() || (left_ > 0 && !take_left_);
  }

  /// Doubles the states: each as it is, and with the item flipped. States that another one dominates, or that no open
  /// item makes better than the best solution, are dropped.
  void step(const Item& item, bool held) {
    skip_settled();
    const std::uint64_t bit = std::uint64_t{1} << (steps_.size() - block_begin_);
    steps_.push_back(item.index);
    const int sign = held ? -1 : 1;
    const Slopes open = slopes();
    auto old = states_.cbegin();
    auto changed = states_.cbegin();
    const auto end = states_.cend();
    const auto changed_end = end_of_flips(item, held);
    next_.resize(2 * states_.size());
    auto out = next_.begin();
    Int128 last_profit = -1;
    std::optional<State> better;
    Int128 least = problem_.scale.above(best_);
    while (old != end || changed != changed_end) {
      const State state = changed != changed_end ? flipped(*changed, item, sign, bit) : *old;
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
    if (steps_.size() == block_begin_ + block) new_block();
  }

  /// Adds to each state one open item, or takes one out, that makes it feasible. Items from all over: those near the
  /// break item have nearly its weight where profits follow weights. @returns how many items it tried
  std::size_t complete_states() {
    const auto try_item = [&](const Item& item, int sign) {
      const auto place = std::upper_bound(states_.begin(), states_.end(), -sign * item.weight,
                                          [](std::int64_t most, const State& state) { return most < state.weight; });
      if (place == states_.begin() || std::prev(place)->profit + sign * item.profit <= best_) return;
      keep_best(*std::prev(place));
      best_ += sign * item.profit;
      best_flips_.push_back(item.index);
    };
    for (std::size_t i = right_; i < items_.size(); ++i) try_item(items_[i], 1);
    for (std::size_t i = left_; i-- > 0;) try_item(items_[i], -1);
    return left_ + items_.size() - right_;
  }

  static bool comes_first(const State& a, const State& b) {
    if (a.weight != b.weight) return a.weight < b.weight;
    return a.profit != b.profit ? a.profit > b.profit : a.units < b.units;
  }

  void keep_best(const State& state) {
    best_ = state.profit;
    improved_ = true;
    best_flips_.clear();
    std::size_t first = block_begin_;
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
    block_begin_ = steps_.size();
  }

  [[nodiscard]] bool memory_is_short() const {
    const std::size_t next = std::max(next_.capacity(), 2 * states_.size());
    const std::size_t bytes = (states_.capacity() + next) * sizeof(State) + 2 * history_.capacity() * sizeof(Past);
    return bytes > limits_.memory_bytes || history_.size() + states_.size() >= root;
  }

  /// Makes the best solution the incumbent if this search found it.
  void publish() {
    if (!std::exchange(improved_, false)) return;
    incumbent_.profit = best_ + problem_.fixed_profit;
    incumbent_.chosen = problem_.fixed;
    std::sort(best_flips_.begin(), best_flips_.end());
    std::vector<std::uint32_t> held;
    for (std::size_t i = 0; i < break_; ++i) held.push_back(items_[i].index);
    std::sort(held.begin(), held.end());
    std::set_symmetric_difference(held.begin(), held.end(), best_flips_.begin(), best_flips_.end(),
                                  std::back_inserter(incumbent_.chosen));
  }

  Problem& problem_;
  std::vector<Item>& items_;  // best key first
  Incumbent& incumbent_;
  const Limits& limits_;
  Int128 best_;  // incumbent without the fixed part; may be negative
  bool improved_ = false;

  State start_;            // the break solution
  std::size_t break_ = 0;  // the items before are in it
  std::int64_t break_key_ = 0;

  std::size_t left_ = 0;  // the items before, and those from the right one on, are still open
  std::size_t right_ = 0;
  bool take_left_ = false;
  std::vector<std::uint32_t> steps_;  // index of each item that was stepped over
  std::size_t block_begin_ = 0;       // the step of the first bit of the states' own flips
  std::vector<State> states_;         // by rising weight and profit
  std::vector<State> next_;
  std::vector<Past> history_;
  std::size_t complete_at_ = 500;          // states
  std::vector<std::uint32_t> best_flips_;  // indices that differ from the break solution
};

/// Depth first over items in order of their keys with Dantzig's bound: faster than dynamic programming where few items
/// have many different sums. Keys are those without a shift.
class DepthFirst {
 public:
  DepthFirst(const Problem& problem, Incumbent& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit),
        lightest_(items_.size() + 1, std::numeric_limits<std::int64_t>::max()) {
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.key > b.key; });
    for (const Item& item : items_) {
      profits_.push_back(profits_.back() + item.profit);
      weights_.push_back(weights_.back() + item.weight);
    }
    for (std::size_t i = items_.size(); i-- > 0;) lightest_[i] = std::min(lightest_[i + 1], items_[i].weight);
  }

  /// @returns whether the incumbent is proved
  bool run(std::uint64_t max_nodes) {
    nodes_left_ = max_nodes;
    descend(0, problem_.capacity, 0);
    return nodes_left_ != 0;
  }

 private:
  void descend(std::size_t at, std::int64_t room, Int128 profit) {
    for (; nodes_left_ != 0; ++at) {
      if (--nodes_left_ % 4096 == 0 && limits_.expired()) nodes_left_ = 0;
      const auto after =
          std::upper_bound(weights_.begin() + static_cast<std::ptrdiff_t>(at), weights_.end(), weights_[at] + room);
      const auto end = static_cast<std::size_t>(after - weights_.begin() - 1);
      const Int128 filled = profit + profits_[end] - profits_[at];
      if (filled > best_) keep(at, end, filled);
      if (end == items_.size() || room < lightest_[at]) return;
      // Keys are rounded: a unit of weight before `end` may be worth 2 less than the key there.
      const Int128 open = room - (weights_[end] - weights_[at]);
      const Int128 bound = problem_.scale.up(filled) + open * items_[end].key + 2 * static_cast<Int128>(room);
      if (bound < problem_.scale.above(best_)) return;
      const Item& item = items_[at];
      if (item.weight > room) continue;
      taken_.push_back(item.index);
      descend(at + 1, room - item.weight, profit + item.profit);
      taken_.pop_back();
    }
  }

  void keep(std::size_t at, std::size_t end, Int128 profit) {
    best_ = profit;
    incumbent_.profit = profit + problem_.fixed_profit;
    incumbent_.chosen = problem_.fixed;
    incumbent_.chosen.insert(incumbent_.chosen.end(), taken_.begin(), taken_.end());
    for (std::size_t i = at; i < end; ++i) incumbent_.chosen.push_back(items_[i].index);
  }

  const Problem& problem_;
  std::vector<Item> items_;
  Incumbent& incumbent_;
  const Limits& limits_;
  Int128 best_;                         // incumbent without the fixed part
  std::vector<std::int64_t> lightest_;  // from an item on
  std::vector<Int128> profits_ = {0};   // of the items before
  std::vector<Int128> weights_ = {0};
  std::vector<std::uint32_t> taken_;
  std::uint64_t nodes_left_ = 0;
};

/// The linear relaxation of a problem in its surrogate form, in floating point.
struct Relaxed {
  double value = 0;
  double units = 0;
};

Relaxed relax(std::vector<Item>& items, std::int64_t capacity, std::int64_t shift, std::int64_t cardinality) {
  const auto weight = [extra = static_cast<double>(shift)](const Item& item) {
    return static_cast<double>(item.weight) + extra * item.units;
  };
  double room = static_cast<double>(capacity) + static_cast<double>(shift) * static_cast<double>(cardinality);
  Relaxed sum;
  const auto take = [&](auto from, auto to, double part) {
    for (; from != to; ++from) {
      sum.value += part * static_cast<double>(from->profit);
      sum.units += part * from->units;
      room -= part * weight(*from);
    }
  };
  auto first = std::partition(items.begin(), items.end(), [&](const Item& item) { return weight(item) <= 0; });
  auto last = items.end();
  take(items.begin(), first, 1);
  while (last - first > 1) {  // the first item that does not fit lies between them
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, [&](const Item& a, const Item& b) {
      return static_cast<double>(a.profit) * weight(b) > static_cast<double>(b.profit) * weight(a);
    });
    const double half =
        std::accumulate(first, middle, 0.0, [&](double w, const Item& item) { return w + weight(item); });
    if (half > room) {
      last = middle;
    } else {
      take(first, middle, 1);
      first = middle;
    }
  }
  if (first != last) take(first, last, std::clamp(room / weight(*first), 0.0, 1.0));
  return sum;
}

std::int64_t units_of(const std::vector<Item>& items) {
  std::int64_t units = 0;
  for (const Item& item : items) units += item.units;
  return units;
}

/// The whole number that gives about the lowest bound for solutions of at most (sign 1) or at least (sign -1)
/// `cardinality` units. Any shift gives a valid bound.
std::int64_t best_shift(std::vector<Item>& items, std::int64_t capacity, std::int64_t cardinality, int sign) {
  const auto relaxed = [&](std::int64_t magnitude) { return relax(items, capacity, sign * magnitude, cardinality); };
  // The relaxation's units fall as the shift grows.
  const auto beyond = [&](std::int64_t magnitude) {
    return sign * (relaxed(magnitude).units - static_cast<double>(cardinality)) <= 0;
  };
  if (beyond(0)) return 0;
  std::int64_t heaviest = 0;
  for (const Item& item : items) heaviest = std::max(heaviest, item.weight);
  // The shifts of all items together stay within 59 bits.
  const std::int64_t largest = std::min(64 * heaviest, (std::int64_t{1} << 59U) / units_of(items));
  std::int64_t low = 0;
  std::int64_t high = std::min(largest, std::max<std::int64_t>(1, heaviest / 16));
  while (!beyond(high)) {
    if (high == largest) return sign * high;
    low = high;
    high = std::min(largest, 4 * high);
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (beyond(middle) ? high : low) = middle;
  }
  return sign * (relaxed(low).value < relaxed(high).value ? low : high);
}

/// Counts units where every profit is the weight plus a small multiple of one number, as with a bonus for each run: a
/// solution of at most k of these multiples is worth at most the capacity plus k times that number. Elsewhere each item
/// is one unit.
void count_units(std::vector<Item>& items) {
  constexpr int max_units = 64;
  Int128 divisor = 0;
  Int128 largest = 0;
  for (const Item& item : items) {
    const Int128 excess = item.profit - item.weight;
    if (excess < 0) return;
    largest = std::max(largest, excess);
    for (Int128 rest = excess; rest != 0;) divisor = std::exchange(rest, divisor % rest);
  }
  if (divisor == 0 || divisor * max_units < largest) return;
  for (Item& item : items) item.units = static_cast<std::int32_t>((item.profit - item.weight) / divisor);
}

/// A problem is two: solutions of at most as many units as its linear relaxation holds, and of more, each with a shift
/// that makes its bound low. @returns those that may hold a better solution than the incumbent; empty if weights are
/// too large to be shifted. @param bound  becomes the highest of their linear bounds
std::optional<std::vector<Problem>> open_halves(Problem problem, Incumbent& incumbent, const Limits& limits,
                                                Int128& bound) {
  constexpr Int128 shiftable = Int128{1} << 50U;
  Int128 total_weight = 0;
  for (const Item& item : problem.items) total_weight += item.weight;
  if (total_weight >= shiftable) return std::nullopt;
  count_units(problem.items);
  const auto held = static_cast<std::int64_t>(relax(problem.items, problem.capacity, 0, 0).units + 1e-9);
  std::vector<Problem> halves;
  for (const int sign : {1, -1}) {
    if (sign < 0 && held >= units_of(problem.items)) break;
    Problem half = problem;
    half.cardinality = sign > 0 ? held : held + 1;
    half.shift = best_shift(half.items, half.capacity, half.cardinality, sign);
    const Int128 linear = Core(half, incumbent, limits).root_bound();
    if (linear <= incumbent.profit) continue;
    bound = std::max(bound, linear);
    halves.push_back(std::move(half));
  }
  return halves;
}

/// @returns an upper bound on every solution's profit
Int128 solve(Problem problem, Incumbent& incumbent, const Limits& limits) {
  // States of a dynamic program, or nodes of a tree, before the next method is tried.
  const std::uint64_t first_states = 4 * problem.items.size() + 5000;

  constexpr std::uint64_t second_states = 300'000;
  constexpr std::size_t small_core = 1000;
  constexpr std::uint64_t nodes = 2'000'000;
  Core plain(problem, incumbent, limits);
  const Progress progress = plain.run(first_states);
  if (progress == Progress::solved) return incumbent.profit;
  const Int128 plain_bound = plain.upper_bound();
  if (progress == Progress::stopped) return plain_bound;

  // Dynamic programming alone is heading for many states.
  const Problem rest = plain.reduced();
  Int128 bound = incumbent.profit;
  std::optional<std::vector<Problem>> halves = open_halves(rest, incumbent, limits, bound);
  const Int128 gap = plain_bound - incumbent.profit;
  std::list<Core> searches;
  std::vector<Core*> open;
  if (!halves || bound - incumbent.profit > gap - (gap >> 3)) {
    open.push_back(&plain);
  } else {
    for (Problem& half : *halves) open.push_back(&searches.emplace_back(half, incumbent, limits));
  }
  std::erase_if(open, [](Core* search) { return search->run(second_states) == Progress::solved; });
  if (open.empty()) return incumbent.profit;
  if (rest.items.size() <= small_core && DepthFirst(rest, incumbent, limits).run(nodes)) return incumbent.profit;
  bound = incumbent.profit;
  for (Core* search : open) {
    const bool solved = search->run(std::numeric_limits<std::uint64_t>::max()) == Progress::solved;
    if (!solved) bound = std::max(bound, search->upper_bound());
  }
  return std::min(std::max(bound, incumbent.profit), plain_bound);
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
  Int128 cost = 0;
  Problem problem;
  Incumbent best;  // all that fit, if they fit together
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (candidate.profit <= 0 || candidate.cost > budget) continue;
    if (divisor != 1) divisor = std::gcd(divisor, candidate.cost);
    cost += candidate.cost;
    best.profit += candidate.profit;
    best.chosen.push_back(static_cast<std::uint32_t>(i));
  }
  Chosen chosen;
  chosen.bound = best.profit;
  if (cost > budget) {
    problem.capacity = budget / divisor;
    problem.items.reserve(best.chosen.size());
    for (const std::uint32_t i : best.chosen) {
      problem.items.push_back({candidates[i].profit, candidates[i].cost / divisor, 0, i});
    }
    best = {};
    chosen.bound = solve(std::move(problem), best, limits);
  }
  // Summed again: what the searches keep track of is no proof of what the set holds.
  cost = 0;
  for (const std::uint32_t index : best.chosen) {
    chosen.jobs.push_back(candidates[index].job);
    chosen.profit += candidates[index].profit;
    cost += candidates[index].cost;
  }
  if (chosen.profit != best.profit || cost > budget || chosen.bound < chosen.profit) {
    throw Error("the planner failed: the set that it found is not what its search says");
  }
  return chosen;
}

}  // namespace perfpred
