// SPDX-License-Identifier: Apache-2.0
#pragma once
// How programs that measure or train begin, and how they are interrupted.
#include <perfpred/torch/system_info.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace perfpred::cli {

/// Starts the program again with OpenMP's threads spinning for some microseconds before they sleep, unless the user has
/// said how they wait. The library reads that when it is loaded, before main(). Threads that sleep at once double the
/// step of a network of many small operators; threads that spin for long hold cores that other processes want. If it
/// cannot be started again it goes on as it is.
inline void let_threads_spin_briefly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("GOMP_SPINCOUNT", "1000", 1) == 0) ::execv("/proc/self/exe", argv);
}

/// The first line of a command's body.
inline void begin_measuring(char** argv) {
  let_threads_spin_briefly(argv);
  prepare_process();
}

inline std::atomic<bool> interrupt_asked = false;
inline bool interrupted() { return interrupt_asked; }

/// From here on, SIGINT and SIGTERM only make interrupted() true.
inline void stop_on_signals() {
  std::signal(SIGINT, [](int) { interrupt_asked = true; });
  std::signal(SIGTERM, [](int) { interrupt_asked = true; });
}

/// Of the other ranks of a group: they end when rank 0 does.
inline void leave_signals_to_rank_0() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

}  // namespace perfpred::cli
