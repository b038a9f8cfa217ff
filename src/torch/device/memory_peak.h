// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace perfpred {

/// The most memory that tensors have held on a device since this was made. On a CPU those made by this thread and by
/// loaders that it starts; on CUDA what the caching allocator has handed out.
class MemoryPeak {
 public:
  explicit MemoryPeak(c10::Device device);
  ~MemoryPeak();

  /// To be called after the first step: on CUDA, forgets the memory that cuDNN took to try its algorithms, which is as
  /// much as is free and not what training needs. The next step allocates anew.
  void restart();
  void forget();  ///< on CUDA, the peak so far; what the allocator keeps stays with it
  void stop();    ///< later allocations do not count

  [[nodiscard]] std::int64_t allocated_bytes() const;
  [[nodiscard]] std::int64_t reserved_bytes() const;  ///< on a CPU the same

 private:
  struct Counter;
  struct Hook;
  c10::Device device_;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<Hook> hook_;
  std::optional<std::pair<std::int64_t, std::int64_t>> stopped_at_;  // allocated, reserved
};

/// Gives memory that no tensor holds back to the device, and what matrix libraries keep; nothing on a CPU. Not while
/// a CUDA graph is to be replayed.
void empty_cache(c10::Device device);

}  // namespace perfpred
