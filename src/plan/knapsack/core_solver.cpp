// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack/core_solver.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

#include "plan/knapsack/break_item.h"

namespace perfpred::knapsack {

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
  Int128 room = static_cast<Int128>(problem_.capacity) + static_cast<Int128>(problem_.shift) * problem_.cardinality;
  break_weight_ = -problem_.capacity;
  const auto position = [&](auto iterator) { return static_cast<std::size_t>(iterator - items_.begin()); };
  const auto take = [&](auto from, auto to) {
    if (from == to) return;
    left_.push_back({position(from), position(to)});
    for (; from != to; ++from) {
      room -= weight_of(*from);
      break_profit_ += from->profit;
      break_weight_ += from->weight;
      break_units_ += from->units;
    }
  };
  const auto leave = [&](auto from, auto to) {
    if (from != to) right_.push_back({position(from), position(to)});
  };
  auto first = items_.begin();
  if (problem_.shift < 0) {
    // Items of no surrogate weight cost nothing there: every solution of the relaxation holds them.
    const auto middle =
        std::partition(first, items_.end(), [this](const Item<P>& item) { return weight_of(item) <= 0; });
    take(first, middle);
    first = middle;
  }
  const auto better = [this](const Item<P>& a, const Item<P>& b) { return before(a, b); };
  const auto weight = [this](const Item<P>& item) { return weight_of(item); };
  const auto [begin, end] = around_break(first, items_.end(), room, better, weight, take, leave);
  auto at = begin;
  for (Int128 left = room; at != end && weight_of(*at) <= left; ++at) left -= weight_of(*at);
  break_ = position(at);
  take(begin, at);
  leave(at, end);
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
  return static_cast<std::int64_t>(std::min<Int128>(ratio, std::numeric_limits<std::int64_t>::max()));
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
    if (size > static_cast<std::size_t>(sortable)) {
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
  const std::uint64_t bit = std::uint64_t{1} << (steps_.size() % block);
  steps_.push_back(item);
  const std::int64_t weight = held ? -item.weight : item.weight;
  const P profit = held ? -item.profit : item.profit;
  const std::int32_t units = held ? -item.units : item.units;
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
      state.units += units;
      state.flips |= bit;
      fresh = true;
      if (old != end &&
          (old->weight < state.weight ||
           (old->weight == state.weight &&
            (old->profit > state.profit || (old->profit == state.profit && old->units <= state.units))))) {
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
  if (steps_.size() % block == 0) new_block();
}

template <class P>
void CoreSolver<P>::collect_flips(const State& state, std::vector<std::uint32_t>& out) const {
  std::size_t first = block_first_;
  std::uint64_t flips = state.flips;
  std::uint32_t parent = state.parent;
  while (true) {
    for (std::size_t bit = 0; flips != 0; ++bit, flips >>= 1U)
      if ((flips & 1U) != 0) out.push_back(steps_[first + bit].index);
    if (parent == root) return;
    flips = history_[parent].flips;
    parent = history_[parent].parent;
    first -= block;
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
    if (state.parent != root) place[state.parent] = 1;
  for (std::size_t i = history_.size(); i-- > 0;)
    if (place[i] != 0 && history_[i].parent != root) place[history_[i].parent] = 1;
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < history_.size(); ++i) {
    if (place[i] == 0) continue;
    Past past = history_[i];
    if (past.parent != root) past.parent = place[past.parent];
    history_[kept] = past;
    place[i] = kept++;
  }
  history_.resize(kept);
  for (State& state : states_)
    if (state.parent != root) state.parent = place[state.parent];
  history_limit_ = std::max(history_limit_, 2 * (history_.size() + states_.size()));
}

template <class P>
std::size_t CoreSolver<P>::complete_states() {
  // Items from all over: those near the break item have nearly its weight where profits follow weights.
  constexpr std::size_t max_items = 40'000;
  std::size_t open = right_ready_.size() + left_ready_.size();
  for (const Range& range : right_) open += range.last - range.first;
  for (const Range& range : left_) open += range.last - range.first;
  const std::size_t stride = 1 + open / max_items;
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
Progress CoreSolver<P>::run(std::uint64_t max_work) {
  best_ = std::max<P>(best_, incumbent_.profit - problem_.fixed_profit);  // another search may have found more
  if (states_.size() == 0 && steps_.empty()) {
    states_.prepare(1);
    states_.set_size(1);
    *states_.begin() = {break_weight_, break_profit_, 0, root, static_cast<std::int32_t>(break_units_)};
    if (break_weight_ <= 0 && break_profit_ > best_) {
      best_ = break_profit_;
      keep_best(*states_.begin(), nullptr);
    }
  }
  constexpr std::uint64_t work_per_look = 10'000;  // reading the clock takes as long as a short step
  const std::uint64_t start = work_;
  std::uint64_t look_after = work_;
  Progress progress = Progress::solved;
  while (states_.size() != 0) {
    supply(right_, right_ready_, false);
    supply(left_, left_ready_, true);
    if (right_ready_.empty() && left_ready_.empty()) {
      states_.set_size(0);
      break;
    }
    if (states_.size() >= complete_at_ && work_ >= complete_after_) {
      // As much work as the steps since the last time, at most.
      complete_after_ = work_ + 4 * complete_states();
      complete_at_ = states_.size() + states_.size() / 2;
    }
    if (work_ - start > max_work) {
      progress = Progress::growing;
      break;
    }
    const bool late = work_ >= look_after && limits_.expired();
    if (work_ >= look_after) look_after = work_ + work_per_look;
    if (late || memory_is_short()) {
      progress = Progress::stopped;
      break;
    }
    const bool held = right_ready_.empty() || (!left_ready_.empty() && take_left_);
    take_left_ = !take_left_;
    std::vector<Item<P>>& ready = held ? left_ready_ : right_ready_;
    const Item<P> item = ready.back();
    ready.pop_back();
    (held ? loss_is_current_ : gain_is_current_) = false;
    ++work_;
    if (settled(item, held)) continue;
    supply(right_, right_ready_, false);
    supply(left_, left_ready_, true);
    set_slopes();
    work_ += states_.size();
    step(item, held);
  }
  set_slopes();
  publish();
  return progress;
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

template class CoreSolver<std::int64_t>;
template class CoreSolver<Int128>;
template class CoreSolver<Wide>;

}  // namespace perfpred::knapsack
