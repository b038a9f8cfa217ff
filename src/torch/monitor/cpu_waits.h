// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// What kept the threads of this process from computing, as the kernel counts it. Works in containers and cpusets: it
/// looks at this process, not at the machine.
class CpuWaits {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param processors  that this process may use
  /// @param root        in front of /proc and /sys: for tests
  /// @param companions  numbers of processes that are measured together with this one: what they take is not lost
  explicit CpuWaits(int processors, std::string root = {}, Clock::time_point now = Clock::now(),
                    std::vector<int> companions = {});

  /// Of the time since the previous reading, or since this was made.
  struct Reading {
    /// Processors that others used while threads of this process were ready to run: the time that the threads spent in
    /// the queue, but not what they took from each other.
    double lost_processors = 0;
    double throttled_share = 0;  ///< of the time in which the quota of a cgroup (cpu.max) stopped the process
    bool hot = false;            ///< heat slowed a processor down
  };
  /// Nothing if the kernel does not count the time in the queue (CONFIG_SCHED_INFO).
  [[nodiscard]] std::optional<Reading> read(Clock::time_point now = Clock::now());

 private:
  struct ThreadTimes {
    double ran_sec = 0, waited_sec = 0;
  };
  struct Counters {
    std::map<std::string, ThreadTimes> threads;     ///< of this process
    std::map<std::string, ThreadTimes> companions;  ///< threads of the others
    double throttled_sec = 0;
    double heat_events = 0;
  };
  [[nodiscard]] Counters counters() const;
  void add_threads(const std::string& folder, std::map<std::string, ThreadTimes>& threads) const;
  [[nodiscard]] static ThreadTimes meanwhile(const std::map<std::string, ThreadTimes>& before,
                                             const std::map<std::string, ThreadTimes>& now);

  int processors_;
  std::string root_;
  std::vector<std::string> companions_;    // folders of their threads
  std::vector<std::string> cgroup_files_;  // cpu.stat of the process's group and of those above it
  std::vector<std::string> heat_files_;
  Counters last_;
  Clock::time_point last_time_;
};

}  // namespace perfpred
