// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {

/// A size in bytes: a whole number, or a number with a unit, as 1500MB (of 10^6 bytes) or 1.5GiB (of 2^30), whatever
/// the case. @throws InputError for another text, and for a size that no 63 bits hold
[[nodiscard]] inline std::int64_t parse_byte_size(std::string_view text, const ValuePlace& place) {
  constexpr std::array<std::pair<std::string_view, double>, 8> units = {{{"kb", 1e3},
                                                                         {"mb", 1e6},
                                                                         {"gb", 1e9},
                                                                         {"tb", 1e12},
                                                                         {"kib", 0x1p10},
                                                                         {"mib", 0x1p20},
                                                                         {"gib", 0x1p30},
                                                                         {"tib", 0x1p40}}};
  const std::string body = lower_case(trimmed(text));
  const std::size_t digits = body.find_last_of("0123456789.") + 1;
  if (digits == body.size() || digits == 0) return parse_integer(text, place);
  const std::string_view unit = trimmed(std::string_view(body).substr(digits));
  const auto known = std::find_if(units.begin(), units.end(), [&](const auto& one) { return one.first == unit; });
  const auto refuse = [&] { throw_bad_value(place, text, "a size in bytes such as 1500MB or 2GiB"); };
  if (known == units.end()) refuse();
  double bytes = 0;
  try {
    bytes = std::round(parse_finite(body.substr(0, digits), place) * known->second);
  } catch (const InputError&) {  // of the number alone
    refuse();
  }
  if (!(std::abs(bytes) < 0x1p63)) refuse();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace perfpred
