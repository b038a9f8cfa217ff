// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "plan/knapsack/problem.h"
#include "plan/limits.h"

namespace perfpred::knapsack {

enum class Progress { solved, growing, stopped };

/// Dynamic programming over the expanding core of one 0/1 knapsack problem:
///   S. Martello, P. Toth, Knapsack Problems, Wiley 1990 (bounds, reduction);
///   D. Pisinger, A minimal algorithm for the 0-1 knapsack problem, Oper. Res. 45 (1997): the core grows outwards from
///     the break item, sorted only as far as needed;
///   S. Martello, D. Pisinger, P. Toth, Dynamic programming and strong bounds for the 0-1 knapsack problem, Manag. Sci.
///     45 (1999): surrogate relaxation, completion of the states by items outside the core.
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

  /// Runs until nothing better can exist (solved), a limit is met (stopped), or the run has made more than `max_work`
  /// states (growing).
  Progress run(std::uint64_t max_work);

  /// No solution of this problem, fixed part included, is worth more, unless it is the incumbent.
  [[nodiscard]] P upper_bound() const;

  /// The linear bound of the whole problem.
  [[nodiscard]] P root_bound() const;

  /// The problem without items whose choice is settled by their bound, and without surrogate.
  [[nodiscard]] Problem<P> reduced() const;

 private:
  struct State {
    std::int64_t weight;  // minus the capacity: feasible when <= 0
    P profit;
    std::uint64_t flips;   // of the current block of 64 steps
    std::uint32_t parent;  // flips of earlier blocks
    std::int32_t units;    // of the items held
  };
  struct Past {
    std::uint64_t flips;
    std::uint32_t parent;
  };
  struct Range {
    std::size_t first;
    std::size_t last;
  };
  /// A buffer that does not initialise its memory.
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
  static constexpr std::uint32_t root = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t block = 64;  // steps whose flips a state holds itself

  [[nodiscard]] std::int64_t weight_of(const Item<P>& item) const { return item.weight + problem_.shift * item.units; }
  [[nodiscard]] bool before(const Item<P>& a, const Item<P>& b) const;
  void find_break();
  void set_scale();
  [[nodiscard]] Int128 scaled(const P& profit) const {
    if (scale_ >= 0) return static_cast<Int128>(profit) << scale_;
    return static_cast<Int128>(profit >> -scale_) + 1;
  }
  [[nodiscard]] P unscaled(Int128 value) const {
    return scale_ >= 0 ? static_cast<P>(value >> scale_) : static_cast<P>(P(value + 1) << -scale_);
  }
  [[nodiscard]] Int128 threshold() const {
    if (scale_ >= 0) return (static_cast<Int128>(best_) + 1) << scale_;
    return static_cast<Int128>(best_ >> -scale_) + 1;
  }
  [[nodiscard]] std::int64_t slack_of(const State& state) const {
    return problem_.shift * (problem_.cardinality - state.units) - state.weight;
  }
  /// Linear bound, scaled, of a partial solution whose open items are worth at most `gain` per unit of slack and cost
  /// at least `loss` per unit of overweight.
  [[nodiscard]] Int128 bound(const P& profit, std::int64_t slack, std::int64_t gain, std::int64_t loss) const {
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
  [[nodiscard]] bool memory_is_short() const {
    const std::size_t next = std::max(next_.capacity(), 2 * states_.size() + states_.size() / 2);
    const std::size_t bytes = (states_.capacity() + next) * sizeof(State) + 2 * history_.capacity() * sizeof(Past);
    return bytes > limits_.memory_bytes || history_.size() + states_.size() >= root;
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
  std::uint64_t work_ = 0;  // states made by all runs
  std::uint64_t complete_after_ = 0;
  std::size_t block_first_ = 0;            // step at which the current block of 64 begins
  std::vector<std::uint32_t> best_flips_;  // callers' indices that differ from the break solution
};

extern template class CoreSolver<std::int64_t>;
extern template class CoreSolver<Int128>;
extern template class CoreSolver<Wide>;

}  // namespace perfpred::knapsack
