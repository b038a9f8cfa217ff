// SPDX-License-Identifier: Apache-2.0
#include "torch/device/device_monitor.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "torch/device/cuda_device.h"
#include "torch/device/nvml.h"

namespace perfpred {
namespace {

// The kernel samples who is busy a hundred times a second: over a tenth of a second that is off by a fifth of a core.
constexpr double company_sec = 1;
constexpr double busy_processors = 0.25;

double free_processors() {
  return std::max(0.0, static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN) - at::get_num_threads()));
}

}  // namespace

DeviceMonitor::DeviceMonitor(c10::Device device) : device_(device) {
  if (!device.is_cpu()) nvml_device_ = Nvml::instance().device(cuda_device(device.index()).pci_bus_id);
}

std::optional<double> DeviceMonitor::busy_others() {
  const auto use = cpu_use();
  awaits_company_ = false;
  if (!use) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  uses_.push_back({now, *use});
  const auto age = [&](std::size_t i) { return std::chrono::duration<double>(now - uses_[i].time).count(); };
  while (uses_.size() > 1 && age(1) >= company_sec) uses_.pop_front();
  awaits_company_ = age(0) < company_sec;
  if (awaits_company_) return std::nullopt;
  const CpuUse& then = uses_.front().use;
  return std::max(0.0, (use->busy_sec - then.busy_sec - (use->own_sec - then.own_sec)) / age(0));
}

DeviceReading DeviceMonitor::read() {
  DeviceReading reading;
  if (device_.is_cpu()) {
    reading.clock_mhz = cpu_clock_mhz();
    if (const auto bytes = available_memory_bytes()) reading.mem_free_mb = static_cast<double>(*bytes) * 1e-6;
    reading.others = busy_others();
    reading.company = reading.others && *reading.others > free_processors() + busy_processors;
    return reading;
  }
  reading.clock_mhz = Nvml::instance().sm_clock_mhz(nvml_device_);
  reading.mem_free_mb = static_cast<double>(at::accelerator::getMemoryInfo(device_.index()).first) * 1e-6;
  reading.throttled = Nvml::instance().throttled(nvml_device_);
  // A container may hide all processes, this one included.
  if (const auto all = Nvml::instance().processes(nvml_device_)) reading.others = std::max(0, *all - 1);
  reading.company = reading.others && *reading.others > 0;
  return reading;
}

std::optional<double> system_load() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? std::optional(load) : std::nullopt;
}

}  // namespace perfpred
