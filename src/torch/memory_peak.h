#pragma once
#include <c10/core/Device.h>
#include <perfpred/export.h>

#include <cstdint>
#include <memory>

namespace perfpred {

/// The most memory that tensors have held on a device since this was made. On a CPU those made by this thread and by
/// loaders that it starts; on CUDA what the caching allocator has handed out.
class PERFPRED_API MemoryPeak {
 public:
  explicit MemoryPeak(c10::Device device);
  ~MemoryPeak();

  [[nodiscard]] std::int64_t allocated_bytes() const;
  [[nodiscard]] std::int64_t reserved_bytes() const;  ///< on a CPU the same

 private:
  struct Counter;
  struct Hook;
  c10::Device device_;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<Hook> hook_;
};

/// Gives memory that no tensor holds back to the device; nothing on a CPU.
PERFPRED_API void empty_cache(c10::Device device);

}  // namespace perfpred
