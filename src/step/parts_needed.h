// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace perfpred {

/// How many parts of at most `part` (> 0) hold `all` (>= 0).
[[nodiscard]] constexpr std::int64_t parts_needed(std::int64_t all, std::int64_t part) {
  return all / part + (all % part != 0 ? 1 : 0);
}

}  // namespace perfpred
