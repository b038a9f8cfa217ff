// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/parallel_layout.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "network/zoo/pretrained.h"
#include "parallel/megatron_program.h"

namespace perfpred {

/// A transformer's training over several devices, as Megatron-LM with Transformer Engine lays it out.
struct RankRequest {
  TransformerDescription network;
  std::int64_t words = 0;          ///< of a sequence, >= 1
  std::int64_t micro_batch = 1;    ///< sequences, >= 1
  std::int64_t micro_batches = 1;  ///< of an update, on each replica, >= 1
  ParallelLayout layout;           ///< with dp
  MegatronProgram program;
  Precision precision = Precision::bf16;  ///< fp32, bf16, fp16
  Optimizer optimizer = Optimizer::adam;  ///< adam, adamw, sgd, momentum
  bool since_hopper = false;              ///< the GPU is of NVIDIA's Hopper or later
};

enum class PartKind : std::uint8_t { parameters, gradients, optimizer, activations, workspace };

/// Tensors of one purpose.
struct RankPart {
  std::string_view name;
  PartKind kind = PartKind::activations;
  double bytes = 0;
};

/// Memory of the ranks of one pipeline stage, which is the same for all of them but for how many words their experts
/// get.
struct RankMemory {
  std::int64_t stage = 0, tp = 0, ep = 0;  ///< of one of these ranks, from 0
  MemoryBound tensors;                     ///< at the peak, bytes: torch.cuda.max_memory_allocated
  std::vector<RankPart> parts;             ///< of tensors.p50, whole bytes
};

/// What of the request is not known, so that rank_memory() refuses it: `packed weights`; empty if there is nothing.
[[nodiscard]] std::string why_unknown(const RankRequest& request);

/// @throws InputError that says so: `memory over several devices is not answered for packed weights`
[[noreturn]] void refuse_rank_memory(std::string_view what);

/// Bytes of a rank's parts of one kind.
[[nodiscard]] std::int64_t bytes_of(const RankMemory& rank, PartKind kind);

/// One for each pipeline stage, from the first.
/// @throws InputError for a layout that does not divide the network, with a divisor that does; for a network,
/// precision, optimizer or layout whose memory is not known; for more bytes than any device has
[[nodiscard]] std::vector<RankMemory> rank_memory(const RankRequest& request);

/// The stage that holds the most. @param ranks  not empty
[[nodiscard]] const RankMemory& fullest(const std::vector<RankMemory>& ranks);

}  // namespace perfpred
