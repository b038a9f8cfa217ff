// SPDX-License-Identifier: Apache-2.0
#include "tools/rank_report.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include "parallel/placed_memory.h"
#include "workload/world.h"

namespace perfpred {
std::optional<RankReport> report_ranks(const Workload& workload, const std::string& program,
                                       const std::optional<Device>& device) {
  if (is_on_one_device(workload)) {
    if (!program.empty()) throw InputError("--program is for several devices");
    return std::nullopt;
  }
  const World world = world_of(workload);
  return RankReport{std::string(workload.network),
                    workload.batch_size,
                    workload.accumulate,
                    world.placement,
                    world.layout,
                    rank_memory(rank_request(workload, parse_megatron_program(program), device))};
}

std::int64_t bytes_of(const RankMemory& rank, PartKind kind) {
  double bytes = 0;
  for (const RankPart& part : rank.parts) bytes += part.kind == kind ? part.bytes : 0;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace perfpred
