// SPDX-License-Identifier: Apache-2.0
#include "model/placed_prediction.h"

#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/lognormal.h"
#include "parallel/placed_step.h"
#include "step/epoch_steps.h"
#include "step/kept_steps.h"
#include "step/program.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// What a rank trains, as a job of its own: an epoch of one step of `micro_batches`.
Workload rank_of(const Workload& workload, std::int64_t micro_batches) {
  Workload rank = on_one_device(workload);
  rank.parallel.tp = workload.parallel.tp;
  rank.parallel.pp = workload.parallel.pp;
  rank.parallel.ep = workload.parallel.ep;
  rank.parallel.etp = workload.parallel.etp;
  // As many words as its experts get from all the ranks that share them: replicas of a pipeline stage.
  const std::int64_t experts = rank.parallel.ep * rank.parallel.etp;
  if (experts > 1) rank.parallel.dp = (experts + rank.parallel.tp - 1) / rank.parallel.tp;
  if (splits_network(rank.parallel) && rank.weights == Weights::as_precision) {
    // Megatron-LM computes with parameters in 16 bits, beside which the optimizer has others in 32.
    if (rank.precision == Precision::bf16) rank.weights = Weights::bf16;
    if (rank.precision == Precision::fp16) rank.weights = Weights::fp16;
  }
  rank.accumulate = micro_batches;
  rank.train_images = 1;
  rank.train_images = samples_per_step(rank);
  return rank;
}

/// The links of the job's cluster. @throws InputError for one that no table has
Links links_of(const Workload& workload, const Device& device, const Links& known) {
  if (workload.cluster.empty()) return usual_links(device);
  if (known.know(workload.cluster)) return known;
  throw InputError(fmt::format("cluster {}: no table of links has it (--links)", shown(workload.cluster)));
}

/// @throws InputError for layouts that are not timed
void check_timed(const Workload& workload) {
  const bool gathers = workload.parallel.sharding >= Sharding::zero2;
  const std::string layout = workload.parallel.text();
  if (workload.parallel.cp > 1) throw InputError(fmt::format("parallel {}: steps with cp are not timed", layout));
  if (splits_network(workload.parallel) && workload.phases == Phases::forward)
    throw InputError(fmt::format("parallel {}: a forward pass alone is not timed", layout));
  if (splits_network(workload.parallel) && gathers) {
    throw InputError(fmt::format("parallel {}: steps of {} joined with tp, pp or ep are not timed", layout,
                                 to_string(workload.parallel.sharding)));
  }
}

/// Of all that the step computes with, as it computes with them.
double parameter_bytes(const OpGraph& step, bool in_half) {
  double bytes = 0;
  for (const Tensor& tensor : step.tensors()) {
    if (tensor.role != TensorRole::parameter) continue;
    const bool is_cast = in_half && tensor.type == DataType::f32;
    bytes += static_cast<double>(tensor.bytes) / (is_cast ? 2 : 1);
  }
  return bytes;
}

RankWork work_of(const Workload& workload, const Device& device, const World& world, double one_sec, double two_sec) {
  const bool is_split = splits_network(world.layout);
  const std::shared_ptr<const ExecutedStep> step = executed_step(rank_of(workload, 1), device.kind);
  RankWork work;
  work.micro_batch_sec = std::clamp(two_sec - one_sec, one_sec / 2, one_sec);
  work.update_sec = one_sec - work.micro_batch_sec;
  if (world.layout.sharding != Sharding::none) work.update_sec /= static_cast<double>(world.layout.dp);
  // A captured step has all its batches in it.
  work.micro_batches = Program(workload.network).has_smaller_steps() ? workload.accumulate : 1;
  const bool in_half = workload.precision == Precision::bf16 || workload.precision == Precision::fp16;
  const double word = in_half && workload.weights != Weights::as_precision ? 2 : 4;
  const auto trained = static_cast<double>(step->graph().params());
  // Megatron-LM sums gradients in fp32, PyTorch's replicas in the parameters' type.
  work.gradient_bytes = trained * (is_split ? 4 : word);
  if (workload.phases == Phases::forward) work.gradient_bytes = 0;
  work.parameter_bytes = parameter_bytes(step->graph(), in_half);
  if (is_split) {
    const TransformerDescription network = *find_transformer(workload.network);
    work.layers = network.layers / world.layout.pp;
    work.hidden_bytes =
        static_cast<double>(workload.batch_size * Program(workload.network).positions(workload) * network.hidden) *
        (in_half ? 2 : 4);
  }
  return work;
}

/// @param alone_sec  of the same batches, of a replica on one device over the devices of a replica
Scaling scaling_of(const PlacedStep& step, double alone_sec, std::int64_t devices) {
  const double perfect_sec = step.rate * alone_sec;
  Scaling scaling;
  scaling.devices = devices;
  scaling.efficiency = perfect_sec / step.sec();
  scaling.exposed_comm_sec = step.links;
  scaling.critical_bucket_bytes = step.critical_bytes;
  const double small = std::max(0.0, step.compute - perfect_sec);
  const double above = step.host + step.links + step.bubble + small;
  if (above > 0) scaling.limits = {0, step.host / above, step.links / above, small / above, step.bubble / above};
  return scaling;
}

}  // namespace

ExplainedPrediction predict_placed(const Workload& workload, const Device& device, const DeviceCatalogue& devices,
                                   const std::function<ExplainedPrediction(const Workload&, bool)>& rank,
                                   bool explains) {
  check_timed(workload);
  const World world = world_of(workload);
  const Links links = links_of(workload, device, devices.links());
  ExplainedPrediction answer = rank(rank_of(workload, 1), explains);
  const bool has_batches = Program(workload.network).has_smaller_steps();
  const double one_sec = answer.prediction.time_sec.p50;
  const double two_sec = has_batches ? rank(rank_of(workload, 2), false).prediction.time_sec.p50 : 2 * one_sec;
  const RankWork work = work_of(workload, device, world, one_sec, two_sec);
  const PlacedStep step = placed_step(work, world, links, workload.cluster);

  const Quantiles& alone = answer.prediction.time_sec;
  const double width = std::hypot(half_width(alone), step.half_width);
  const double epoch_sec = step.sec() * epoch_steps(workload).by_samples();
  const double share = step.compute / one_sec * epoch_sec / step.sec();
  answer.prediction.time_sec = {epoch_sec * std::exp(-width), epoch_sec, epoch_sec * std::exp(width)};
  if (!explains) return answer;

  for (TimeTerm& term : answer.breakdown) term.sec *= share;
  const auto add = [&](const char* what, double sec) {
    if (sec > 0) answer.breakdown.push_back({what, sec * epoch_sec / step.sec()});
  };
  add("links", step.links);
  add("bubble", step.bubble);
  add("other devices", step.host);
  Workload replica = on_one_device(rank_of(workload, workload.accumulate));
  replica.train_images = samples_per_step(replica);
  const std::int64_t ranks = world.placement.devices() / world.layout.dp;
  const double perfect = rank(replica, false).prediction.time_sec.p50 / static_cast<double>(ranks);
  answer.scaling = scaling_of(step, perfect, world.placement.devices());
  const auto rate = [&](LinkScope scope, std::int64_t gpus) {
    const auto link = links.find(workload.cluster, scope, gpus, world.placement.node_count());
    return link ? link->bus_gb_s : 0;
  };
  answer.scaling->intra_gb_s = rate(LinkScope::intra, world.placement.fullest());
  answer.scaling->inter_gb_s = rate(LinkScope::inter, world.placement.devices());
  return answer;
}

}  // namespace perfpred
