// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>

#include "parallel/rank_memory.h"

namespace perfpred {

/// Of a transformer of words that Megatron-LM lays out.
/// @param program  its flags
/// @param device   whose age chooses kernels; empty: not known
/// @throws InputError for other networks, and for fields of the workload that change memory in ways that are not known
[[nodiscard]] RankRequest rank_request(const Workload& workload, const MegatronProgram& program,
                                       const std::optional<Device>& device);

/// Memory of the fullest rank of a job on several devices.
struct PlacedMemory {
  MemoryEstimate memory;
  std::int64_t stage = 0, tp = 0, ep = 0;  ///< which rank it is
};

/// Memory of jobs on several devices of one kind, one after the other: what a rank holds alone is estimated once for
/// those in a row whose ranks compute the same.
class MemoryOfPlaced {
 public:
  explicit MemoryOfPlaced(const Device& device) : device_(device) {}

  /// Of a network that is split, what Megatron-LM's ranks hold (rank_memory()). Of replicas what one device holds, with
  /// the buckets of PyTorch's DistributedDataParallel, or without what they share, of which FSDP gathers two blocks at
  /// a time. Buffers of the collectives' library are in `context`.
  /// @returns nothing where it is not known: a device whose allocator is not, and what rank_request() and
  /// rank_memory() refuse
  [[nodiscard]] std::optional<PlacedMemory> of(const Workload& workload);

 private:
  /// What one rank holds as if there were no others.
  struct Alone {
    Workload rank;
    MemoryEstimate memory;
    double gradient_bytes = 0;  ///< of all parameters that are trained
  };
  /// @returns null where it is not known
  [[nodiscard]] const Alone* alone(const Workload& workload);

  const Device& device_;
  std::optional<Alone> alone_;  // of the last one
};

}  // namespace perfpred
