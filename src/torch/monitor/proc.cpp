// SPDX-License-Identifier: Apache-2.0
#include "torch/monitor/proc.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "text/parse.h"

namespace perfpred {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// A line of /proc/meminfo, in bytes.
std::optional<std::int64_t> meminfo(std::string_view name) {
  const auto kib = leading_number(proc_value("/proc/meminfo", name));
  if (!kib) return std::nullopt;
  return static_cast<std::int64_t>(*kib) * 1024;
}

}  // namespace

std::optional<std::string> proc_value(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(std::string_view(line).substr(0, colon)) != name) continue;
    return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return std::nullopt;
}

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> leading_number(const std::optional<std::string>& text) {
  double value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> memory_bytes() { return meminfo("MemTotal"); }

std::optional<std::int64_t> available_memory_bytes() { return meminfo("MemAvailable"); }

std::optional<double> cpu_clock_mhz() {
  if (const auto khz = leading_number(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"))) {
    return *khz * 1e-3;
  }
  return leading_number(proc_value("/proc/cpuinfo", "cpu MHz"));
}

std::optional<CpuUse> cpu_use() {
  const auto line = first_line("/proc/stat");
  rusage own{};
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (!line || ticks <= 0 || ::getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  // "cpu  user nice system idle iowait irq softirq steal ..."
  std::istringstream fields(*line);
  std::string name;
  fields >> name;
  double busy = 0;
  double value = 0;
  for (int i = 0; i < 8 && fields >> value; ++i) {
    if (i != 3 && i != 4) busy += value;
  }
  return CpuUse{busy / static_cast<double>(ticks), seconds(own.ru_utime) + seconds(own.ru_stime)};
}

}  // namespace perfpred
