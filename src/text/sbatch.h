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

/// The longest time limit, in minutes: INFINITE and NO_VAL of slurm.h are above.
inline constexpr std::int64_t most_limit_minutes = std::int64_t{std::numeric_limits<std::uint32_t>::max()} - 2;

/// The time limit that holds so many seconds, in minutes, Slurm's unit: at least 1.
[[nodiscard]] inline std::int64_t limit_minutes(double sec) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(sec / 60), 1.0, static_cast<double>(most_limit_minutes)));
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
