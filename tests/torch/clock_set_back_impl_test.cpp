// SPDX-License-Identifier: Apache-2.0
// Trainings while somebody sets the system's clock, or it stands still. Alone in its program, because it replaces
// clock_gettime().
#include <gtest/gtest.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/net_trainer.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "runs/run_log.h"
#include "small_training.h"
#include "text/csv.h"

namespace {

std::atomic<long> set_back_sec = 0;
std::atomic<bool> stands_still = false;

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's, for this whole program
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec -= set_back_sec;
  if (clock == CLOCK_REALTIME && stands_still) *time = {1'800'000'000, 5'000'000};
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

TEST(Collector, RunsThatBeginInOneMillisecondHaveALogEach) {
  const testing::TemporaryFolder folder;
  stands_still = true;
  CollectOptions options;
  options.epochs = 2;
  options.repeats = 3;
  options.device = "cpu";
  options.threads = 1;
  options.runs_csv = folder.file("runs.csv");
  options.log_dir = folder.file("logs");
  Workload workload = Workload::cifar_cnn(1, 1, 8);
  workload.train_images = 16;
  const CollectResult result = Collector(options).collect(std::span(&workload, 1), nullptr, nullptr);
  stands_still = false;
  EXPECT_EQ(result.done, 3);
  std::set<std::string> logs;
  for (const auto& item : std::filesystem::directory_iterator(options.log_dir)) {
    logs.insert(item.path().filename().string());
    EXPECT_TRUE(read_run_log(item.path().string()).run);
  }
  const std::string stem = "20270115T080000.005Z_cifar_cnn_d1_f1_b8";
  EXPECT_EQ(logs, (std::set<std::string>{stem + ".jsonl", stem + "_2.jsonl", stem + "_3.jsonl"}));
}

}  // namespace
}  // namespace perfpred
