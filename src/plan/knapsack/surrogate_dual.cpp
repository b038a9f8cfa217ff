// SPDX-License-Identifier: Apache-2.0
#include "plan/knapsack/surrogate_dual.h"

#include "plan/knapsack/break_item.h"

namespace perfpred::knapsack {

std::int64_t SurrogateDual::best_shift(std::int64_t cardinality, int sign) {
  const auto wanted = static_cast<double>(cardinality);
  // The relaxation's units fall as the shift grows.
  const auto beyond = [&](std::int64_t magnitude) {
    const double units = relax(sign * magnitude, cardinality).units;
    return sign > 0 ? units <= wanted : units >= wanted;
  };
  if (beyond(0)) return 0;
  // The shifts of all units together stay within 59 bits.
  constexpr std::int64_t max_shifted = std::int64_t{1} << 59U;
  const std::int64_t largest = std::min(64 * heaviest_, max_shifted / units_);
  std::int64_t low = 0;
  std::int64_t high = std::min(largest, std::max<std::int64_t>(1, heaviest_ / 16));
  while (!beyond(high)) {
    if (high >= largest) return sign * high;
    low = high;
    high *= 4;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (beyond(middle) ? high : low) = middle;
  }
  return relax(sign * low, cardinality).value < relax(sign * high, cardinality).value ? sign * low : sign * high;
}

SurrogateDual::Sum SurrogateDual::relax(std::int64_t shift, std::int64_t cardinality) {
  const auto extra = static_cast<double>(shift);
  double room = capacity_ + extra * static_cast<double>(cardinality);
  Sum sum;
  constexpr double weightless = 1e300;
  const auto weight = [extra](const Entry& entry) { return entry.weight + extra * entry.units; };
  for (Entry& entry : entries_) entry.ratio = weight(entry) > 0 ? entry.profit / weight(entry) : weightless;
  const auto add = [&](const Entry& entry, double part) {
    sum.value += part * entry.profit;
    sum.units += part * entry.units;
    room -= part * weight(entry);
  };
  const auto take = [&](auto from, auto to) {
    for (; from != to; ++from) add(*from, 1);
  };
  auto first = entries_.begin();
  if (shift < 0) {
    const auto middle =
        std::partition(first, entries_.end(), [](const Entry& entry) { return entry.ratio == weightless; });
    take(first, middle);
    first = middle;
  }
  const auto [begin, end] = around_break(
      first, entries_.end(), room, [](const Entry& a, const Entry& b) { return a.ratio > b.ratio; }, weight, take,
      [](auto, auto) {});
  for (auto entry = begin; entry != end; ++entry) {
    if (weight(*entry) > room) {
      add(*entry, std::max(0.0, room) / weight(*entry));
      break;
    }
    add(*entry, 1);
  }
  return sum;
}

}  // namespace perfpred::knapsack
