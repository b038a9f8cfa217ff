#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <memory>

namespace perfpred {

/// Bytes of the tensors on the CPU, counted by LibTorch's allocator: on the thread that made this object, and in the
/// backward passes that it starts, while the object lives. What was allocated before is not counted, nor is the scratch
/// memory that mathematical libraries take past the allocator.
class PERFPRED_API MemoryPeak {
 public:
  MemoryPeak();
  ~MemoryPeak();
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;

  [[nodiscard]] std::int64_t held_bytes() const;
  [[nodiscard]] std::int64_t peak_bytes() const;  ///< most that were held at once since the last restart
  void restart();                                 ///< forgets the peak, not what is held

 private:
  class Counter;
  struct Scope;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace perfpred
