// SPDX-License-Identifier: Apache-2.0
#include "torch/monitor/cpu_waits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "torch/monitor/proc.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

/// cpu.stat of the cgroup and of all above it: a quota may be set at any level.
std::vector<std::string> cgroup_files(const std::string& root) {
  std::vector<std::string> files;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "0::/path" or, of version 1, "3:cpu,cpuacct:/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (controllers == ",," ? "" : "/cpu");
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
      const fs::path file = fs::path(mount) / group.relative_path() / "cpu.stat";
      if (std::error_code unreadable; fs::exists(file, unreadable)) files.push_back(file.string());
      if (!group.has_relative_path()) break;
    }
  }
  return files;
}

std::vector<std::string> heat_files(const std::string& root) {
  std::vector<std::string> files;
  for (int cpu = 0;; ++cpu) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    std::error_code unreadable;
    if (!fs::exists(folder, unreadable)) return files;
    const std::string file = folder + "/thermal_throttle/core_throttle_count";
    if (fs::exists(file, unreadable)) files.push_back(file);
  }
}

/// Seconds for which the quota stopped the group.
double throttled_sec(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  double value = 0;
  while (file >> name >> value) {
    if (name == "throttled_usec") return value * 1e-6;
    if (name == "throttled_time") return value * 1e-9;  // of cgroups, version 1
  }
  return 0;
}

}  // namespace

CpuWaits::CpuWaits(int processors, std::string root, Clock::time_point now, std::vector<int> companions)
    : processors_(processors),
      root_(std::move(root)),
      cgroup_files_(cgroup_files(root_)),
      heat_files_(heat_files(root_)),
      last_time_(now) {
  for (const int process : companions) companions_.push_back("/proc/" + std::to_string(process) + "/task");
  last_ = counters();
}

/// Adds the threads below a folder. @param threads  by path
void CpuWaits::add_threads(const std::string& folder, std::map<std::string, ThreadTimes>& threads) const {
  std::error_code gone;  // a thread may end while its folder is read
  for (fs::directory_iterator thread(root_ + folder, gone), end; !gone && thread != end; thread.increment(gone)) {
    std::ifstream file(thread->path() / "schedstat");  // nanoseconds run, nanoseconds in the queue, time slices
    ThreadTimes times;
    if (!(file >> times.ran_sec >> times.waited_sec)) continue;
    times.ran_sec *= 1e-9;
    times.waited_sec *= 1e-9;
    threads[thread->path().string()] = times;
  }
}

CpuWaits::ThreadTimes CpuWaits::meanwhile(const std::map<std::string, ThreadTimes>& before,
                                          const std::map<std::string, ThreadTimes>& now) {
  ThreadTimes sum;
  for (const auto& [path, times] : now) {
    const auto known = before.find(path);
    const ThreadTimes then = known == before.end() ? ThreadTimes{} : known->second;
    sum.ran_sec += std::max(0.0, times.ran_sec - then.ran_sec);
    sum.waited_sec += std::max(0.0, times.waited_sec - then.waited_sec);
  }
  return sum;
}

CpuWaits::Counters CpuWaits::counters() const {
  Counters counters;
  add_threads("/proc/self/task", counters.threads);
  for (const std::string& folder : companions_) add_threads(folder, counters.companions);
  for (const std::string& file : cgroup_files_) counters.throttled_sec += throttled_sec(file);
  for (const std::string& file : heat_files_) counters.heat_events += leading_number(first_line(file)).value_or(0);
  return counters;
}

std::optional<CpuWaits::Reading> CpuWaits::read(Clock::time_point now) {
  const Counters counters = this->counters();
  const Counters before = std::exchange(last_, counters);
  const double sec = std::chrono::duration<double>(now - std::exchange(last_time_, now)).count();
  if (counters.threads.empty()) return std::nullopt;
  const ThreadTimes own = meanwhile(before.threads, counters.threads);
  const double ran = own.ran_sec + meanwhile(before.companions, counters.companions).ran_sec;
  Reading reading;
  if (sec > 0) {
    // Where the threads of these processes used all processors, they waited for each other.
    reading.lost_processors = std::min(own.waited_sec, std::max(0.0, processors_ * sec - ran)) / sec;
    reading.throttled_share = std::clamp((counters.throttled_sec - before.throttled_sec) / sec, 0.0, 1.0);
  }
  reading.hot = counters.heat_events > before.heat_events;
  return reading;
}

}  // namespace perfpred
