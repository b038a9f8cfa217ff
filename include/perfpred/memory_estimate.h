// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace perfpred {

struct Device;
struct Workload;

/// How tensors get memory. `exact`: as many bytes as they have, what LibTorch asks of a CPU. `caching`: LibTorch's CUDA
/// allocator, which rounds to 512 bytes and cuts from segments of 2 MiB, 20 MiB or more that it keeps.
enum class Allocator : std::uint8_t { exact, caching };

/// Memory that training steps hold at their peak, in bytes, found by replaying the life of every tensor of two steps:
/// an activation lives from the operator that makes it to the last that reads it, gradients until they are cleared
/// before the next step, parameters, buffers, optimizer state and the batch always, the logits and the loss to the end.
struct PERFPRED_API MemoryEstimate {
  std::int64_t peak_bytes = 0;   ///< the sum of what follows
  std::int64_t parameters = 0;   ///< and buffers
  std::int64_t gradients = 0;    ///< those there are at the peak
  std::int64_t optimizer = 0;    ///< state
  std::int64_t activations = 0;  ///< the batch, what is kept for the backward pass, temporaries
  std::int64_t workspace = 0;    ///< what the allocator keeps beyond its tensors, and matrix libraries use
  std::int64_t context = 0;      ///< of the CUDA driver: an allowance of 512 MiB, 0 on a CPU

  /// @throws InputError if there is no such device memory: `device` has no mem_gb
  /// @param margin  share of the device's memory that must stay free, 0..1
  [[nodiscard]] bool fits(const Device& device, double margin = 0.03) const;
};

/// @param threads  of a CPU; with one, LibTorch has other kernels for 1x1 convolutions of small batches
[[nodiscard]] PERFPRED_API MemoryEstimate estimate_memory(const OpGraph& graph, Allocator allocator, int threads = 2);

/// How tensors get memory on a device.
[[nodiscard]] PERFPRED_API Allocator allocator_of(const Device& device);

/// The largest batch whose step fits the device; nothing if not even one sample does.
/// @throws InputError as Workload::graph() and MemoryEstimate::fits() do
[[nodiscard]] PERFPRED_API std::optional<std::int64_t> largest_batch(Workload workload, const Device& device,
                                                                     double margin = 0.03);

/// The same for any step. @param step  the graph of a step of a batch
/// @throws InputError also if its memory does not grow with the batch
[[nodiscard]] PERFPRED_API std::optional<std::int64_t> largest_batch(
    const std::function<OpGraph(std::int64_t batch)>& step, const Device& device, double margin = 0.03);

}  // namespace perfpred
