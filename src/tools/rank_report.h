// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/rank_memory.h"

namespace perfpred {

struct Device;

/// Memory of each rank of a training over several devices.
struct RankReport {
  std::string network;
  std::int64_t micro_batch = 0, micro_batches = 0;
  Placement placement;
  ParallelLayout layout;
  std::vector<RankMemory> ranks;  ///< one for each pipeline stage
};

/// @param workload       its batch is the micro-batch, `accumulate` the micro-batches, `checkpoint` all is Megatron's
/// full
///                       recomputation
/// @param parallel       text of a layout; a layout of one device gives nothing
/// @param gpus_per_node  text of a placement; empty: one node of all devices of the layout
/// @param program        text of a MegatronProgram
/// @throws InputError as their parsers and rank_memory() do, and for fields of the workload that it does not answer
[[nodiscard]] std::optional<RankReport> report_ranks(const Workload& workload, const std::string& parallel,
                                                     const std::string& gpus_per_node, const std::string& program,
                                                     const std::optional<Device>& device);

/// Bytes of a rank's parts of one kind.
[[nodiscard]] std::int64_t bytes_of(const RankMemory& rank, PartKind kind);

}  // namespace perfpred
