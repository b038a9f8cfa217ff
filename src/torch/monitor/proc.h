// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// The value of a line "name : value" in a file of /proc, first one found.
[[nodiscard]] std::optional<std::string> proc_value(const char* path, std::string_view name);

/// The first line of a file, or nothing.
[[nodiscard]] std::optional<std::string> first_line(const std::string& path);

/// Leading number of a text, or nothing.
[[nodiscard]] std::optional<double> leading_number(const std::optional<std::string>& text);

/// Bytes of the machine (MemTotal).
[[nodiscard]] std::optional<std::int64_t> memory_bytes();

/// Bytes that the kernel could give to a process (MemAvailable).
[[nodiscard]] std::optional<std::int64_t> available_memory_bytes();

/// The clock of the first processor in MHz, as far as the kernel knows it.
[[nodiscard]] std::optional<double> cpu_clock_mhz();

/// Processor seconds since boot: all that was not idle, and this process's own.
struct CpuUse {
  double busy_sec = 0;
  double own_sec = 0;
};
[[nodiscard]] std::optional<CpuUse> cpu_use();

}  // namespace perfpred
