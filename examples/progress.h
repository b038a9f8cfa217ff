// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far long work is, for people who watch.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

namespace perfpred::cli {

/// 1:02:03
inline std::string clock_text(double sec) {
  const long whole = std::lround(sec);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// Whether somebody watches standard error.
inline bool is_watched() { return ::isatty(STDERR_FILENO) != 0; }

/// A function that says on one line of a terminal what share is done, and how long the rest takes at that rate; null
/// where standard error is no terminal.
/// @param quiet_sec  says nothing before
inline std::function<void(double share)> progress_on_terminal(const std::string& what, double quiet_sec = 0) {
  if (!is_watched()) return nullptr;
  return [what, quiet_sec, start = std::chrono::steady_clock::now()](double share) {
    const double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (sec < quiet_sec || !(share > 0)) return;
    fmt::print(stderr, "\r{}: {:3.0f} %, {} left{}", what, 100 * share, clock_text(sec / share * (1 - share)),
               share < 1 ? "" : "\n");
    std::fflush(stderr);
  };
}

/// The same for work that is counted in parts.
inline std::function<void(std::size_t done, std::size_t all)> counted_progress_on_terminal(const std::string& what) {
  const auto show = progress_on_terminal(what);
  if (!show) return nullptr;
  return [show](std::size_t done, std::size_t all) { show(static_cast<double>(done) / static_cast<double>(all)); };
}

}  // namespace perfpred::cli
