// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace perfpred {

/// The driver's management library, loaded when it is there. It only reads: clocks and power limits stay as they are.
/// Whatever the library or the device does not tell is empty.
class Nvml {
 public:
  [[nodiscard]] static const Nvml& instance();

  [[nodiscard]] std::optional<std::string> driver_version() const;
  [[nodiscard]] int devices() const;  ///< GPUs of this machine; 0 without the library

  /// A GPU, or nullptr. @param pci_bus_id  "00000000:01:00.0"
  [[nodiscard]] void* device(const std::string& pci_bus_id) const;
  [[nodiscard]] void* device(int index) const;  ///< in the order of nvidia-smi
  [[nodiscard]] std::optional<std::string> name(void* device) const;
  /// Bytes that programs hold, without what the driver keeps for itself. Drivers before 510 do not tell them apart.
  [[nodiscard]] std::optional<std::int64_t> used_bytes(void* device) const;
  [[nodiscard]] std::optional<double> sm_clock_mhz(void* device) const;
  [[nodiscard]] std::optional<double> power_limit_w(void* device) const;
  /// Slowed down by heat or by a power brake. The power cap is not meant: busy cards live under it.
  [[nodiscard]] std::optional<bool> throttled(void* device) const;
  /// Processes that compute on the GPU, this one included.
  [[nodiscard]] std::optional<int> processes(void* device) const;

 private:
  Nvml();

  int (*driver_version_)(char*, unsigned) = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*device_by_pci_)(const char*, void**) = nullptr;
  int (*device_by_index_)(unsigned, void**) = nullptr;
  int (*name_)(void*, char*, unsigned) = nullptr;
  int (*memory_)(void*, void*) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*power_limit_)(void*, unsigned*) = nullptr;
  int (*throttle_reasons_)(void*, unsigned long long*) = nullptr;
  int (*processes_)(void*, unsigned*, void*) = nullptr;
};

}  // namespace perfpred
