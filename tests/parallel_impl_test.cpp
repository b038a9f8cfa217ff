// SPDX-License-Identifier: Apache-2.0
#include "statistics/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "child_process.h"

namespace perfpred {
namespace {

TEST(Parallel, RunsEveryTaskOnce) {
  for (const int threads : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> done(100);
    std::atomic<bool> thread_in_range = true;
    parallel_for(done.size(), threads, [&](std::size_t task, std::size_t thread) {
      ++done[task];
      if (thread >= thread_count(done.size(), threads)) thread_in_range = false;
    });
    for (const auto& times : done) EXPECT_EQ(times, 1);
    EXPECT_TRUE(thread_in_range);
  }
  parallel_for(0, 4, [](std::size_t, std::size_t) { FAIL(); });
  EXPECT_EQ(thread_count(3, 8), 3U);
  EXPECT_EQ(thread_count(0, 8), 1U);
}

TEST(Parallel, TheFirstExceptionComesBackAndNoFurtherTaskStarts) {
  std::atomic<int> started = 0;
  EXPECT_THROW(parallel_for(1000, 1,
                            [&](std::size_t task, std::size_t) {
                              ++started;
                              if (task == 3) throw std::runtime_error("three");
                            }),
               std::runtime_error);
  EXPECT_EQ(started, 4);
}

TEST(Parallel, CountsTheCpusThatTheProcessMayUse) {
  EXPECT_EQ(testing::exit_code_of([] {
              cpu_set_t first;
              if (::sched_getaffinity(0, sizeof first, &first) != 0) return 100;
              int cpu = 0;
              while (!CPU_ISSET(cpu, &first)) ++cpu;
              CPU_ZERO(&first);
              CPU_SET(cpu, &first);
              if (::sched_setaffinity(0, sizeof first, &first) != 0) return 100;
              return usable_cpus();
            }),
            1);
}

// Each thread needs an address range for its stack: 64 of them do not fit into 32 MB more than the process has.
TEST(Parallel, FewerThreadsDoTheWorkIfTheSystemRefusesMore) {
  if (testing::is_sanitized) GTEST_SKIP() << "sanitizers reserve address space";
  EXPECT_EQ(testing::exit_code_of([] {
              if (!testing::leave_address_space(32)) return 100;
              std::atomic<int> done = 0;
              parallel_for(200, 64, [&](std::size_t, std::size_t) { ++done; });
              return done.load();
            }),
            200);
}

}  // namespace
}  // namespace perfpred
