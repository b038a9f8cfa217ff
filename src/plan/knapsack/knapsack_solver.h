// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exact 0/1 knapsack over integer profits and weights, after the literature:
//   S. Martello, P. Toth, Knapsack Problems, Wiley 1990 (bounds, reduction);
//   D. Pisinger, A minimal algorithm for the 0-1 knapsack problem, Oper. Res. 45 (1997): dynamic
//     programming over a core that grows outwards from the break item, sorted only as far as needed;
//   S. Martello, D. Pisinger, P. Toth, Dynamic programming and strong bounds for the 0-1 knapsack
//     problem, Manag. Sci. 45 (1999): surrogate relaxation with a bound on the number of items, and
//     completion of the states by items outside the core.
#include <perfpred/knapsack_planner.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

namespace perfpred::knapsack {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

inline int bit_width(Int128 value) {
  int bits = 0;
  for (auto rest = static_cast<Uint128>(value); rest != 0; rest >>= 1) ++bits;
  return bits;
}

/// Whole numbers that hold any sum of 2^32 doubles, in units of the smallest, times a weight: two's complement.
class Wide {
 public:
  Wide(std::int64_t value = 0) {  // NOLINT(google-explicit-constructor): stands for a built-in integer
    limbs_.fill(value < 0 ? ~std::uint64_t{0} : 0);
    limbs_[0] = static_cast<std::uint64_t>(value);
  }

  Wide& operator+=(const Wide& other) {
    Uint128 carry = 0;
    for (std::size_t i = 0; i < limbs; ++i) {
      carry += static_cast<Uint128>(limbs_[i]) + other.limbs_[i];
      limbs_[i] = static_cast<std::uint64_t>(carry);
      carry >>= 64U;
    }
    return *this;
  }
  Wide& operator-=(const Wide& other) { return *this += -other; }
  friend Wide operator+(Wide a, const Wide& b) { return a += b; }
  friend Wide operator-(Wide a, const Wide& b) { return a -= b; }
  friend Wide operator-(const Wide& a) {
    Wide result;
    for (std::size_t i = 0; i < limbs; ++i) result.limbs_[i] = ~a.limbs_[i];
    return result += 1;
  }
  friend Wide operator*(const Wide& a, std::int64_t factor) {  // factor >= 0
    Wide result;
    Uint128 carry = 0;
    for (std::size_t i = 0; i < limbs; ++i) {
      carry += static_cast<Uint128>(a.limbs_[i]) * static_cast<std::uint64_t>(factor);
      result.limbs_[i] = static_cast<std::uint64_t>(carry);
      carry >>= 64U;
    }
    return result;
  }
  friend Wide operator<<(const Wide& a, int bits) {
    Wide result;
    const auto whole = static_cast<std::size_t>(bits / 64);
    const auto part = static_cast<unsigned>(bits % 64);
    for (std::size_t i = whole; i < limbs; ++i) {
      result.limbs_[i] = a.limbs_[i - whole] << part;
      if (part != 0 && i > whole) result.limbs_[i] |= a.limbs_[i - whole - 1] >> (64U - part);
    }
    return result;
  }
  friend Wide operator>>(const Wide& a, int bits) {
    const std::uint64_t sign = a.negative() ? ~std::uint64_t{0} : 0;
    Wide result;
    const auto whole = static_cast<std::size_t>(bits / 64);
    const auto part = static_cast<unsigned>(bits % 64);
    const auto limb = [&](std::size_t i) { return i < limbs ? a.limbs_[i] : sign; };
    for (std::size_t i = 0; i < limbs; ++i) {
      result.limbs_[i] = limb(i + whole) >> part;
      if (part != 0) result.limbs_[i] |= limb(i + whole + 1) << (64U - part);
    }
    return result;
  }
  friend bool operator==(const Wide&, const Wide&) = default;
  friend std::strong_ordering operator<=>(const Wide& a, const Wide& b) {
    if (a.negative() != b.negative()) return a.negative() ? std::strong_ordering::less : std::strong_ordering::greater;
    for (std::size_t i = limbs; i-- > 0;) {
      if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] <=> b.limbs_[i];
    }
    return std::strong_ordering::equal;
  }

  [[nodiscard]] bool negative() const { return limbs_[limbs - 1] >> 63U != 0; }
  explicit operator Int128() const { return static_cast<Int128>(static_cast<Uint128>(limbs_[1]) << 64U | limbs_[0]); }
  /// Of a number >= 0; infinity where it is too large.
  explicit operator double() const {
    double value = 0;
    for (std::size_t i = limbs; i-- > 0;) value = value * 0x1p64 + static_cast<double>(limbs_[i]);
    return value;
  }
  [[nodiscard]] static Wide from(Int128 value) {
    Wide result(value < 0 ? -1 : 0);
    result.limbs_[0] = static_cast<std::uint64_t>(value);
    result.limbs_[1] = static_cast<std::uint64_t>(static_cast<Uint128>(value) >> 64U);
    return result;
  }
  friend int bit_width(const Wide& a) {
    for (std::size_t i = limbs; i-- > 0;) {
      if (a.limbs_[i] != 0) return static_cast<int>(64 * i) + static_cast<int>(std::bit_width(a.limbs_[i]));
    }
    return 0;
  }

 private:
  static constexpr std::size_t limbs = 36;
  std::array<std::uint64_t, limbs> limbs_;
};

template <class P>
P common_divisor(P a, P b) {
  if constexpr (std::is_same_v<P, Wide>) {
    return 1;
  } else {
    while (b != 0) a = std::exchange(b, static_cast<P>(a % b));
    return a;
  }
}

template <class P>
P profit_from(Int128 value) {
  if constexpr (std::is_same_v<P, Wide>) {
    return Wide::from(value);
  } else {
    return static_cast<P>(value);
  }
}

/// Sign of a/wa - b/wb for a, b >= 0 and wa, wb > 0, exactly.
inline int compare_ratios(std::int64_t a, std::int64_t wa, std::int64_t b, std::int64_t wb) {
  const Int128 left = static_cast<Int128>(a) * wb;
  const Int128 right = static_cast<Int128>(b) * wa;
  return left < right ? -1 : left > right ? 1 : 0;
}
inline int compare_ratios(const Wide& a, std::int64_t wa, const Wide& b, std::int64_t wb) {
  const auto order = a * wb <=> b * wa;
  return std::is_lt(order) ? -1 : std::is_gt(order) ? 1 : 0;
}
inline int compare_ratios(Int128 a, std::int64_t wa, Int128 b, std::int64_t wb) {
  // 128 x 64 bits need 192: compare the upper 128 bits, then the lower 64.
  const auto product = [](Int128 value, std::int64_t factor, Uint128& high, std::uint64_t& low) {
    const Uint128 lower = static_cast<Uint128>(static_cast<std::uint64_t>(value)) * static_cast<std::uint64_t>(factor);
    const Uint128 upper = static_cast<Uint128>(static_cast<std::uint64_t>(static_cast<Uint128>(value) >> 64U)) *
                          static_cast<std::uint64_t>(factor);
    low = static_cast<std::uint64_t>(lower);
    high = upper + (lower >> 64U);
  };
  Uint128 left_high = 0;
  Uint128 right_high = 0;
  std::uint64_t left_low = 0;
  std::uint64_t right_low = 0;
  product(a, wb, left_high, left_low);
  product(b, wa, right_high, right_low);
  if (left_high != right_high) return left_high < right_high ? -1 : 1;
  return left_low < right_low ? -1 : left_low > right_low ? 1 : 0;
}

/// An item of the integer problem. `ratio` approximates profit per (surrogate) weight.
template <class P>
struct Item {
  double ratio;
  P profit;
  std::int64_t weight;     ///< 0 < weight <= capacity
  std::uint32_t index;     ///< the caller's
  std::int32_t units = 1;  ///< what the surrogate relaxation counts
};

/// Best solution so far; shared by all stages.
template <class P>
struct Incumbent {
  P profit = 0;
  std::vector<std::uint32_t> chosen;
};

struct Limits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::size_t memory_bytes = std::size_t{1} << 30U;

  [[nodiscard]] static Limits from(const PlanLimits& given) {
    using std::chrono::steady_clock;
    Limits limits;
    limits.memory_bytes = given.memory_bytes;
    constexpr double forever = 1e9;
    if (given.time_sec < forever) {
      const std::chrono::duration<double> time(given.time_sec);
      limits.deadline = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(time);
    }
    return limits;
  }

  [[nodiscard]] bool expired() const { return std::chrono::steady_clock::now() >= deadline; }

  /// The same for a solver that starts now.
  [[nodiscard]] PlanLimits remaining() const {
    PlanLimits left;
    left.memory_bytes = memory_bytes;
    if (deadline == std::chrono::steady_clock::time_point::max()) return left;
    const std::chrono::duration<double> time = deadline - std::chrono::steady_clock::now();
    left.time_sec = std::max(0.0, time.count());
    return left;
  }
};

/// One problem: max profit, sum of weights <= capacity, plus what is already decided. The surrogate form
/// adds `shift` to each weight and shift*cardinality to the capacity: valid for solutions of at most
/// (shift > 0) or at least (shift < 0) `cardinality` units.
template <class P>
struct Problem {
  std::vector<Item<P>> items;
  std::int64_t capacity = 0;
  P fixed_profit = 0;
  std::vector<std::uint32_t> fixed;  ///< items that every better solution holds
  std::int64_t shift = 0;
  std::int64_t cardinality = 0;
};

enum class Progress { solved, growing, stopped };

/// Dynamic programming over the expanding core of one problem.
template <class P>
class CoreSolver {
 public:
  CoreSolver(Problem<P>& problem, Incumbent<P>& incumbent, const Limits& limits)
      : problem_(problem),
        items_(problem.items),
        incumbent_(incumbent),
        limits_(limits),
        best_(incumbent.profit - problem.fixed_profit) {
    find_break();
    set_scale();
  }

  /// Runs until nothing better can exist, a limit is met, or (Growing) the work passes `work_limit` states.
  Progress run(std::uint64_t work_limit);

  /// No solution of this problem, fixed part included, is worth more (unless the incumbent is).
  [[nodiscard]] P upper_bound() const;

  /// The linear bound of the whole problem.
  [[nodiscard]] P root_bound() const;

  /// Drops every item whose choice is settled by its bound; the rest is a smaller problem without surrogate.
  [[nodiscard]] Problem<P> reduced() const;

 private:
  struct State {
    std::int64_t weight;  // minus the capacity: feasible when <= 0
    P profit;
    std::uint64_t flips;   // of the current block of 64 steps
    std::uint32_t parent;  // flips of earlier blocks
    std::int32_t count;    // units held
  };
  struct Past {
    std::uint64_t flips;
    std::uint32_t parent;
  };
  struct Range {
    std::size_t first;
    std::size_t last;
  };
  /// A buffer that is not initialised before it is written.
  class States {
   public:
    void prepare(std::size_t capacity) {
      if (capacity > capacity_) {
        capacity_ = capacity + capacity / 4;
        data_.reset();
        data_ = std::make_unique_for_overwrite<State[]>(capacity_);
      }
      size_ = 0;
    }
    [[nodiscard]] State* begin() { return data_.get(); }
    [[nodiscard]] State* end() { return data_.get() + size_; }
    [[nodiscard]] const State* begin() const { return data_.get(); }
    [[nodiscard]] const State* end() const { return data_.get() + size_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }
    void set_size(std::size_t size) { size_ = size; }
    void swap(States& other) noexcept {
      data_.swap(other.data_);
      std::swap(size_, other.size_);
      std::swap(capacity_, other.capacity_);
    }

   private:
    std::unique_ptr<State[]> data_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
  };
  static constexpr std::uint32_t kRoot = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kSortable = 96;

  [[nodiscard]] std::int64_t weight_of(const Item<P>& item) const { return item.weight + problem_.shift * item.units; }
  [[nodiscard]] bool before(const Item<P>& a, const Item<P>& b) const;
  void find_break();
  void set_scale();
  [[nodiscard]] Int128 scaled(P profit) const {
    if (scale_ >= 0) return static_cast<Int128>(profit) << scale_;
    return static_cast<Int128>(profit >> -scale_) + 1;
  }
  [[nodiscard]] P unscaled(Int128 value) const {
    return scale_ >= 0 ? profit_from<P>(value >> scale_) : profit_from<P>(value + 1) << -scale_;
  }
  [[nodiscard]] Int128 threshold() const {
    if (scale_ >= 0) return (static_cast<Int128>(best_) + 1) << scale_;
    return static_cast<Int128>(best_ >> -scale_) + 1;
  }
  [[nodiscard]] std::int64_t slack_of(const State& state) const {
    return problem_.shift * (problem_.cardinality - state.count) - state.weight;
  }
  /// Linear bound, scaled, of a partial solution whose open items are worth at most `gain` a unit of slack
  /// and cost at least `loss` a unit of overweight.
  [[nodiscard]] Int128 bound(P profit, std::int64_t slack, std::int64_t gain, std::int64_t loss) const {
    return scaled(profit) + static_cast<Int128>(slack) * (slack >= 0 ? gain : loss);
  }
  [[nodiscard]] std::int64_t ratio_up(const Item<P>& item) const;
  [[nodiscard]] std::int64_t ratio_down(const Item<P>& item) const;
  [[nodiscard]] bool settled(const Item<P>& item, bool held) const;
  void supply(std::vector<Range>& ranges, std::vector<Item<P>>& ready, bool held);
  void set_slopes();
  void step(const Item<P>& item, bool held);
  std::size_t complete_states();  // returns how many items it tried
  void keep_best(const State& state, const Item<P>* extra);
  void collect_flips(const State& state, std::vector<std::uint32_t>& out) const;
  void new_block();
  void compact_history();
  void publish();
  [[nodiscard]] std::size_t memory_after_step() const {
    const std::size_t next = std::max(next_.capacity(), 2 * states_.size() + states_.size() / 2);
    return (states_.capacity() + next) * sizeof(State) + 2 * history_.capacity() * sizeof(Past);
  }

  Problem<P>& problem_;
  std::vector<Item<P>>& items_;
  Incumbent<P>& incumbent_;
  const Limits& limits_;
  P best_;  // incumbent without the fixed part; may be negative
  bool improved_ = false;

  std::size_t break_ = 0;
  P break_profit_ = 0;
  std::int64_t break_weight_ = 0;  // minus capacity
  std::int64_t break_units_ = 0;
  int scale_ = 0;
  std::int64_t break_gain_ = 0;
  std::int64_t break_loss_ = 0;
  std::int64_t gain_ = 0;
  std::int64_t loss_ = 0;
  bool left_open_ = false;
  bool gain_is_current_ = false;
  bool loss_is_current_ = false;

  std::vector<Range> left_;  // unsorted, nearest to the break item last
  std::vector<Range> right_;
  std::vector<Item<P>> left_ready_;  // sorted, next one last
  std::vector<Item<P>> right_ready_;
  std::vector<Item<P>> steps_;
  States states_;
  States next_;
  std::vector<Past> history_;
  std::size_t history_limit_ = std::size_t{1} << 22U;
  bool take_left_ = false;
  std::size_t complete_at_ = 500;
  std::uint64_t complete_after_ = 0;
  std::size_t block_first_ = 0;            // step at which the current block of 64 begins
  std::vector<std::uint32_t> best_flips_;  // callers' indices that differ from the break solution
};

template <class P>
bool CoreSolver<P>::before(const Item<P>& a, const Item<P>& b) const {
  // The ratios carry a few units of rounding: what lies that close is compared exactly.
  const double margin = 1e-15 * (a.ratio + b.ratio);
  if (a.ratio - b.ratio > margin) return true;
  if (b.ratio - a.ratio > margin) return false;
  if (weight_of(a) <= 0 || weight_of(b) <= 0) return false;
  const int order = compare_ratios(a.profit, weight_of(a), b.profit, weight_of(b));
  if (order != 0 || problem_.shift == 0) return order > 0;
  // Where the relaxation cannot tell, the problem itself can: partial solutions then start near the capacity.
  return compare_ratios(a.profit, a.weight, b.profit, b.weight) > 0;
}

template <class P>
void CoreSolver<P>::find_break() {
  for (auto& item : items_) {
    const std::int64_t weight = weight_of(item);
    item.ratio = weight > 0 ? static_cast<double>(item.profit) / static_cast<double>(weight) : 1e300;
  }
  const auto less = [this](const Item<P>& a, const Item<P>& b) { return before(a, b); };
  const Int128 capacity =
      static_cast<Int128>(problem_.capacity) + static_cast<Int128>(problem_.shift) * problem_.cardinality;
  Int128 used = 0;
  std::size_t first = 0;
  std::size_t last = items_.size();
  const auto take = [&](std::size_t from, std::size_t to) {
    if (from == to) return;
    left_.push_back({from, to});
    for (std::size_t i = from; i < to; ++i) {
      used += weight_of(items_[i]);
      break_profit_ += items_[i].profit;
      break_weight_ += items_[i].weight;
      break_units_ += items_[i].units;
    }
  };
  const auto leave = [&](std::size_t from, std::size_t to) {
    if (from != to) right_.push_back({from, to});
  };
  const auto weight_between = [&](std::size_t from, std::size_t to) {
    Int128 sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += weight_of(items_[i]);
    return sum;
  };
  const auto at = [&](std::size_t position) { return items_.begin() + static_cast<std::ptrdiff_t>(position); };
  break_weight_ = -problem_.capacity;
  if (problem_.shift < 0) {
    // Items of no surrogate weight cost nothing there: every solution of the relaxation holds them.
    const auto middle =
        std::partition(items_.begin(), items_.end(), [this](const Item<P>& item) { return weight_of(item) <= 0; });
    first = static_cast<std::size_t>(middle - items_.begin());
    take(0, first);
  }
  while (last - first > kSortable) {
    const std::size_t step = (last - first) / 8;
    Item<P> sample[7];
    for (std::size_t k = 0; k < 7; ++k) sample[k] = items_[first + (k + 1) * step];
    std::nth_element(sample, sample + 3, sample + 7, less);
    const Item<P> pivot = sample[3];
    const auto better_end =
        std::partition(at(first), at(last), [&](const Item<P>& item) { return before(item, pivot); });
    const auto middle = static_cast<std::size_t>(better_end - items_.begin());
    const Int128 better = weight_between(first, middle);
    if (used + better > capacity) {
      leave(middle, last);
      last = middle;
      continue;
    }
    take(first, middle);
    first = middle;
    const auto equal_end =
        std::partition(at(first), at(last), [&](const Item<P>& item) { return !before(pivot, item); });
    const auto end = static_cast<std::size_t>(equal_end - items_.begin());
    if (used + weight_between(first, end) > capacity) {
      leave(end, last);
      last = end;
      break;  // all equal: any order is sorted
    }
    take(first, end);
    first = end;
  }
  if (last - first <= kSortable) std::sort(at(first), at(last), less);
  Int128 filled = used;
  break_ = first;
  while (break_ < last && filled + weight_of(items_[break_]) <= capacity) filled += weight_of(items_[break_++]);
  take(first, break_);
  leave(break_, last);
}

template <class P>
void CoreSolver<P>::set_scale() {
  P total = 0;
  for (const auto& item : items_) total += item.profit;
  scale_ = 122 - bit_width(total);
  if (break_ == items_.size()) return;
  const Item<P>& item = items_[break_];
  assert(weight_of(item) > 0);
  scale_ = std::min(scale_, 60 - bit_width(item.profit) + bit_width(weight_of(item)));
  break_gain_ = ratio_up(item);
  break_loss_ = ratio_down(item);
}

template <class P>
std::int64_t CoreSolver<P>::ratio_up(const Item<P>& item) const {
  return static_cast<std::int64_t>((scaled(item.profit) + weight_of(item) - 1) / weight_of(item));
}

template <class P>
std::int64_t CoreSolver<P>::ratio_down(const Item<P>& item) const {
  const Int128 profit =
      scale_ >= 0 ? static_cast<Int128>(item.profit) << scale_ : static_cast<Int128>(item.profit >> -scale_);
  const Int128 ratio = profit / weight_of(item);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return ratio > kMost ? kMost : static_cast<std::int64_t>(ratio);
}

template <class P>
bool CoreSolver<P>::settled(const Item<P>& item, bool held) const {
  const std::int64_t slack = problem_.shift * (problem_.cardinality - break_units_) - break_weight_;
  const std::int64_t weight = weight_of(item);
  const Int128 flipped = held ? bound(break_profit_ - item.profit, slack + weight, break_gain_, break_loss_)
                              : bound(break_profit_ + item.profit, slack - weight, break_gain_, break_loss_);
  return flipped < threshold();
}

template <class P>
void CoreSolver<P>::supply(std::vector<Range>& ranges, std::vector<Item<P>>& ready, bool held) {
  const auto less = [this](const Item<P>& a, const Item<P>& b) { return before(a, b); };
  while (ready.empty() && !ranges.empty()) {
    const Range range = ranges.back();
    ranges.pop_back();
    const auto first = items_.begin() + static_cast<std::ptrdiff_t>(range.first);
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(range.last);
    const auto last = std::partition(first, end, [&](const Item<P>& item) { return !settled(item, held); });
    const auto size = static_cast<std::size_t>(last - first);
    if (size > kSortable) {
      std::nth_element(first, first + static_cast<std::ptrdiff_t>(size / 2), last, less);
      const Range better{range.first, range.first + size / 2};
      const Range worse{range.first + size / 2, range.first + size};
      ranges.push_back(held ? better : worse);
      ranges.push_back(held ? worse : better);
      continue;
    }
    ready.assign(first, last);
    std::sort(ready.begin(), ready.end(), less);
    if (!held) std::reverse(ready.begin(), ready.end());
  }
}

template <class P>
void CoreSolver<P>::set_slopes() {
  if (!gain_is_current_) gain_ = right_ready_.empty() ? 0 : ratio_up(right_ready_.back());
  if (!loss_is_current_) {
    left_open_ = !left_ready_.empty() && weight_of(left_ready_.back()) > 0;
    loss_ = left_open_ ? ratio_down(left_ready_.back()) : 0;
  }
  gain_is_current_ = loss_is_current_ = true;
}

template <class P>
void CoreSolver<P>::step(const Item<P>& item, bool held) {
  const std::uint64_t bit = std::uint64_t{1} << (steps_.size() % 64);
  steps_.push_back(item);
  const std::int64_t weight = held ? -item.weight : item.weight;
  const P profit = held ? -item.profit : item.profit;
  const std::int32_t count = held ? -item.units : item.units;
  next_.prepare(2 * states_.size());
  State* out = next_.begin();
  const State* old = states_.begin();
  const State* const end = states_.end();
  const State* changed = old;
  // Sums of one feasible solution's items stay within the capacity, so no state above twice it is needed.
  const State* changed_end = end;
  if (!held) {
    const std::int64_t most = problem_.capacity - item.weight;
    if (problem_.shift == 0)
      changed_end =
          std::upper_bound(old, end, most, [](std::int64_t limit, const State& s) { return limit < s.weight; });
  }
  Int128 least = threshold();
  P last_profit = -1;
  State best_state{};
  bool better = false;
  while (old != end || changed != changed_end) {
    State state;
    bool fresh = false;
    if (changed == changed_end) {
      state = *old++;
    } else {
      state = *changed;
      state.weight += weight;
      state.profit += profit;
      state.count += count;
      state.flips |= bit;
      fresh = true;
      if (old != end &&
          (old->weight < state.weight ||
           (old->weight == state.weight &&
            (old->profit > state.profit || (old->profit == state.profit && old->count <= state.count))))) {
        state = *old++;
        fresh = false;
      } else {
        ++changed;
      }
    }
    if (state.profit <= last_profit) continue;
    last_profit = state.profit;
    if (fresh && state.weight <= 0 && state.profit > best_) {
      best_ = state.profit;
      best_state = state;
      better = true;
      least = threshold();
    }
    const std::int64_t slack = slack_of(state);
    if (slack < 0 && !left_open_) continue;
    if (bound(state.profit, slack, gain_, loss_) < least) continue;
    *out++ = state;
  }
  next_.set_size(static_cast<std::size_t>(out - next_.begin()));
  states_.swap(next_);
  if (better) keep_best(best_state, nullptr);
  if (steps_.size() % 64 == 0) new_block();
}

template <class P>
void CoreSolver<P>::collect_flips(const State& state, std::vector<std::uint32_t>& out) const {
  std::size_t first = block_first_;
  std::uint64_t flips = state.flips;
  std::uint32_t parent = state.parent;
  while (true) {
    for (std::size_t bit = 0; flips != 0; ++bit, flips >>= 1U)
      if ((flips & 1U) != 0) out.push_back(steps_[first + bit].index);
    if (parent == kRoot) return;
    flips = history_[parent].flips;
    parent = history_[parent].parent;
    first -= 64;
  }
}

template <class P>
void CoreSolver<P>::keep_best(const State& state, const Item<P>* extra) {
  improved_ = true;
  best_flips_.clear();
  collect_flips(state, best_flips_);
  if (extra != nullptr) best_flips_.push_back(extra->index);
}

template <class P>
void CoreSolver<P>::new_block() {
  if (history_.size() + states_.size() > history_limit_) compact_history();
  for (State& state : states_) {
    history_.push_back({state.flips, state.parent});
    state.parent = static_cast<std::uint32_t>(history_.size() - 1);
    state.flips = 0;
  }
  block_first_ = steps_.size();
}

template <class P>
void CoreSolver<P>::compact_history() {
  // Parents always lie before their children, so one sweep backwards marks and one forwards moves.
  std::vector<std::uint32_t> place(history_.size(), 0);
  for (const State& state : states_)
    if (state.parent != kRoot) place[state.parent] = 1;
  for (std::size_t i = history_.size(); i-- > 0;)
    if (place[i] != 0 && history_[i].parent != kRoot) place[history_[i].parent] = 1;
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < history_.size(); ++i) {
    if (place[i] == 0) continue;
    Past past = history_[i];
    if (past.parent != kRoot) past.parent = place[past.parent];
    history_[kept] = past;
    place[i] = kept++;
  }
  history_.resize(kept);
  for (State& state : states_)
    if (state.parent != kRoot) state.parent = place[state.parent];
  history_limit_ = std::max(history_limit_, 2 * (history_.size() + states_.size()));
}

template <class P>
std::size_t CoreSolver<P>::complete_states() {
  // Items from all over: those near the break item have nearly its weight where profits follow weights.
  constexpr std::size_t most_items = 40000;
  std::size_t open = right_ready_.size() + left_ready_.size();
  for (const Range& range : right_) open += range.last - range.first;
  for (const Range& range : left_) open += range.last - range.first;
  const std::size_t stride = 1 + open / most_items;
  std::size_t tried = 0;
  const auto try_item = [&](const Item<P>& item, bool held) {
    ++tried;
    const std::int64_t room = held ? item.weight : -item.weight;
    const State* place = std::upper_bound(states_.begin(), states_.end(), room,
                                          [](std::int64_t most, const State& state) { return most < state.weight; });
    if (place == states_.begin()) return;
    --place;
    const P profit = held ? place->profit - item.profit : place->profit + item.profit;
    if (profit <= best_) return;
    best_ = profit;
    keep_best(*place, &item);
  };
  const auto try_side = [&](const std::vector<Item<P>>& ready, const std::vector<Range>& ranges, bool held) {
    for (auto item = ready.rbegin(); item != ready.rend(); ++item) try_item(*item, held);
    for (auto range = ranges.rbegin(); range != ranges.rend(); ++range)
      for (std::size_t i = range->first; i < range->last; i += stride) try_item(items_[i], held);
  };
  try_side(right_ready_, right_, false);
  try_side(left_ready_, left_, true);
  return tried;
}

template <class P>
Progress CoreSolver<P>::run(std::uint64_t work_limit) {
  best_ = std::max(best_, incumbent_.profit - problem_.fixed_profit);  // another search may have found more
  if (states_.size() == 0 && steps_.empty()) {
    states_.prepare(1);
    states_.set_size(1);
    *states_.begin() = {break_weight_, break_profit_, 0, kRoot, static_cast<std::int32_t>(break_units_)};
    if (break_weight_ <= 0 && break_profit_ > best_) {
      best_ = break_profit_;
      keep_best(*states_.begin(), nullptr);
    }
  }
  constexpr std::uint64_t work_per_look = 10'000;
  std::uint64_t work = 0;
  std::uint64_t clock_after = 0;
  while (states_.size() != 0) {
    supply(right_, right_ready_, false);
    supply(left_, left_ready_, true);
    if (right_ready_.empty() && left_ready_.empty()) {
      states_.set_size(0);
      break;
    }
    if (states_.size() >= complete_at_ && work >= complete_after_) {
      // As much work as the steps since the last time, at most.
      complete_after_ = work + 4 * complete_states();
      complete_at_ = states_.size() + states_.size() / 2;
    }
    if (work > work_limit) {
      set_slopes();
      publish();
      return Progress::growing;
    }
    // Reading the clock takes as long as a short step.
    const bool late = work >= clock_after && limits_.expired();
    if (work >= clock_after) clock_after = work + work_per_look;
    if (late || memory_after_step() > limits_.memory_bytes) {
      set_slopes();
      publish();
      return Progress::stopped;
    }
    const bool held = right_ready_.empty() || (!left_ready_.empty() && take_left_);
    take_left_ = !take_left_;
    std::vector<Item<P>>& ready = held ? left_ready_ : right_ready_;
    const Item<P> item = ready.back();
    ready.pop_back();
    (held ? loss_is_current_ : gain_is_current_) = false;
    ++work;
    if (settled(item, held)) continue;
    supply(right_, right_ready_, false);
    supply(left_, left_ready_, true);
    set_slopes();
    work += states_.size();
    step(item, held);
  }
  publish();
  return Progress::solved;
}

template <class P>
P CoreSolver<P>::root_bound() const {
  const std::int64_t slack = problem_.shift * (problem_.cardinality - break_units_) - break_weight_;
  return unscaled(bound(break_profit_, slack, break_gain_, break_loss_)) + problem_.fixed_profit;
}

template <class P>
P CoreSolver<P>::upper_bound() const {
  P most = best_;
  for (const State& state : states_) {
    const std::int64_t slack = slack_of(state);
    if (slack < 0 && !left_open_) continue;
    const Int128 value = bound(state.profit, slack, gain_, loss_);
    most = std::max(most, unscaled(value));
  }
  return most + problem_.fixed_profit;
}

template <class P>
void CoreSolver<P>::publish() {
  if (!improved_) return;
  improved_ = false;
  incumbent_.profit = best_ + problem_.fixed_profit;
  std::vector<std::uint32_t>& chosen = incumbent_.chosen;
  chosen = problem_.fixed;
  std::sort(best_flips_.begin(), best_flips_.end());
  std::vector<std::uint32_t> removed;
  for (std::size_t i = 0; i < break_; ++i) {
    const std::uint32_t index = items_[i].index;
    if (std::binary_search(best_flips_.begin(), best_flips_.end(), index)) {
      removed.push_back(index);
    } else {
      chosen.push_back(index);
    }
  }
  std::sort(removed.begin(), removed.end());
  std::set_difference(best_flips_.begin(), best_flips_.end(), removed.begin(), removed.end(),
                      std::back_inserter(chosen));
}

template <class P>
Problem<P> CoreSolver<P>::reduced() const {
  Problem<P> rest;
  rest.fixed_profit = problem_.fixed_profit;
  rest.fixed = problem_.fixed;
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
  rest.capacity = static_cast<std::int64_t>(capacity);
  std::erase_if(rest.items, [&](const Item<P>& item) { return item.weight > rest.capacity; });
  return rest;
}

/// Value of the linear relaxation with weights + shift against capacity + shift*cardinality, and how many items it
/// holds.
struct RelaxedSum {
  double value = 0;
  double count = 0;
};

template <class P>
class SurrogateDual {
 public:
  explicit SurrogateDual(const Problem<P>& problem) : capacity_(static_cast<double>(problem.capacity)) {
    entries_.reserve(problem.items.size());
    for (const Item<P>& item : problem.items) {
      entries_.push_back(
          {0, static_cast<double>(item.profit), static_cast<double>(item.weight), static_cast<double>(item.units)});
      heaviest_ = std::max(heaviest_, item.weight);
      units_ += item.units;
    }
  }

  [[nodiscard]] std::int64_t units() const { return units_; }

  /// Units in the linear relaxation, rounded down.
  [[nodiscard]] std::int64_t relaxed_units() { return static_cast<std::int64_t>(relax(0, 0).count + 1e-9); }

  /// The whole number that gives about the least bound for solutions of at most (sign 1) or at least (sign -1)
  /// `cardinality` units. Any number gives a valid one.
  [[nodiscard]] std::int64_t best_shift(std::int64_t cardinality, int sign) {
    const auto wanted = static_cast<double>(cardinality);
    // The relaxation's count falls as the shift grows.
    const auto beyond = [&](std::int64_t magnitude) {
      const double count = relax(sign * magnitude, cardinality).count;
      return sign > 0 ? count <= wanted : count >= wanted;
    };
    if (beyond(0)) return 0;
    // All units together, shifted, stay within 62 bits.
    constexpr std::int64_t most_shifted = std::int64_t{1} << 61U;
    const std::int64_t most = std::min(64 * heaviest_, most_shifted / units_ / 4);
    std::int64_t low = 0;
    std::int64_t high = std::min(most, std::max<std::int64_t>(1, heaviest_ / 16));
    while (!beyond(high)) {
      if (high >= most) return sign * high;
      low = high;
      high *= 4;
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (beyond(middle) ? high : low) = middle;
    }
    return relax(sign * low, cardinality).value < relax(sign * high, cardinality).value ? sign * low : sign * high;
  }

 private:
  struct Entry {
    double ratio;
    double profit;
    double weight;
    double units;
  };

  RelaxedSum relax(std::int64_t shift, std::int64_t cardinality) {
    const auto extra = static_cast<double>(shift);
    double room = capacity_ + extra * static_cast<double>(cardinality);
    RelaxedSum sum;
    for (Entry& entry : entries_) {
      const double weight = entry.weight + extra * entry.units;
      entry.ratio = weight > 0 ? entry.profit / weight : 1e300;
    }
    auto first = entries_.begin();
    auto last = entries_.end();
    if (shift < 0) {
      const auto middle = std::partition(first, last, [](const Entry& entry) { return entry.ratio == 1e300; });
      for (; first != middle; ++first) add(*first, extra, 1, room, sum);
    }
    const auto less = [](const Entry& a, const Entry& b) { return a.ratio > b.ratio; };
    while (last - first > 32) {
      const auto step = (last - first) / 8;
      double sample[7];
      for (int k = 0; k < 7; ++k) sample[k] = (first + (k + 1) * step)->ratio;
      std::nth_element(sample, sample + 3, sample + 7);
      const double pivot = sample[3];
      auto middle = std::partition(first, last, [&](const Entry& entry) { return entry.ratio > pivot; });
      double weight = 0;
      for (auto entry = first; entry != middle; ++entry) weight += entry->weight + extra * entry->units;
      if (weight > room) {
        last = middle;
        continue;
      }
      for (; first != middle; ++first) add(*first, extra, 1, room, sum);
      middle = std::partition(first, last, [&](const Entry& entry) { return entry.ratio == pivot; });
      for (; first != middle; ++first) {
        if (first->weight + extra * first->units > room) {
          add(*first, extra, std::max(0.0, room) / (first->weight + extra * first->units), room, sum);
          return sum;
        }
        add(*first, extra, 1, room, sum);
      }
    }
    std::sort(first, last, less);
    for (; first != last; ++first) {
      if (first->weight + extra * first->units > room) {
        add(*first, extra, std::max(0.0, room) / (first->weight + extra * first->units), room, sum);
        return sum;
      }
      add(*first, extra, 1, room, sum);
    }
    return sum;
  }

  static void add(const Entry& entry, double extra, double part, double& room, RelaxedSum& sum) {
    sum.value += part * entry.profit;
    sum.count += part * entry.units;
    room -= part * (entry.weight + extra * entry.units);
  }

  std::vector<Entry> entries_;
  double capacity_;
  std::int64_t heaviest_ = 0;
  std::int64_t units_ = 0;
};

/// Where every profit is the weight plus a small multiple of one number, these multiples are what is worth counting:
/// with at most k of them, a solution is worth at most the capacity plus k of that number. Elsewhere each item counts.
template <class P>
void count_units(std::vector<Item<P>>& items) {
  constexpr int most_units = 64;
  P divisor = 0;
  P largest = 0;
  for (const Item<P>& item : items) {
    const P excess = item.profit - P(item.weight);
    if (excess < 0) return;
    largest = std::max(largest, excess);
    divisor = common_divisor(divisor, excess);
    if (divisor == 1) return;
  }
  if (divisor == 0 || divisor * most_units < largest) return;
  for (Item<P>& item : items) {
    item.units = 0;
    for (P excess = item.profit - P(item.weight); excess > 0; excess -= divisor) ++item.units;
  }
}

/// Depth first over items in order of their ratios with Dantzig's bound, the choice where dynamic programming meets
/// many different sums of few items.
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
    for (const Item<P>& item : items_) {
      weights_.push_back(weights_.back() + item.weight);
      profits_.push_back(profits_.back() + item.profit);
    }
    lightest_.assign(items_.size() + 1, std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = items_.size(); i-- > 0;) lightest_[i] = std::min(lightest_[i + 1], items_[i].weight);
  }

  /// @returns whether the incumbent is proved
  bool run(std::uint64_t most_nodes) {
    nodes_left_ = most_nodes;
    descend(0, problem_.capacity, 0);
    return nodes_left_ != 0;
  }

 private:
  void descend(std::size_t at, std::int64_t room, P profit) {
    while (nodes_left_ != 0) {
      if (--nodes_left_ % 4096 == 0 && limits_.expired()) nodes_left_ = 0;
      const auto full = static_cast<std::size_t>(
          std::upper_bound(weights_.begin() + static_cast<std::ptrdiff_t>(at), weights_.end(), weights_[at] + room) -
          weights_.begin() - 1);
      const P greedy = profit + profits_[full] - profits_[at];
      if (greedy > best_) keep(at, full, greedy);
      if (full == items_.size() || room < lightest_[at]) return;
      const Item<P>& split = items_[full];
      if (greedy + part(split, static_cast<std::int64_t>(room - (weights_[full] - weights_[at]))) <= best_) return;
      const Item<P>& item = items_[at];
      if (item.weight <= room) {
        taken_.push_back(item.index);
        descend(at + 1, room - item.weight, profit + item.profit);
        taken_.pop_back();
      }
      ++at;
    }
  }

  /// What a part of an item may be worth, at most.
  static P part(const Item<P>& item, std::int64_t room) {
    if constexpr (std::is_same_v<P, std::int64_t>) {
      return static_cast<P>(static_cast<Int128>(item.profit) * room / item.weight);
    } else {
      const long double share = static_cast<long double>(room) / static_cast<long double>(item.weight);
      return static_cast<P>(static_cast<long double>(item.profit) * share * (1 + 1e-15L));
    }
  }

  void keep(std::size_t at, std::size_t full, P profit) {
    best_ = profit;
    incumbent_.profit = profit + problem_.fixed_profit;
    incumbent_.chosen = problem_.fixed;
    incumbent_.chosen.insert(incumbent_.chosen.end(), taken_.begin(), taken_.end());
    for (std::size_t i = at; i < full; ++i) incumbent_.chosen.push_back(items_[i].index);
  }

  const Problem<P>& problem_;
  std::vector<Item<P>> items_;
  Incumbent<P>& incumbent_;
  const Limits& limits_;
  P best_;                             // incumbent without the fixed part
  std::vector<Int128> weights_ = {0};  // of the items before
  std::vector<P> profits_ = {0};
  std::vector<std::int64_t> lightest_;  // from an item on
  std::vector<std::uint32_t> taken_;
  std::uint64_t nodes_left_ = 0;
};

/// Solves a problem as far as the limits allow. @returns an upper bound on every solution's profit
/// @param patient  whether a method gets its chance before another one is thought of
template <class P>
P solve(Problem<P> problem, Incumbent<P>& incumbent, const Limits& limits, bool patient = true) {
  constexpr auto kNoLimit = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t patience = patient ? 4 * problem.items.size() + 5000 : 0;
  auto plain = std::make_unique<CoreSolver<P>>(problem, incumbent, limits);
  Progress progress = plain->run(patience);
  if (progress == Progress::solved) return incumbent.profit;
  const P plain_bound = plain->upper_bound();
  if (progress == Progress::stopped) return plain_bound;

  // Dynamic programming alone is heading for many states. Few items are soon searched.
  Problem<P> rest = plain->reduced();
  const auto search_depth_first = [&](std::size_t most_items, std::uint64_t most_nodes) {
    if constexpr (std::is_same_v<P, Wide>) {
      return false;
    } else {
      return rest.items.size() <= most_items && DepthFirst<P>(rest, incumbent, limits).run(most_nodes);
    }
  };
  if (patient && search_depth_first(64, 100'000)) return incumbent.profit;

  // Is there more in a bound on the number of items?
  Int128 total_weight = 0;
  for (const Item<P>& item : rest.items) total_weight += item.weight;
  std::vector<Problem<P>> branches;
  P branch_bound = incumbent.profit;
  if (total_weight < Int128{1} << 50U) {
    count_units(rest.items);
    SurrogateDual<P> dual(rest);
    const std::int64_t held = dual.relaxed_units();
    for (const int sign : {1, -1}) {
      Problem<P> branch = rest;
      branch.cardinality = sign > 0 ? held : held + 1;
      if (branch.cardinality > dual.units()) continue;
      branch.shift = dual.best_shift(branch.cardinality, sign);
      CoreSolver<P> solver(branch, incumbent, limits);
      const P bound = solver.root_bound();
      if (bound <= incumbent.profit) continue;
      branch_bound = std::max(branch_bound, bound);
      branches.push_back(std::move(branch));
    }
    if (branches.empty()) return incumbent.profit;
  }
  const P gap = plain_bound - incumbent.profit;
  std::vector<std::unique_ptr<CoreSolver<P>>> searches;
  if (branches.empty() || branch_bound - incumbent.profit > gap - (gap >> 3)) {
    searches.push_back(std::move(plain));
  } else {
    plain.reset();
    for (Problem<P>& branch : branches) {
      searches.push_back(std::make_unique<CoreSolver<P>>(branch, incumbent, limits));
    }
  }
  bool open = false;
  for (auto& search : searches) {
    constexpr std::uint64_t short_work = 300'000;
    if (search->run(patient ? short_work : 0) == Progress::solved) {
      search.reset();
    } else {
      open = true;
    }
  }
  if (open && search_depth_first(1000, patient ? 2'000'000 : 50)) return incumbent.profit;
  P bound = incumbent.profit;
  for (auto& search : searches) {
    if (search != nullptr && search->run(kNoLimit) != Progress::solved) bound = std::max(bound, search->upper_bound());
    search.reset();
    bound = std::max(bound, incumbent.profit);
  }
  return std::min(bound, plain_bound);
}

}  // namespace perfpred::knapsack
