// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>
#include <perfpred/workload.h>

#include <cstdint>

namespace perfpred {

/// Devices that a node of a known machine has at most (DGX, HGX, the clouds' largest).
inline constexpr std::int64_t usual_node = 8;

/// The devices of a job: where they are, and what each has of the job.
struct World {
  Placement placement;
  ParallelLayout layout;  ///< with dp; ep may be all of a pipeline stage's devices
};

/// Whether replicas have shares of the parameters, which they gather to compute with them.
[[nodiscard]] inline bool gathers_parameters(const ParallelLayout& layout) {
  return layout.sharding == Sharding::zero3 || layout.sharding == Sharding::fsdp;
}

/// Whether no field says that there are several devices.
[[nodiscard]] inline bool has_usual_world(const Workload& workload) {
  return workload.gpus_per_node.nodes.empty() && workload.parallel == ParallelLayout() && workload.cluster.empty();
}

/// Whatever its replica would share with others.
[[nodiscard]] inline bool is_on_one_device(const Workload& workload) {
  return workload.gpus_per_node.nodes.empty() && workload.parallel.devices() == 1;
}

/// Where nobody says where the devices of a layout are, they fill nodes of eight.
/// @throws InputError if the layout and the placement differ in their devices
[[nodiscard]] World world_of(const Workload& workload);

/// Batches that run at the same time: dp of the world; 1 on one device. @throws InputError as world_of()
[[nodiscard]] std::int64_t replicas_of(const Workload& workload);

/// The same without other devices: of a job on several, what one replica trains.
[[nodiscard]] Workload on_one_device(Workload workload);

/// A job on one device without what says where others would be: a cluster's name, say. One on several as it is.
[[nodiscard]] Workload without_idle_placement(Workload workload);

/// What one rank of it trains: with its share of the network, and no more replicas than its experts take.
[[nodiscard]] Workload of_one_rank(const Workload& workload);

}  // namespace perfpred
