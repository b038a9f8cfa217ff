// SPDX-License-Identifier: Apache-2.0
#include "optime/device_order.h"

#include <algorithm>
#include <map>

#include "optime/hardware.h"

namespace perfpred {

double ordered_seconds(const Device& device, double sec, bool is_measured, const std::set<const Device*>& others,
                       const std::function<std::optional<double>(const Device&)>& seconds_on) {
  std::map<const Device*, std::optional<double>> known;
  const auto seconds_of = [&](const Device* other) {
    const auto [found, is_new] = known.try_emplace(other);
    if (is_new) found->second = seconds_on(*other);
    return found->second;
  };
  const auto no_slower_than_worse = [&](const Device& better, double least) {
    for (const Device* other : others) {
      if (!is_at_least(better, *other)) continue;
      if (const auto of_worse = seconds_of(other)) least = std::min(least, *of_worse);
    }
    return least;
  };
  sec = no_slower_than_worse(device, sec);
  if (is_measured) return sec;
  for (const Device* other : others) {
    if (!is_at_least(*other, device)) continue;
    if (const auto of_better = seconds_of(other)) sec = std::max(sec, no_slower_than_worse(*other, *of_better));
  }
  return sec;
}

}  // namespace perfpred
