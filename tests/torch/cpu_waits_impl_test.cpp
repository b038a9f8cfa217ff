// SPDX-License-Identifier: Apache-2.0
#include "torch/monitor/cpu_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "../temporary_folder.h"
#include "company.h"

namespace perfpred {
namespace {

/// Files as the kernel shows them.
class CpuWaitsOfFiles : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// @param ran, waited  seconds
  void write_thread(int id, double ran, double waited) const {
    write(
        "/proc/self/task/" + std::to_string(id) + "/schedstat",
        std::to_string(static_cast<long>(ran * 1e9)) + ' ' + std::to_string(static_cast<long>(waited * 1e9)) + " 7\n");
  }
  [[nodiscard]] std::string root() const { return folder_.file("root"); }
  [[nodiscard]] static CpuWaits::Clock::time_point after(double sec) {
    return CpuWaits::Clock::time_point() +
           std::chrono::duration_cast<CpuWaits::Clock::duration>(std::chrono::duration<double>(sec));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CpuWaitsOfFiles, CountTheTimeInTheQueueOfThreadsThatAreThere) {
  write_thread(10, 5, 1);
  write_thread(11, 3, 0);
  CpuWaits waits(4, root(), after(0));
  write_thread(10, 7, 1.5);
  write_thread(11, 4, 0.3);
  write_thread(12, 1, 0.2);  // began meanwhile
  const auto reading = waits.read(after(2));
  ASSERT_TRUE(reading);
  EXPECT_NEAR(reading->lost_processors, (0.5 + 0.3 + 0.2) / 2, 1e-9);
  std::filesystem::remove_all(root() + "/proc/self/task/11");
  EXPECT_NEAR(waits.read(after(3))->lost_processors, 0, 1e-9);
}

TEST_F(CpuWaitsOfFiles, DoNotCountWhatThreadsTakeFromEachOther) {
  write_thread(10, 0, 0);
  write_thread(11, 0, 0);
  CpuWaits waits(1, root(), after(0));
  write_thread(10, 0.5, 0.5);  // two threads share the only processor
  write_thread(11, 0.5, 0.5);
  EXPECT_NEAR(waits.read(after(1))->lost_processors, 0, 1e-9);
  write_thread(10, 0.8, 1.2);  // and then somebody has 0.4 of it
  write_thread(11, 0.8, 1.2);
  EXPECT_NEAR(waits.read(after(2))->lost_processors, 0.4, 1e-9);
}

TEST_F(CpuWaitsOfFiles, DoNotCountWhatCompanionsTake) {
  const auto write_companion = [&](double ran) {
    write("/proc/77/task/78/schedstat", std::to_string(static_cast<long>(ran * 1e9)) + " 0 7\n");
  };
  write_thread(10, 0, 0);
  write_companion(5);
  CpuWaits alone(2, root(), after(0));
  CpuWaits together(2, root(), after(0), {77, 99});  // 99 has ended
  write_thread(10, 0.6, 0.4);
  write_companion(6.3);
  EXPECT_NEAR(alone.read(after(1))->lost_processors, 0.4, 1e-9);
  EXPECT_NEAR(together.read(after(1))->lost_processors, 2 - 0.6 - 1.3, 1e-9);
}

TEST_F(CpuWaitsOfFiles, SeeTheQuotaOfAGroupAndOfThoseAboveIt) {
  write_thread(10, 0, 0);
  write("/proc/self/cgroup", "0::/pod/container\n");
  write("/sys/fs/cgroup/pod/container/cpu.stat", "usage_usec 5\nnr_throttled 0\nthrottled_usec 0\n");
  write("/sys/fs/cgroup/pod/cpu.stat", "usage_usec 5\nnr_throttled 1\nthrottled_usec 100000\n");
  CpuWaits waits(2, root(), after(0));
  EXPECT_NEAR(waits.read(after(1))->throttled_share, 0, 1e-9);
  write("/sys/fs/cgroup/pod/cpu.stat", "usage_usec 5\nnr_throttled 9\nthrottled_usec 900000\n");
  EXPECT_NEAR(waits.read(after(3))->throttled_share, 0.4, 1e-9);
}

TEST_F(CpuWaitsOfFiles, SeeTheQuotaOfTheFirstVersionAndHeat) {
  write_thread(10, 0, 0);
  write("/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n");
  write("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 1000000000\n");
  write("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n");
  CpuWaits waits(2, root(), after(0));
  write("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 1250000000\n");
  EXPECT_NEAR(waits.read(after(1))->throttled_share, 0.25, 1e-9);
  EXPECT_FALSE(waits.read(after(2))->hot);
  write("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "5\n");
  EXPECT_TRUE(waits.read(after(3))->hot);
}

TEST_F(CpuWaitsOfFiles, SayNothingWhereTheKernelDoesNotCount) {
  CpuWaits waits(2, root(), after(0));
  EXPECT_FALSE(waits.read(after(1)));
}

// One thread and as many busy processes as processors: it gets about half of one, at once and not after a second.
TEST(CpuWaits, SeeCompanyWithinATenthOfASecond) {
  CpuWaits waits(static_cast<int>(std::thread::hardware_concurrency()));
  if (!waits.read()) GTEST_SKIP() << "this kernel does not count the time in the queue";
  const testing::Company company;
  double most = 0;
  for (int i = 0; i < 20; ++i) {
    const auto end = CpuWaits::Clock::now() + std::chrono::milliseconds(100);
    while (CpuWaits::Clock::now() < end) {
    }
    most = std::max(most, waits.read()->lost_processors);
  }
  EXPECT_GT(most, 0.1);
}

}  // namespace
}  // namespace perfpred
