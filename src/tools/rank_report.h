// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>
#include <perfpred/workload.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/rank_memory.h"

namespace perfpred {

struct Device;

/// What the memory of a rank is for, by name.
inline constexpr std::array<std::pair<std::string_view, PartKind>, 5> part_kinds = {
    {{"parameters", PartKind::parameters},
     {"gradients", PartKind::gradients},
     {"optimizer", PartKind::optimizer},
     {"activations", PartKind::activations},
     {"workspace", PartKind::workspace}}};

/// Memory of each rank of a training over several devices.
struct RankReport {
  std::string network;
  std::int64_t micro_batch = 0, micro_batches = 0;
  Placement placement;
  ParallelLayout layout;
  std::vector<RankMemory> ranks;  ///< one for each pipeline stage
};

/// @param workload  its batch is the micro-batch, `accumulate` the micro-batches, `checkpoint` all is Megatron's full
///                  recomputation; on one device there are no ranks to report
/// @param program   text of a MegatronProgram
/// @throws InputError as its parser, world_of(), rank_request() and rank_memory() do
[[nodiscard]] std::optional<RankReport> report_ranks(const Workload& workload, const std::string& program,
                                                     const std::optional<Device>& device);

}  // namespace perfpred
