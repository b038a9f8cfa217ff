// SPDX-License-Identifier: Apache-2.0
#include "parallel/placed_step.h"

#include <algorithm>
#include <cmath>

#include "workload/rank_network.h"

namespace perfpred {
namespace {

// Megatron-LM's steps: fitted on those that vTrain's authors measured on 2 to 8 A100 of one node (Bang et al. 2024;
// MIT), where networks that were left out have errors of 3.5 % in the median (docs/notes/parallel.md).
constexpr double rate = 0.89;              ///< of a micro-batch, of what the model of steps says
constexpr double host_of_block = 3.4e-3;   ///< seconds that the host takes for a block's two passes
constexpr double host_of_split = 0.13e-3;  ///< and for its collectives
constexpr double delay = 144e-6;           ///< of an all-reduce of two devices, by each doubling
constexpr double overhead = 2.3e-3;        ///< of an update
constexpr double join_sharpness = 4;       ///< power by which device and host are joined: the longer one counts
/// Shares of nominal links that collectives within a node, sums of gradients, transfers between stages, and all that
/// leaves a node get.
constexpr double of_tensors = 0.8, of_gradients = 0.87, of_transfers = 0.35, of_inter = 0.5;
/// Half widths of the logarithm: networks that were left out on the same machine; and other machines and more nodes,
/// which steps on 64 and 512 devices and those of another cluster show.
constexpr double own_half_width = 0.16, inter_half_width = 0.3;
/// The same of what no such step has: parameters that are gathered, and sequences that are shared.
constexpr double other_half_width = 0.4;
/// Collectives beside computing hide behind this share of a micro-batch, joined by this power: as those of replicas do
/// (scaling_model.cpp).
constexpr double overlap = 0.65, overlap_sharpness = 4;

double ring(double devices) { return 2 * (devices - 1) / devices; }

/// A nominal or measured bandwidth, bytes a second.
double bandwidth(const Links& links, const std::string& cluster, LinkScope scope, std::int64_t gpus, std::int64_t nodes,
                 double of_nominal) {
  constexpr double usual_gb_s = 8;
  const auto link = links.find(cluster, scope, gpus, nodes);
  const double share = link && link->source != "spec" ? 1 : of_nominal;
  return 1e9 * share * (link ? link->bus_gb_s : usual_gb_s);
}

class SplitStep {
 public:
  SplitStep(const RankWork& work, const World& world, const Links& links, const std::string& cluster)
      : work_(work), layout_(world.layout), placement_(world.placement), links_(links), cluster_(cluster) {}

  [[nodiscard]] PlacedStep take() const {
    PlacedStep step;
    const double tensors = tensor_sec(), alone = rate * work_.micro_batch_sec;
    const double host = static_cast<double>(work_.layers) * (host_of_block + (layout_.tp > 1 ? host_of_split : 0));
    const double device = alone + tensors;
    const double micro_batch =
        std::pow(std::pow(device, join_sharpness) + std::pow(host, join_sharpness), 1 / join_sharpness);
    const auto batches = static_cast<double>(work_.micro_batches);
    const double hides = overlap * micro_batch;
    const double keys = key_sec(), exposed_keys = exposed_sec(keys, hides, overlap_sharpness);
    step.rate = rate;
    step.compute = batches * alone + work_.update_sec;
    step.host = batches * (micro_batch - device) + overhead;
    if (gathers_parameters(layout_)) {
      // A pipeline's stages keep what they gathered from micro-batch to micro-batch (torchtitan: fully_shard of its
      // stages).
      const double times = layout_.pp > 1 ? 1 : batches;
      const double moved = gathering_sec(), exposed = exposed_sec(moved, hides, overlap_sharpness);
      step.reduce = times * exposed;
      step.hidden_reduce = times * (moved - exposed);
    } else {
      step.reduce = gradient_sec();
    }
    step.links = batches * (tensors + transfer_sec() + exposed_keys) + step.reduce;
    step.bubble = static_cast<double>(layout_.pp - 1) / static_cast<double>(layout_.vp) *
                  (micro_batch + exposed_keys + transfer_sec());
    step.half_width = gathers_parameters(layout_) || layout_.cp > 1 ? other_half_width
                      : placement_.node_count() > 1                 ? inter_half_width
                                                                    : own_half_width;
    return step;
  }

 private:
  /// Two all-reduces in each pass of a block, and those of embedding and head.
  [[nodiscard]] double tensor_sec() const {
    const auto devices = static_cast<double>(layout_.tp);
    if (layout_.tp == 1) return 0;
    const double collectives = 4 * static_cast<double>(work_.layers) + 2;
    return collectives *
           (ring(devices) * work_.hidden_bytes / bytes_sec(layout_.tp, 1, of_tensors) + delay * std::log2(devices));
  }

  /// To the next stage and back.
  [[nodiscard]] double transfer_sec() const {
    if (layout_.pp == 1) return 0;
    const std::int64_t stage = layout_.tp * layout_.cp * layout_.dp;
    const bool leaves = placement_.node_count() > 1 && stage >= placement_.fullest();
    const double bytes = leaves ? between_nodes(1) : within_node(layout_.pp, of_transfers);
    return static_cast<double>(layout_.vp) * 2 * work_.hidden_bytes / bytes;
  }

  /// Replicas are next to each other but for tp and cp, as Megatron-LM orders its ranks.
  [[nodiscard]] double gradient_sec() const {
    const std::int64_t replicas = layout_.dp * layout_.cp;
    if (replicas == 1) return 0;
    return ring(static_cast<double>(replicas)) * work_.gradient_bytes / bytes_sec(replicas, layout_.tp, of_gradients);
  }

  /// Parameters are gathered in both passes, or once for all micro-batches of a pipeline; gradients are summed and
  /// scattered. Each moves half of what an all-reduce moves.
  [[nodiscard]] double gathering_sec() const {
    const std::int64_t replicas = layout_.dp * layout_.cp;
    const double bytes = (layout_.pp > 1 ? 1 : 2) * work_.parameter_bytes + work_.gradient_bytes;
    return ring(static_cast<double>(replicas)) / 2 * bytes / bytes_sec(replicas, layout_.tp, of_gradients);
  }

  /// Keys and values go around the devices that share a sequence in the forward pass, they and their gradients in the
  /// backward pass (Liu et al. 2023, ring attention).
  [[nodiscard]] double key_sec() const {
    if (layout_.cp == 1) return 0;
    const auto devices = static_cast<double>(layout_.cp);
    const double bytes = 3 * static_cast<double>(work_.layers) * work_.key_bytes * (devices - 1) / devices;
    return bytes / bytes_sec(layout_.cp, layout_.tp, of_gradients);
  }

  /// Of a group of devices of which every `stride`-th belongs to it.
  [[nodiscard]] double bytes_sec(std::int64_t group, std::int64_t stride, double of_nominal) const {
    if (placement_.node_count() == 1 || group * stride <= placement_.fullest()) return within_node(group, of_nominal);
    return between_nodes(std::max<std::int64_t>(1, placement_.fullest() / stride));
  }

  [[nodiscard]] double within_node(std::int64_t group, double of_nominal) const {
    return bandwidth(links_, cluster_, LinkScope::intra, group, 1, of_nominal);
  }

  /// A node's links are shared by its devices. @param devices  of the group in the node
  [[nodiscard]] double between_nodes(std::int64_t devices) const {
    const double node =
        bandwidth(links_, cluster_, LinkScope::inter, placement_.devices(), placement_.node_count(), of_inter);
    return node * static_cast<double>(devices) / static_cast<double>(placement_.fullest());
  }

  const RankWork& work_;
  const ParallelLayout& layout_;
  const Placement& placement_;
  const Links& links_;
  const std::string& cluster_;
};

double batches_of_row(const RankWork& work, const World& world) {
  return gathers_parameters(world.layout) ? static_cast<double>(work.micro_batches) : 1;
}

PlacedStep replicas_step(const RankWork& work, const World& world, const Links& links, const ScalingRow& job,
                         const ScalingModel& runs) {
  const ScalingEstimate estimate = runs.predict(replicas_row(work, world, job, 0), links);
  const double times = batches_of_row(work, world);
  PlacedStep step;
  step.links = step.reduce = times * estimate.exposed_sec;
  step.hidden_reduce = times * std::max(0.0, estimate.reduce_sec - estimate.exposed_sec);
  const double rest = times * std::exp(estimate.log_sec) - step.links;
  step.compute = std::min(rest, work.sec());
  step.host = rest - step.compute;
  step.half_width = estimate.half_width;
  step.critical_bytes = estimate.critical_bytes;
  step.is_measured = estimate.is_measured;
  step.is_placement_measured = estimate.is_placement_measured;
  return step;
}

}  // namespace

/// Each replica sums its gradients once an update. One that has a share of the parameters gathers them in both passes
/// of every micro-batch, and sums gradients behind each; a sum moves twice what a gathering or a scattered sum does.
ScalingRow replicas_row(const RankWork& work, const World& world, ScalingRow job, double step_sec) {
  const double times = batches_of_row(work, world);
  job.placement = world.placement;
  job.accumulate = gathers_parameters(world.layout) ? 1 : work.micro_batches;
  job.gradient_bytes =
      gathers_parameters(world.layout) ? work.gradient_bytes / 2 + work.parameter_bytes : work.gradient_bytes;
  job.one_device_sec = work.sec() / times;
  job.step_sec = step_sec / times;
  return job;
}

PlacedStep split_step(const RankWork& work, const World& world, const Links& links, const std::string& cluster) {
  return SplitStep(work, world, links, cluster).take();
}

PlacedStep placed_step(const RankWork& work, const World& world, const Links& links, const ScalingRow& job,
                       const ScalingModel& runs) {
  const bool is_split = splits_network(world.layout);
  return is_split ? split_step(work, world, links, job.cluster) : replicas_step(work, world, links, job, runs);
}

}  // namespace perfpred
