// SPDX-License-Identifier: Apache-2.0
#include "torch/device/memory_peak.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <mutex>

#include "torch/device/step_clock.h"

namespace perfpred {

/// Counts what LibTorch reports, from every thread that the hook reaches.
struct MemoryPeak::Counter final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    const std::lock_guard lock(mutex);
    now += bytes;
    peak = std::max(peak, now);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  std::mutex mutex;
  std::int64_t now = 0;
  std::int64_t peak = 0;
};

struct MemoryPeak::Hook {
  explicit Hook(std::shared_ptr<Counter> counter) : guard(c10::DebugInfoKind::PROFILER_STATE, std::move(counter)) {}
  c10::DebugInfoGuard guard;
};

MemoryPeak::MemoryPeak(c10::Device device) : device_(device) {
  if (device.is_cpu()) {
    counter_ = std::make_shared<Counter>();
    hook_ = std::make_unique<Hook>(counter_);
  } else {
    at::accelerator::resetPeakStats(device.index());
  }
}

MemoryPeak::~MemoryPeak() = default;

void MemoryPeak::restart() {
  if (counter_) return;
  synchronize(device_);
  empty_cache(device_);
  forget();
}

void MemoryPeak::forget() {
  if (!counter_) at::accelerator::resetPeakStats(device_.index());
}

void MemoryPeak::stop() { stopped_at_ = {allocated_bytes(), reserved_bytes()}; }

std::int64_t MemoryPeak::allocated_bytes() const {
  if (stopped_at_) return stopped_at_->first;
  if (counter_) {
    const std::lock_guard lock(counter_->mutex);
    return counter_->peak;
  }
  return at::accelerator::getDeviceStats(device_.index()).allocated_bytes[0].peak;
}

std::int64_t MemoryPeak::reserved_bytes() const {
  if (stopped_at_) return stopped_at_->second;
  if (counter_) return allocated_bytes();
  return at::accelerator::getDeviceStats(device_.index()).reserved_bytes[0].peak;
}

void empty_cache(c10::Device device) {
  if (device.is_cpu()) return;
  at::cuda::clearCublasWorkspaces();  // one for each stream that ever multiplied; they are held as tensors are
  at::accelerator::emptyCache();
}

}  // namespace perfpred
