// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace perfpred {

/// A span of time as sbatch(1) of Slurm takes it for `--time`, `D-HH:MM:SS`: whole minutes, rounded up, for Slurm
/// counts in minutes; at least one, for 0 is no limit there. @param sec  >= 0
[[nodiscard]] inline std::string slurm_time(std::int64_t sec) {
  constexpr std::int64_t minute = 60, hour = 60, day = 24;
  const std::int64_t minutes = std::max<std::int64_t>(1, sec / minute + (sec % minute > 0 ? 1 : 0));
  const std::int64_t hours = minutes / hour;
  return fmt::format("{}-{:02}:{:02}:00", hours / day, hours % day, minutes % hour);
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
