// SPDX-License-Identifier: Apache-2.0
#include "torch/monitor/device_monitor.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catalogue/nvml.h"
#include "statistics/parallel.h"
#include "torch/device/cuda_device.h"

namespace perfpred {
namespace {

constexpr double lost_processors = 0.1;
constexpr double throttled_share = 0.05;
// The kernel samples who is busy a hundred times a second: over a tenth of a second that is off by a fifth of a core.
constexpr double busy_sec = 1;
constexpr double busy_processors = 0.25;

}  // namespace

void Disturbance::add(const DeviceReading& reading) {
  sec += reading.sec;
  if (reading.disturbed) disturbed_sec += reading.sec;
  throttled = throttled || reading.throttled.value_or(false);
  company = company || reading.company;
}

DeviceMonitor::DeviceMonitor(c10::Device device, std::vector<int> companions)
    : device_(device), last_(std::chrono::steady_clock::now()) {
  if (!device.is_cpu()) {
    nvml_device_ = Nvml::instance().device(cuda_device(device.index()).pci_bus_id);
    return;
  }
  waits_.emplace(usable_cpus(), std::string(), CpuWaits::Clock::now(), std::move(companions));
  if (!waits_->read()) waits_.reset();
}

/// By all processes together; false until a second has been seen.
bool DeviceMonitor::cores_are_busy() {
  const auto use = cpu_use();
  awaits_company_ = false;
  if (!use) return false;
  const auto now = std::chrono::steady_clock::now();
  uses_.push_back({now, *use});
  const auto age = [&](std::size_t i) { return std::chrono::duration<double>(now - uses_[i].time).count(); };
  while (uses_.size() > 1 && age(1) >= busy_sec) uses_.pop_front();
  awaits_company_ = age(0) < busy_sec;
  if (awaits_company_) return false;
  const CpuUse& then = uses_.front().use;
  const double others = (use->busy_sec - then.busy_sec - (use->own_sec - then.own_sec)) / age(0);
  return others > std::max(0, usable_cpus() - at::get_num_threads()) + busy_processors;
}

DeviceReading DeviceMonitor::read() {
  DeviceReading reading;
  const auto now = std::chrono::steady_clock::now();
  reading.sec = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  if (device_.is_cpu()) {
    reading.clock_mhz = cpu_clock_mhz();
    if (const auto bytes = available_memory_bytes()) reading.mem_free_mb = static_cast<double>(*bytes) * 1e-6;
    if (waits_) {
      const auto waits = waits_->read();
      reading.company = waits && waits->lost_processors > lost_processors;
      reading.throttled = waits && (waits->hot || waits->throttled_share > throttled_share);
    } else {
      reading.company = cores_are_busy();
    }
    reading.disturbed = reading.company || reading.throttled.value_or(false);
    return reading;
  }
  reading.clock_mhz = Nvml::instance().sm_clock_mhz(nvml_device_);
  reading.mem_free_mb = static_cast<double>(at::accelerator::getMemoryInfo(device_.index()).first) * 1e-6;
  reading.throttled = Nvml::instance().throttled(nvml_device_);
  // A container may hide all processes, this one included.
  if (const auto processes = Nvml::instance().processes(nvml_device_)) reading.company = *processes > 1;
  reading.disturbed = reading.throttled.value_or(false);
  return reading;
}

std::optional<double> system_load() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? std::optional(load) : std::nullopt;
}

}  // namespace perfpred
