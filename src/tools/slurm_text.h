// SPDX-License-Identifier: Apache-2.0
#pragma once
// Words of shells and of Slurm.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace perfpred {

/// A word as a POSIX shell takes it, in quotes where it has other characters than those of names and paths.
[[nodiscard]] inline std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

/// The time limit that holds so many seconds, in minutes, Slurm's unit: at least 1.
[[nodiscard]] inline std::int64_t limit_minutes(double sec) {
  constexpr double most = std::numeric_limits<std::uint32_t>::max() - 2.0;  // INFINITE and NO_VAL of slurm.h are above
  return static_cast<std::int64_t>(std::clamp(std::ceil(sec / 60), 1.0, most));
}

}  // namespace perfpred
