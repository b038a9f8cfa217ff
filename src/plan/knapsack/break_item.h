// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <iterator>
#include <utility>

namespace perfpred::knapsack {

/// As many items as are sorted at once.
inline constexpr std::ptrdiff_t sortable = 96;

/// Finds the items around the break item, the first that does not fit if items fill the room in order of falling
/// ratio, by partial quicksort. Calls take(from, to) for ranges that fit before them, best first, and leave(from, to)
/// for ranges after them, worst first.
/// @returns the range that is left, sorted; the break item is in it or at its end
template <class Iterator, class Room, class Better, class WeightOf, class Take, class Leave>
std::pair<Iterator, Iterator> around_break(Iterator first, Iterator last, Room room, const Better& better,
                                           const WeightOf& weight_of, const Take& take, const Leave& leave) {
  const auto weight = [&](Iterator from, Iterator to) {
    Room sum = 0;
    for (; from != to; ++from) sum += weight_of(*from);
    return sum;
  };
  while (last - first > sortable) {
    typename std::iterator_traits<Iterator>::value_type sample[7];
    const auto step = (last - first) / 8;
    for (int k = 0; k < 7; ++k) sample[k] = first[(k + 1) * step];
    std::nth_element(sample, sample + 3, sample + 7, better);
    const auto& pivot = sample[3];
    Iterator middle = std::partition(first, last, [&](const auto& item) { return better(item, pivot); });
    Room sum = weight(first, middle);
    if (sum > room) {
      leave(middle, last);
      last = middle;
      continue;
    }
    take(first, middle);
    room -= sum;
    first = middle;
    middle = std::partition(first, last, [&](const auto& item) { return !better(pivot, item); });
    sum = weight(first, middle);
    if (sum > room) {
      leave(middle, last);
      return {first, middle};  // equal ratios: any order is sorted
    }
    take(first, middle);
    room -= sum;
    first = middle;
  }
  std::sort(first, last, better);
  return {first, last};
}

}  // namespace perfpred::knapsack
