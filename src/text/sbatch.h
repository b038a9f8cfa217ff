// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace perfpred {

/// The time limit that holds so many seconds, in minutes, Slurm's unit: at least 1.
[[nodiscard]] inline std::int64_t limit_minutes(double sec) {
  constexpr double most = std::numeric_limits<std::uint32_t>::max() - 2.0;  // INFINITE and NO_VAL of slurm.h are above
  return static_cast<std::int64_t>(std::clamp(std::ceil(sec / 60), 1.0, most));
}

/// A span of time as sbatch(1) of Slurm takes it for `--time`, `D-HH:MM:SS`: whole minutes, rounded up, for Slurm
/// counts in minutes; at least one, for 0 is no limit there. @param sec  >= 0
[[nodiscard]] inline std::string slurm_time(std::int64_t sec) {
  constexpr std::int64_t hour = 60, day = 24 * hour;  // minutes
  const std::int64_t minutes = limit_minutes(static_cast<double>(sec));
  return fmt::format("{}-{:02}:{:02}:00", minutes / day, minutes % day / hour, minutes % hour);
}

/// A text as one word of a POSIX shell: within quotes where a letter of it may mean something there, an empty one too.
[[nodiscard]] inline std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";  // of Python's shlex.quote()
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

}  // namespace perfpred
