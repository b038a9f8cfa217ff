// SPDX-License-Identifier: Apache-2.0
#include "workload/world.h"

#include <algorithm>
#include <utility>

namespace perfpred {

World world_of(const Workload& workload) {
  World world = {workload.gpus_per_node, workload.parallel};
  const std::int64_t devices = workload.parallel.devices();
  if (world.placement.nodes.empty() && devices > 1) {
    for (std::int64_t left = devices; left > 0; left -= usual_node)
      world.placement.nodes.push_back(std::min(left, usual_node));
  }
  world.layout = workload.parallel.on(world.placement);
  return world;
}

std::int64_t replicas_of(const Workload& workload) {
  return is_on_one_device(workload) ? 1 : world_of(workload).layout.dp;
}

Workload on_one_device(Workload workload) {
  workload.parallel = {};
  workload.gpus_per_node = {};
  workload.cluster.clear();
  return workload;
}

Workload without_idle_placement(Workload workload) {
  return is_on_one_device(workload) ? on_one_device(std::move(workload)) : workload;
}

Workload of_one_rank(const Workload& workload) {
  Workload rank = on_one_device(workload);
  rank.parallel.tp = workload.parallel.tp;
  rank.parallel.pp = workload.parallel.pp;
  rank.parallel.ep = workload.parallel.ep;
  rank.parallel.etp = workload.parallel.etp;
  // Experts are shared by replicas of a pipeline stage.
  const std::int64_t experts = rank.parallel.ep * rank.parallel.etp;
  if (experts > 1) rank.parallel.dp = (experts + rank.parallel.tp - 1) / rank.parallel.tp;
  return rank;
}

}  // namespace perfpred
