// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace perfpred {

struct Workload;

/// What a training job holds in the device's memory beside the tensors of a step.
struct PERFPRED_API TrainingJob {
  /// Tensors get memory of LibTorch's allocator for CUDA and ROCm, which rounds to 512 bytes, cuts blocks from segments
  /// of 2 MiB, 20 MiB or more, and keeps the segments. Else they get the bytes that they have, as on a CPU.
  bool caching_allocator = false;
  int threads = 2;      ///< of a CPU, >= 1; oneDNN's convolutions depend on it
  int vector_bits = 0;  ///< of a CPU's registers: 256 (AVX2) or 512 (AVX-512), for which oneDNN has other kernels; 0:
                        ///< not known. Bytes are then expected as of 512, and the bound is that of either
  int loader_batches = 2;  ///< batches on the device at a time, >= 1: the one trained on, and those loaded ahead
  std::int64_t matrix_workspace_bytes = 0;  ///< >= 0, of one handle of the matrix library; forward and backward have
                                            ///< one each
  std::int64_t context_bytes = 0;           ///< of the driver, >= 0
  bool cudnn = false;                       ///< convolutions have workspaces as cuDNN takes them on a GPU
  bool tf32_convolutions = false;           ///< those of fp32 operands are computed in TF32
  bool lengths_vary = false;      ///< sequences differ from step to step, so the allocator keeps blocks of many sizes
  bool other_allocator = false;   ///< on a GPU, not LibTorch's: how much it takes ahead is its user's setting
  bool unpacks_nf4 = false;       ///< bitsandbytes' products keep more for the backward pass than others
  bool compiled = false;          ///< by torch.compile: the bounds are wider
  std::int64_t device_bytes = 0;  ///< that a program can have, >= 0; 0 if that is not known. The allocator gives
                                  ///< unused blocks back before it runs out of them

  /// A job on this device with LibTorch's own settings, one thread for each core of a CPU, and the registers of this
  /// machine's CPU if the device is that: workspaces of cuBLAS are 8,519,680 bytes, on Hopper and Blackwell 32 MiB; of
  /// hipBLAS 32 MiB, on CDNA3 128 MiB; the context of a GPU's driver with the libraries is an allowance of 900 MB.
  /// @returns nothing for an accelerator that is neither GPU nor CPU: how it gets memory is not known
  [[nodiscard]] static std::optional<TrainingJob> on(const Device& device, Precision precision = Precision::fp32);

  /// The same for a workload, with its threads, if they are set, its software, and how its sequences and weights are
  /// stored.
  [[nodiscard]] static std::optional<TrainingJob> of(const Workload& workload, const Device& device);
};

/// Bytes: what is expected, and a bound that 95 of 100 jobs stay below.
struct MemoryBound {
  std::int64_t p50 = 0;
  std::int64_t upper = 0;
};

/// Whether a job fits a device: what 95 of 100 jobs need is within what a program can have; only the tensors that are
/// expected and the context are, so that it fits if the allocator gives its unused blocks back; or neither.
enum class MemoryVerdict { fits, only_just, does_not_fit };

[[nodiscard]] PERFPRED_API std::string_view to_string(MemoryVerdict verdict);

/// Memory that a training job holds at its peak, in bytes, found by replaying the life of every tensor of two steps:
/// an activation lives from the operator that makes it to the last that reads it; gradients until they are cleared
/// before the next step; parameters, buffers, optimizer state and the loader's batches always; the logits and the loss
/// to the end of the step. Validation holds less than training: it keeps no activations.
struct PERFPRED_API MemoryEstimate {
  std::int64_t peak_bytes = 0;   ///< expected on the device: the sum of what follows
  std::int64_t parameters = 0;   ///< and buffers
  std::int64_t gradients = 0;    ///< those that exist at the peak
  std::int64_t optimizer = 0;    ///< its state
  std::int64_t activations = 0;  ///< the batch, what is kept for the backward pass, temporaries
  std::int64_t loader = 0;       ///< batches loaded ahead
  std::int64_t workspace = 0;  ///< CPU: oneDNN's copies and its threads' scratch memory; GPU: of libraries, and unused
                               ///< bytes of the allocator
  std::int64_t context = 0;    ///< of the driver and libraries

  MemoryBound tensors;   ///< most that live tensors and workspaces hold (torch.cuda.max_memory_allocated); CPU: with
                         ///< the scratch memory of oneDNN's threads
  MemoryBound reserved;  ///< most that PyTorch's allocator keeps (torch.cuda.max_memory_reserved); CPU, and other
                         ///< software, whose allocator takes what it is set to: tensors
  MemoryBound device;    ///< with the driver's context and libraries: what nvidia-smi shows; CPU: tensors
  /// Of the upper bounds of `reserved` and `device`: blocks of other lengths that the allocator keeps, and gives back
  /// before memory runs out.
  std::int64_t given_back = 0;

  /// Bytes with which 95 of 100 jobs run.
  [[nodiscard]] std::int64_t needed() const { return device.upper - given_back; }

  /// @param reserved_by_others  bytes of the device that other programs hold
  /// @returns nothing if the memory size of `on` is not known
  [[nodiscard]] std::optional<MemoryVerdict> verdict(const Device& on, std::int64_t reserved_by_others = 0) const;
};

/// @throws InputError if the job has no thread, no batch, registers of another width or negative bytes
[[nodiscard]] PERFPRED_API MemoryEstimate estimate_memory(const ExecutedStep& step, const TrainingJob& job);

/// The largest batch size whose verdict is `fits`; nothing if not even one sample's is.
/// @param step  gives the step of a batch of this size, as execute() takes it
/// @param reserved_by_others  bytes of the device that other programs hold
/// @throws InputError as `step` does, if the memory size of the device is unknown or memory does not grow with the
/// batch
[[nodiscard]] PERFPRED_API std::optional<std::int64_t> largest_batch(
    const std::function<OpGraph(std::int64_t batch)>& step, const TrainingJob& job, const Device& device,
    std::int64_t reserved_by_others = 0);

/// The same for a workload, on a device for which TrainingJob::on() has an answer; Workload::threads, if set, counts.
/// @throws InputError also if TrainingJob::on() has none
[[nodiscard]] PERFPRED_API std::optional<std::int64_t> largest_batch(Workload workload, const Device& device,
                                                                     std::int64_t reserved_by_others = 0);

}  // namespace perfpred
