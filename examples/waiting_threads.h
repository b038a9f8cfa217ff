// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

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

}  // namespace perfpred::cli
