#include <perfpred/torch/memory_peak.h>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <mutex>

namespace perfpred {

class MemoryPeak::Counter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device device) override {
    if (!device.is_cpu()) return;
    const std::lock_guard lock(mutex_);
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  [[nodiscard]] std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void restart() {
    const std::lock_guard lock(mutex_);
    peak_ = held_;
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

struct MemoryPeak::Scope {
  c10::DebugInfoGuard guard;
};

MemoryPeak::MemoryPeak()
    : counter_(std::make_shared<Counter>()),
      scope_(new Scope{c10::DebugInfoGuard(c10::DebugInfoKind::PROFILER_STATE, counter_)}) {}

MemoryPeak::~MemoryPeak() = default;

std::int64_t MemoryPeak::held_bytes() const { return counter_->held(); }
std::int64_t MemoryPeak::peak_bytes() const { return counter_->peak(); }
void MemoryPeak::restart() { counter_->restart(); }

}  // namespace perfpred
