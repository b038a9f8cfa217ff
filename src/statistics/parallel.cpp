// SPDX-License-Identifier: Apache-2.0
#include "statistics/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace perfpred {

int usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));  // a mask of more than 1024 CPUs
}

std::size_t thread_count(std::size_t count, int threads) {
  return std::clamp<std::size_t>(count, 1, static_cast<std::size_t>(threads > 0 ? threads : usable_cpus()));
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t, std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](std::size_t thread) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(i, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < thread_count(count, threads); ++i) others.emplace_back(work, i);
    } catch (const std::system_error&) {
      // The system has no more threads: those that did start, and this one, do all tasks.
    }
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace perfpred
