// SPDX-License-Identifier: Apache-2.0
// A training while somebody sets the system's clock. Alone in its program, because it replaces clock_gettime().
#include <gtest/gtest.h>
#include <perfpred/torch/net_trainer.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "small_training.h"
#include "text/csv.h"

namespace {

std::atomic<long> set_back_sec = 0;

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's, for this whole program
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec -= set_back_sec;
  return result;
}

namespace perfpred {
namespace {

TEST(TrainNet, StampsOfItsIterationsAscendWhenTheClockIsSetBack) {
  const testing::TemporaryFolder folder;
  TrainNetOptions options = testing::small(3, "");
  options.log_file = folder.file("iterations.csv");
  int steps = 0;
  static_cast<void>(train_net(
      options, [](const std::string&) {},
      [&] {
        if (++steps == 2) set_back_sec = 3600;
        return false;
      }));
  ASSERT_GT(steps, 2);
  CsvReader csv(options.log_file);
  double before = 0;
  int rows = 0;
  for (; csv.next(); ++rows) {
    const double at = csv.finite(csv.required("timestamp"));
    EXPECT_GT(at, before) << rows;
    before = at;
  }
  EXPECT_EQ(rows, 9);
}

}  // namespace
}  // namespace perfpred
