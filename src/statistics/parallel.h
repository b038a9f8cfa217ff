// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace perfpred {

/// Number of CPUs that the affinity mask of this thread allows, at least 1.
[[nodiscard]] int usable_cpus();

/// Runs tasks 0 .. count-1 and returns when all of them are done. Tasks start in order, each on the next free thread.
/// After an exception no further task starts, and the first exception is rethrown here.
/// @param threads  0: one for each usable CPU. If the system refuses to start that many, fewer do the work.
/// @param task     called with the number of the task and that of the thread, from 0 and below thread_count()
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t task, std::size_t thread)>& task);

/// The most threads that parallel_for() uses for these arguments.
[[nodiscard]] std::size_t thread_count(std::size_t count, int threads);

}  // namespace perfpred
