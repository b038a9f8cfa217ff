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

}  // namespace perfpred
