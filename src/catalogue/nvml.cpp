// SPDX-License-Identifier: Apache-2.0
#include "catalogue/nvml.h"

#include <dlfcn.h>

#include <array>

namespace perfpred {
namespace {

constexpr int success = 0;
constexpr int insufficient_size = 7;
constexpr int sm_clock = 1;
// nvmlClocksEventReasons
constexpr unsigned long long hw_slowdown = 0x08, sw_thermal_slowdown = 0x20, hw_thermal_slowdown = 0x40,
                             hw_power_brake = 0x80;
constexpr unsigned long long slowdowns = hw_slowdown | sw_thermal_slowdown | hw_thermal_slowdown | hw_power_brake;

/// nvmlMemory_v2_t
struct Memory {
  unsigned version = sizeof(Memory) | (2U << 24U);
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

const Nvml& Nvml::instance() {
  static const Nvml nvml;
  return nvml;
}

Nvml::Nvml() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  int (*initialise)() = nullptr;
  load(library, "nvmlInit_v2", initialise);
  if (initialise == nullptr || initialise() != success) return;
  load(library, "nvmlSystemGetDriverVersion", driver_version_);
  load(library, "nvmlDeviceGetCount_v2", count_);
  load(library, "nvmlDeviceGetHandleByPciBusId_v2", device_by_pci_);
  load(library, "nvmlDeviceGetHandleByIndex_v2", device_by_index_);
  load(library, "nvmlDeviceGetName", name_);
  load(library, "nvmlDeviceGetMemoryInfo_v2", memory_);
  load(library, "nvmlDeviceGetClockInfo", clock_);
  load(library, "nvmlDeviceGetEnforcedPowerLimit", power_limit_);
  load(library, "nvmlDeviceGetCurrentClocksEventReasons", throttle_reasons_);
  // Drivers before 535 know it by this name only.
  if (throttle_reasons_ == nullptr) load(library, "nvmlDeviceGetCurrentClocksThrottleReasons", throttle_reasons_);
  load(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes_);
}

std::optional<std::string> Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (driver_version_ == nullptr || driver_version_(text.data(), text.size()) != success) return std::nullopt;
  return text.data();
}

int Nvml::devices() const {
  unsigned count = 0;
  return count_ == nullptr || count_(&count) != success ? 0 : static_cast<int>(count);
}

void* Nvml::device(int index) const {
  void* device = nullptr;
  if (device_by_index_ == nullptr || device_by_index_(static_cast<unsigned>(index), &device) != success) return nullptr;
  return device;
}

std::optional<std::string> Nvml::name(void* device) const {
  std::array<char, 96> text{};
  if (device == nullptr || name_ == nullptr || name_(device, text.data(), text.size()) != success) return std::nullopt;
  return text.data();
}

std::optional<std::int64_t> Nvml::used_bytes(void* device) const {
  Memory memory;
  if (device == nullptr || memory_ == nullptr || memory_(device, &memory) != success) return std::nullopt;
  return static_cast<std::int64_t>(memory.used);
}

void* Nvml::device(const std::string& pci_bus_id) const {
  void* device = nullptr;
  if (device_by_pci_ == nullptr || device_by_pci_(pci_bus_id.c_str(), &device) != success) return nullptr;
  return device;
}

std::optional<double> Nvml::sm_clock_mhz(void* device) const {
  unsigned mhz = 0;
  if (device == nullptr || clock_ == nullptr || clock_(device, sm_clock, &mhz) != success) return std::nullopt;
  return mhz;
}

std::optional<double> Nvml::power_limit_w(void* device) const {
  unsigned milliwatts = 0;
  if (device == nullptr || power_limit_ == nullptr || power_limit_(device, &milliwatts) != success) return std::nullopt;
  return milliwatts * 1e-3;
}

std::optional<bool> Nvml::throttled(void* device) const {
  unsigned long long reasons = 0;
  if (device == nullptr || throttle_reasons_ == nullptr || throttle_reasons_(device, &reasons) != success) {
    return std::nullopt;
  }
  return (reasons & slowdowns) != 0;
}

std::optional<int> Nvml::processes(void* device) const {
  unsigned count = 0;
  if (device == nullptr || processes_ == nullptr) return std::nullopt;
  const int answer = processes_(device, &count, nullptr);
  if (answer != success && answer != insufficient_size) return std::nullopt;
  return static_cast<int>(count);
}

}  // namespace perfpred
