// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

#include <cstdlib>

namespace perfpred::cli {

/// Starts the program again with OpenMP's threads waiting asleep instead of spinning, unless the user has said how they
/// wait. The library reads that when it is loaded, before main(). Threads that spin slow a training step tenfold as
/// soon as another process wants the cores. If it cannot be started again it goes on as it is.
inline void let_threads_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("OMP_WAIT_POLICY", "PASSIVE", 1) == 0) ::execv("/proc/self/exe", argv);
}

}  // namespace perfpred::cli
