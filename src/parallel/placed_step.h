// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "catalogue/links.h"
#include "parallel/scaling_model.h"
#include "parallel/scaling_rows.h"
#include "workload/world.h"

namespace perfpred {

/// What a rank computes for one update, and what it hands to others.
struct RankWork {
  double micro_batch_sec = 0;      ///< forward and backward pass of one micro-batch, as if the rank were alone, > 0
  double update_sec = 0;           ///< the optimizer's, >= 0
  std::int64_t micro_batches = 1;  ///< of the update, >= 1
  std::int64_t layers = 0;         ///< blocks of the rank; 0: its network was not split
  double gradient_bytes = 0;       ///< that replicas sum, >= 0
  double parameter_bytes = 0;      ///< as the rank computes with them, > 0
  double hidden_bytes = 0;         ///< of what a block hands to the next for a micro-batch; 0: not split
  double key_bytes = 0;            ///< of a block's keys and values of whole sequences of a micro-batch; 0: cp is 1

  /// Of all micro-batches and the update, as if the rank were alone.
  [[nodiscard]] double sec() const { return static_cast<double>(micro_batches) * micro_batch_sec + update_sec; }
};

/// A step of several devices by what its time is spent on, seconds; what computation hides is in none of them.
struct PlacedStep {
  double compute = 0;         ///< micro-batches, of which a pipeline runs one after the other, and the update
  double host = 0;            ///< waiting for the host, and for the slowest device
  double links = 0;           ///< collectives and transfers
  double bubble = 0;          ///< a pipeline that fills and drains
  double rate = 1;            ///< what the program takes of the time that a rank would take alone; in `compute`
  double half_width = 0;      ///< of the 90 % interval of the logarithm of sec(), beyond that of the rank's own time
  double reduce = 0;          ///< of that, the sums of gradients, and all that replicas gather
  double hidden_reduce = 0;   ///< beside the backward pass, in none of the others
  double critical_bytes = 0;  ///< of gradients whose all-reduce waits for its latency as long as for its links; 0: none
  bool is_measured = false, is_placement_measured = false;  ///< ScalingEstimate: half_width is that of the whole time
  double correction = 1;                                    ///< what measured runs make of each of these seconds

  [[nodiscard]] double sec() const { return compute + host + links + bubble; }

  /// All seconds, by what measured runs say.
  void correct(double factor) {
    for (double* sec : {&compute, &host, &links, &bubble, &reduce, &hidden_reduce, &correction}) *sec *= factor;
  }
};

/// Replicas of a whole network: PyTorch's DistributedDataParallel, which sums gradients behind the backward pass, or
/// with shares of state, gradients and parameters (ZeRO, FSDP), which every micro-batch gathers. Ranks of tp, pp, ep:
/// Megatron-LM's tensor parallelism, which waits for two all-reduces of each block in each pass, its 1F1B schedule, and
/// a sum of gradients behind the last micro-batch.
/// @param links  of the job's cluster
/// @param job    what rows call it: cluster, network, precision, batch
/// @param runs   what measured runs of replicas say
[[nodiscard]] PlacedStep placed_step(const RankWork& work, const World& world, const Links& links,
                                     const ScalingRow& job, const ScalingModel& runs);

/// placed_step() of ranks that split the network, before measured runs correct it. @param cluster  whose links
[[nodiscard]] PlacedStep split_step(const RankWork& work, const World& world, const Links& links,
                                    const std::string& cluster);

/// A step of replicas, or of those that gather parameters the share of one of its micro-batches, as a row of
/// ScalingModel::fit(). @param step_sec  measured; 0: asked for
[[nodiscard]] ScalingRow replicas_row(const RankWork& work, const World& world, ScalingRow job, double step_sec);

}  // namespace perfpred
