#include "device_monitor.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <cstdlib>

#include "cuda_device.h"
#include "nvml.h"

namespace perfpred {

DeviceMonitor::DeviceMonitor(c10::Device device)
    : device_(device), last_use_(cpu_use()), last_time_(std::chrono::steady_clock::now()) {
  if (!device.is_cpu()) nvml_device_ = Nvml::instance().device(cuda_device(device.index()).pci_bus_id);
}

std::optional<double> DeviceMonitor::busy_others() {
  const auto use = cpu_use();
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - last_time_).count();
  std::optional<double> others;
  if (use && last_use_ && elapsed > 0) {
    const double busy = use->busy_sec - last_use_->busy_sec;
    const double own = use->own_sec - last_use_->own_sec;
    others = std::max(0.0, (busy - own) / elapsed);
  }
  last_use_ = use;
  last_time_ = now;
  return others;
}

DeviceReading DeviceMonitor::read() {
  DeviceReading reading;
  if (device_.is_cpu()) {
    reading.clock_mhz = cpu_clock_mhz();
    if (const auto bytes = available_memory_bytes()) reading.mem_free_mb = static_cast<double>(*bytes) * 1e-6;
    reading.others = busy_others();
    return reading;
  }
  reading.clock_mhz = Nvml::instance().sm_clock_mhz(nvml_device_);
  reading.mem_free_mb = static_cast<double>(at::accelerator::getMemoryInfo(device_.index()).first) * 1e-6;
  reading.throttled = Nvml::instance().throttled(nvml_device_);
  // A container may hide all processes, this one included.
  if (const auto all = Nvml::instance().processes(nvml_device_)) reading.others = std::max(0, *all - 1);
  return reading;
}

std::optional<double> system_load() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? std::optional(load) : std::nullopt;
}

}  // namespace perfpred
