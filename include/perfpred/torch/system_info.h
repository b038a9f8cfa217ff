// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// One GPU; what the driver does not tell is empty.
struct GpuInfo {
  std::string name;
  std::string capability;  ///< "8.0"
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int sms = 0;
  std::optional<double> sm_clock_mhz;  ///< now
  std::optional<double> power_limit_w;
};

/// The machine that this process runs on. What it does not tell is empty.
struct SystemInfo {
  std::string host, system, kernel;  ///< system: the distribution's name and version
  std::string cpu_model;
  int cpu_threads = 0;                                        ///< logical processors that this process may use
  std::optional<int> cpu_cores;                               ///< physical ones of the machine
  std::optional<double> cpu_mhz;                              ///< now, of the first
  std::optional<std::int64_t> l1d_bytes, l2_bytes, l3_bytes;  ///< of the first processor
  std::optional<std::int64_t> memory_bytes, memory_available_bytes;
  std::vector<GpuInfo> gpus;
  std::optional<std::string> driver;  ///< of the GPUs
  std::string cuda;                   ///< that LibTorch was built for
  std::optional<std::string> cudnn;
  std::string libtorch;
};

[[nodiscard]] PERFPRED_API SystemInfo read_system_info();
[[nodiscard]] PERFPRED_API std::string system_info_json(const SystemInfo& info);  ///< one document, indented
[[nodiscard]] PERFPRED_API std::string system_info_text(const SystemInfo& info);  ///< a line for each fact

/// Makes times on a CPU repeat: for the rest of the process the C library's allocator keeps the memory that it has.
/// Otherwise freed tensors go back to the kernel and are faulted in again every step. For the start of a program that
/// measures or trains; the library does not do it by itself.
PERFPRED_API void prepare_process();

/// Writes `<name>.json` and `<name>.txt`. @throws InputError if no file can be made there, Error if the disk refuses
PERFPRED_API void write_system_info(const SystemInfo& info, const std::string& name);

}  // namespace perfpred
