// SPDX-License-Identifier: Apache-2.0
#include "model/placed_prediction.h"

#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "statistics/estimate.h"
#include "step/epoch_steps.h"
#include "step/kept_steps.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// Of the logarithm of a step whose collectives are not PyTorch's: TensorFlow's and PaddlePaddle's of 2020 on 2 to 32
/// V100 take 1 to 2.4 times as long beside their own steps on one (Oneflow-Inc/DLPerf).
constexpr double other_software_half_width = 0.5;

/// What a rank trains, as a job of its own: an epoch of one step of `micro_batches`.
Job rank_of(const Job& job, std::int64_t micro_batches) {
  Workload rank = of_one_rank(job.workload());
  if (splits_network(job.workload().parallel) && rank.weights == Weights::as_precision) {
    // Megatron-LM computes with parameters in 16 bits, beside which the optimizer has others in 32.
    if (rank.precision == Precision::bf16) rank.weights = Weights::bf16;
    if (rank.precision == Precision::fp16) rank.weights = Weights::fp16;
  }
  rank.accumulate = micro_batches;
  rank.train_images = samples_per_step(rank, job.program());
  return job.with(std::move(rank));
}

/// What rows and links call the job's cluster: one without a name is the node that its device is usually in.
std::string cluster_of(const Workload& workload, const Device& device) {
  return workload.cluster.empty() ? "usual node of " + device.name : workload.cluster;
}

/// A cluster's devices of one kind: what runs of split networks tell of each other by.
std::string machine_of(const Workload& workload, const Device& device) {
  return fmt::format("{} of {}", device.name, cluster_of(workload, device));
}

std::optional<Links> usual_links_of(const Workload& workload, const Device& device, const Placement& placement) {
  std::optional<Links> usual = usual_links(device, placement.fullest());
  if (!usual) return std::nullopt;
  Links named;
  for (Link link : usual->all()) {
    link.cluster = cluster_of(workload, device);
    named.add(std::move(link));
  }
  return named;
}

/// The links of the job's cluster; of one that runs alone know, those that such devices usually have, if any.
/// @throws InputError for one that no table has, or not all that the job needs
Links links_of(const Workload& workload, const Device& device, const Links& known, const Placement& placement,
               const PlacedRuns& runs) {
  const bool has_runs =
      runs.replicas.knows(cluster_of(workload, device)) || runs.layouts.know(machine_of(workload, device));
  const bool is_measured = has_runs && !known.know(workload.cluster);
  if (workload.cluster.empty() || is_measured) {
    if (std::optional<Links> usual = usual_links_of(workload, device, placement)) return *std::move(usual);
    if (is_measured) return {};
    throw InputError(fmt::format("links of device \"{}\" are not known: name a cluster of a links.csv", device.name));
  }
  if (!known.know(workload.cluster))
    throw InputError(fmt::format("cluster {} is in no links.csv that was given", shown(workload.cluster)));
  const auto check = [&](bool is_needed, LinkScope scope, std::string_view word) {
    if (is_needed && !known.find(workload.cluster, scope, placement.devices(), placement.node_count()))
      throw InputError(fmt::format("cluster {} has no link of scope {} in links.csv", shown(workload.cluster), word));
  };
  check(placement.fullest() > 1, LinkScope::intra, "intra");
  check(placement.node_count() > 1, LinkScope::inter, "inter");
  return known;
}

/// @throws InputError for layouts that are not timed
void check_timed(const Workload& workload) {
  if (splits_network(workload.parallel) && workload.phases == Phases::forward)
    throw InputError(fmt::format("parallel {}: a forward pass alone is not timed", workload.parallel.text()));
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

/// Seconds of a job's micro-batch and of its update, which together are those of its step.
struct StepSec {
  double micro_batch = 0, update = 0;
};

/// @param epoch_sec  of a job of one step
StepSec step_sec(const Job& job, const std::function<double(std::int64_t micro_batches)>& epoch_sec) {
  const double one = epoch_sec(1);
  if (!job.program().can_accumulate()) return {one, 0};
  const std::int64_t most = std::max<std::int64_t>(2, job.workload().accumulate);
  const double more = (epoch_sec(most) - one) / static_cast<double>(most - 1);
  const double micro_batch = std::min(more, one);
  return {micro_batch, one - micro_batch};
}

/// Of the time of a rank's passes the share of norms, residuals and dropout of each word.
double word_share(const Job& rank, const TransformerDescription& network, const RankModel& model) {
  const auto [known, is_new] = model.word_shares.try_emplace(rank.workload(), 0);
  if (!is_new) return known->second;
  const std::shared_ptr<const ExecutedStep> step = executed_step(rank.workload(), rank.device().known().kind);
  const OpGraph& graph = step->graph();
  double all = 0, of_words = 0;
  for (const TimedKernel& kernel : model.kernels(rank)) {
    const Op& op = graph.ops()[kernel.op];
    if (op.phase == Phase::optimizer) continue;
    all += kernel.device_sec;
    const std::span<const TensorId> outputs = graph.outputs(op);
    if (is_conv_or_matmul(op.kind) || outputs.empty() || outputs[0] == no_tensor) continue;
    const Shape& shape = graph.shape(outputs[0]);
    if (shape.rank() > 1 && shape.back() == network.hidden) of_words += kernel.device_sec;
  }
  if (all > 0) known->second = of_words / all;
  return known->second;
}

/// What sequence parallelism leaves of the time of a rank's passes: the words are computed by one of the devices that
/// share the matrices, not by all (Korthikanti et al. 2023, section 4.2.2).
double with_shared_words(const Job& rank, const TransformerDescription& network, std::int64_t devices,
                         const RankModel& model) {
  return 1 - word_share(rank, network, model) * (1 - 1 / static_cast<double>(devices));
}

/// Numbers of a word's keys and values in a block.
double key_width(const TransformerDescription& network) {
  const std::int64_t of_head = network.head_dim > 0 ? network.head_dim : network.hidden / network.heads;
  return static_cast<double>(2 * of_head * (network.kv_heads > 0 ? network.kv_heads : network.heads));
}

/// @param rank  with one micro-batch
RankWork work_of(const Job& job, const Job& rank, const World& world, const StepSec& sec, const RankModel& model) {
  const Workload& workload = job.workload();
  const bool is_split = splits_network(world.layout);
  const std::shared_ptr<const ExecutedStep> step = executed_step(rank.workload(), job.device().known().kind);
  RankWork work;
  work.micro_batch_sec = sec.micro_batch;
  work.update_sec = sec.update;
  if (world.layout.sharding != Sharding::none) work.update_sec /= static_cast<double>(world.layout.dp);
  work.micro_batches = job.program().can_accumulate() ? workload.accumulate : 1;
  const bool in_half = is_half(workload.precision);
  const double word = in_half && workload.weights != Weights::as_precision ? 2 : 4;
  const auto trained = static_cast<double>(step->graph().params());
  // Megatron-LM sums gradients in fp32, PyTorch's replicas in the parameters' type.
  work.gradient_bytes = trained * (is_split ? 4 : word);
  if (workload.phases == Phases::forward) work.gradient_bytes = 0;
  work.parameter_bytes = parameter_bytes(step->graph(), in_half);
  if (is_split) {
    const TransformerDescription network = split_transformer(workload);
    work.layers = network.layers / world.layout.pp;
    const auto positions = static_cast<double>(workload.batch_size * job.program().positions(workload));
    const double bytes = in_half ? 2 : 4;
    const auto shares = static_cast<double>(world.layout.cp);
    // Each of the devices that share a sequence computes as much of it: attention is balanced between them.
    work.micro_batch_sec /= shares;
    if (world.layout.sp && world.layout.tp > 1)
      work.micro_batch_sec *= with_shared_words(rank, network, world.layout.tp, model);
    work.hidden_bytes = positions * static_cast<double>(network.hidden) * bytes / shares;
    if (world.layout.cp > 1)
      work.key_bytes = positions * key_width(network) / static_cast<double>(world.layout.tp) * bytes;
  }
  return work;
}

/// @param perfect_sec  of the step, if nothing were lost
Scaling scaling_of(const PlacedStep& step, double perfect_sec, std::int64_t devices) {
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

namespace {

/// All of a job on several devices but its links and its step.
PlacedJob ranks_of(const Job& job, const RankModel& model, bool explains) {
  const Workload& workload = job.workload();
  const Device& device = job.device().known();
  check_timed(workload);
  PlacedJob placed{world_of(workload), {}, rank_of(job, 1), {}, {}, {}, {}};
  placed.alone = model.estimate(placed.rank, explains);
  const StepSec of_rank = step_sec(job, [&](std::int64_t micro_batches) {
    return micro_batches == 1 ? placed.alone.time.sec() : model.estimate(rank_of(job, micro_batches), false).time.sec();
  });
  placed.work = work_of(job, placed.rank, placed.world, of_rank, model);
  placed.row.cluster = cluster_of(workload, device);
  placed.row.gpu = device.name;
  placed.row.network = workload.network;
  if (gathers_parameters(workload.parallel)) placed.row.network += " gathered";
  placed.row.precision = to_string(workload.precision);
  placed.row.local_batch = workload.batch_size;
  return placed;
}

/// @throws InputError as split_transformer()
LayoutInput layout_input(const Job& job, const World& world) {
  const Workload& workload = job.workload();
  const TransformerDescription network = split_transformer(workload);
  const ParallelLayout& layout = world.layout;
  const std::int64_t words = workload.batch_size * job.program().positions(workload);
  LayoutInput input = {machine_of(workload, job.device().known()), {}};
  const auto set = [&](std::size_t which, std::int64_t value) {
    input.numbers[which] = std::log2(static_cast<double>(value));
  };
  set(LayoutInput::tp, layout.tp);
  set(LayoutInput::pp, layout.pp);
  set(LayoutInput::dp, layout.dp);
  set(LayoutInput::cp, layout.cp);
  set(LayoutInput::ep, layout.ep);
  set(LayoutInput::vp, layout.vp);
  set(LayoutInput::words, words / layout.cp);
  set(LayoutInput::micro_batches, workload.accumulate);
  set(LayoutInput::hidden, network.hidden);
  set(LayoutInput::layers, network.layers);
  set(LayoutInput::bytes, is_half(workload.precision) ? 2 : 4);
  const bool all_again = workload.checkpoint > 0, some_again = workload.checkpoint < 0;
  input.numbers[LayoutInput::recompute] = all_again ? 2 : some_again ? 1 : 0;
  input.numbers[LayoutInput::gathers] = gathers_parameters(layout) ? 1 : 0;
  return input;
}

/// What runs of split networks make of the step.
void correct(PlacedJob& placed, const Job& job, const LayoutRuns& runs) {
  const auto known = runs.at(layout_input(job, placed.world));
  if (!known) return;
  placed.step.correct(std::exp(known->log_factor));
  placed.step.half_width = known->width * std::hypot(placed.alone.time.widths.total(), placed.step.half_width);
  placed.step.is_measured = true;
  placed.step.is_placement_measured = known->is_layout_measured;
}

/// Steps of an epoch, whose last one of fewer samples takes as long as another.
double steps_of_epoch(const Job& job) {
  const EpochSteps steps = epoch_steps(job);
  return steps.hide_the_last() ? steps.by_samples() : static_cast<double>(steps.full + (steps.rest > 0));
}

}  // namespace

PlacedJob placed_job(const Job& job, const RankModel& rank, const PlacedRuns& runs, bool explains) {
  const Workload& workload = job.workload();
  const Device& device = job.device().known();
  Links links = links_of(workload, device, job.devices().links(), world_of(workload).placement, runs);
  PlacedJob placed = ranks_of(job, rank, explains);
  placed.links = std::move(links);
  placed.step = placed_step(placed.work, placed.world, placed.links, placed.row, runs.replicas);
  if (splits_network(workload.parallel)) correct(placed, job, runs.layouts);
  return placed;
}

PlacedRun placed_run(const Job& job, double epoch_sec, const RankModel& rank) {
  const Workload& workload = job.workload();
  const PlacedJob placed = ranks_of(job, rank, false);
  const double step_sec = epoch_sec / steps_of_epoch(job);
  PlacedRun run = {replicas_row(placed.work, placed.world, placed.row, step_sec), {}, job.devices().links()};
  if (!run.links.know(workload.cluster))
    run.links = usual_links_of(workload, job.device().known(), placed.world.placement).value_or(Links());
  if (splits_network(workload.parallel)) {
    const PlacedStep expected = split_step(placed.work, placed.world, run.links, placed.row.cluster);
    run.layout = {layout_input(job, placed.world), std::log(step_sec / expected.sec())};
  }
  return run;
}

PlacedRuns together(const std::vector<PlacedRun>& runs) {
  std::vector<const ScalingRow*> rows;
  std::vector<LayoutRun> layouts;
  Links links;
  for (const PlacedRun& run : runs) {
    if (run.layout) {
      layouts.push_back(*run.layout);
      continue;
    }
    rows.push_back(&run.row);
    if (links.know(run.row.cluster)) continue;
    for (const Link& link : run.links.all()) {
      if (link.cluster == run.row.cluster) links.add(link);
    }
  }
  return {ScalingModel::fit(rows, links), LayoutRuns(layouts)};
}

JobEstimate predict_placed(const Job& job, const RankModel& rank, const PlacedRuns& runs, bool explains) {
  PlacedJob placed = placed_job(job, rank, runs, explains);
  const World& world = placed.world;
  const RankWork& work = placed.work;
  const PlacedStep& step = placed.step;
  JobEstimate answer = std::move(placed.alone);
  const double one_sec = answer.time.sec();

  const double count = steps_of_epoch(job);
  answer.time.scale(std::log(step.compute / one_sec * count));
  answer.time.log_sec = std::log(step.sec() * count);
  if (step.is_measured) answer.time.widths = {};  // that of the runs holds all
  const bool is_other = !step.is_measured && job.workload().software != Software::pytorch;
  answer.time.widths.links = std::hypot(step.half_width, is_other ? other_software_half_width : 0);
  if (step.is_measured) answer.time.rests_on = Provenance::runs;
  if (step.is_measured)
    answer.reason = step.is_placement_measured ? DomainViolation::none : DomainViolation::other_placement;
  if (!explains) return answer;

  const auto add = [&](const char* what, double sec) {
    if (sec > 0) answer.time.parts.push_back({what, sec * count});
  };
  add("links", step.links);
  add("bubble", step.bubble);
  add("other devices", step.host);
  // What a replica on one device computes, over the devices that share it, and the rank's own update.
  const StepSec of_replica = step_sec(job, [&](std::int64_t micro_batches) {
    Workload replica = on_one_device(rank_of(job, micro_batches).workload());
    replica.train_images = samples_per_step(replica, job.program());
    return rank.estimate(job.with(std::move(replica)), false).time.sec();
  });
  const std::int64_t ranks = world.layout.devices() / world.layout.dp;
  const double batches = step.correction * step.rate * static_cast<double>(work.micro_batches) *
                         of_replica.micro_batch / static_cast<double>(ranks);
  answer.scaling = scaling_of(step, batches + step.correction * work.update_sec, world.layout.devices());
  const auto rate = [&](LinkScope scope, std::int64_t gpus) {
    const auto link = placed.links.find(placed.row.cluster, scope, gpus, world.placement.node_count());
    return link ? link->bus_gb_s : 0;
  };
  answer.scaling->intra_gb_s = rate(LinkScope::intra, world.placement.fullest());
  answer.scaling->inter_gb_s = rate(LinkScope::inter, world.placement.devices());
  return answer;
}

}  // namespace perfpred
