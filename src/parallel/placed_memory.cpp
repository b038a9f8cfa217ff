// SPDX-License-Identifier: Apache-2.0
#include "parallel/placed_memory.h"

#include <perfpred/error.h>
#include <perfpred/executed_step.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "step/kept_steps.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// How many times the expected bytes the bound of shares has at least: how many units are gathered at a time, in which
/// type, and what the program casts are its user's (docs/notes/parallel.md, Memory of replicas).
constexpr double bound_sharded = 1.45;
/// The same of shares of split networks: torchtitan's two runs of Llama 3.1 70B on 256 devices take 1.63 and 1.73 times
/// the expected bytes (docs/notes/parallel.md).
constexpr double bound_joined = 1.8;
/// Bytes of NCCL on a device: nvidia-smi shows 1.4 to 3.7 GB more of jobs on 8 and 16 A100 than of those on one
/// (FlagPerf's ResNet-50 and MobileNet); of the most a part is the allocator's.
constexpr MemoryBound collectives_of_gpu = {1'400'000'000, 3'000'000'000};

/// What a rank's memory would depend on, and is not known; empty if there is nothing.
std::string unknown_field(const Workload& workload, const std::optional<Device>& device) {
  if (!workload.adapter.empty()) return "adapters";
  if (workload.weights != Weights::as_precision) return "weights other than as_precision";
  if (workload.phases != Phases::all) return "phases forward";
  if (workload.loss != LossForm::whole) return "loss chunked";
  if (workload.padding != Padding::packed) return "padding padded";
  if (workload.optimizer_impl != OptimizerImpl::fused) return "optimizer_impl foreach: Megatron-LM's is fused";
  if (workload.checkpoint > 1) return "checkpoint of every k-th block: none, selective and all are known";
  if (workload.checkpoint == op_checkpoint) return "checkpoint op: none, selective and all are known";
  if (device && (device->kind != DeviceKind::gpu || device->vendor == "AMD")) return "devices but NVIDIA's GPUs";
  return {};
}

RankRequest request_of(const Workload& workload, const TransformerDescription& network, const MegatronProgram& program,
                       const std::optional<Device>& device) {
  RankRequest request;
  request.layout = world_of(workload).layout;
  request.program = program;
  request.network = network;
  request.words = workload.input.front();
  request.micro_batch = workload.batch_size;
  request.micro_batches = workload.accumulate;
  request.precision = workload.precision;
  request.optimizer = workload.optimizer;
  request.since_hopper = device && (device->arch == "Hopper" || device->arch == "Blackwell");
  if (workload.checkpoint == 1) request.program.recompute = Recompute::layers;
  if (workload.checkpoint == selective_checkpoint) request.program.recompute = Recompute::core_attention;
  if (workload.attention == Attention::eager) request.program.attention = AttentionKernel::unfused;
  return request;
}

/// What each of the replicas has of `bytes` that they share.
std::int64_t shared(std::int64_t bytes, std::int64_t replicas) { return (bytes + replicas - 1) / replicas; }

/// Of all parameters that are trained.
double gradient_bytes(const OpGraph& step) {
  std::int64_t bytes = 0;
  for (TensorId id = 0; id < step.tensors().size(); ++id) {
    const Tensor& tensor = step.tensors()[id];
    if (tensor.role == TensorRole::gradient && tensor.storage == id) bytes += tensor.bytes;
  }
  return static_cast<double>(bytes);
}

/// DistributedDataParallel's buckets hold all gradients a second time, unless its user makes them views
/// (gradient_as_bucket_view of torch/nn/parallel/distributed.py, False by default). With shares, each replica has one
/// of state, of gradients and of parameters; of these FSDP gathers a block while it computes another.
void share(MemoryEstimate& memory, const Workload& workload, const World& world, double bucket_bytes) {
  const Sharding sharding = world.layout.sharding;
  const auto add_tensors = [&](std::int64_t MemoryEstimate::*kind, std::int64_t bytes) {
    memory.*kind += bytes;
    memory.tensors.p50 += bytes;
    memory.tensors.upper += bytes;
  };
  const auto take = [&](std::int64_t MemoryEstimate::*kind) {
    add_tensors(kind, shared(memory.*kind, world.layout.dp) - memory.*kind);
  };
  const auto parameters = static_cast<double>(memory.parameters);
  if (sharding != Sharding::none) take(&MemoryEstimate::optimizer);
  if (sharding >= Sharding::zero2) take(&MemoryEstimate::gradients);
  if (gathers_parameters(world.layout)) {
    take(&MemoryEstimate::parameters);
    const std::optional<TransformerDescription> network = find_transformer(workload.network);
    const auto blocks = static_cast<double>(network && network->layers > 0 ? network->layers + 1 : 1);
    add_tensors(&MemoryEstimate::parameters, std::llround(parameters * std::min(1.0, 2 / blocks)));
  } else {
    add_tensors(&MemoryEstimate::gradients, std::llround(bucket_bytes));
  }
}

/// Where a replica gathers all parameters to load or to save them, and that takes more than its steps.
/// @param parameters  of the network, bytes
void gather_all(MemoryEstimate& memory, const World& world, std::int64_t parameters) {
  const std::int64_t own = parameters + shared(parameters, world.layout.dp);
  const std::int64_t held = own + memory.optimizer;
  if (held <= memory.tensors.p50) return;
  memory.tensors = {held, std::max(held, memory.tensors.upper)};
  memory.parameters = own;
  memory.gradients = memory.activations = memory.loader = 0;
}

/// From a rank's tensors what its allocator reserves, and what its device holds: as much more as on one device, whose
/// operators it has one by one.
void reserve(MemoryEstimate& memory, const MemoryEstimate& alone, const MemoryBound& of_collectives) {
  const auto kept = [&](std::int64_t MemoryBound::*of) {
    const double ratio = static_cast<double>(alone.reserved.*of) / static_cast<double>(alone.tensors.*of);
    return std::llround(static_cast<double>(memory.tensors.*of) * std::max(1.0, ratio));
  };
  memory.reserved = {kept(&MemoryBound::p50), kept(&MemoryBound::upper)};
  memory.device = {memory.reserved.p50 + alone.device.p50 - alone.reserved.p50,
                   memory.reserved.upper + alone.device.upper - alone.reserved.upper};
  memory.context += of_collectives.p50;
  memory.device.p50 += of_collectives.p50;
  memory.device.upper += of_collectives.upper;
  memory.given_back = std::llround(static_cast<double>(alone.given_back) * static_cast<double>(memory.reserved.upper) /
                                   static_cast<double>(alone.reserved.upper));
  memory.workspace = memory.reserved.p50 - memory.parameters - memory.gradients - memory.optimizer -
                     memory.activations - memory.loader;
  memory.peak_bytes = memory.device.p50;
}

/// The bound of replicas that share.
void widen(MemoryEstimate& memory) {
  for (MemoryBound MemoryEstimate::*bound :
       {&MemoryEstimate::tensors, &MemoryEstimate::reserved, &MemoryEstimate::device}) {
    const double least = bound_sharded * static_cast<double>((memory.*bound).p50);
    (memory.*bound).upper = std::max((memory.*bound).upper, static_cast<std::int64_t>(std::llround(least)));
  }
}

/// Of a rank whose replicas share parameters (zero3, fsdp), gradients and the optimizer's state: its share of them, and
/// what is whole at a time. FSDP gathers a block while it computes another; between the micro-batches of a pipeline all
/// blocks stay gathered, and their gradients are summed in fp32 until the last one (torchtitan: fully_shard of its
/// stages).
/// @param replicas  that share
/// @param blocks    of the rank
void share(RankMemory& rank, const ParallelLayout& layout, std::int64_t replicas, std::int64_t blocks) {
  const bool gathers = gathers_parameters(layout);
  const double in_use = layout.pp > 1 ? 1 : std::min(1.0, 2 / static_cast<double>(blocks + 1));
  const double share = 1 / static_cast<double>(replicas);
  double bytes = 0;
  for (RankPart& part : rank.parts) {
    if (part.kind == PartKind::parameters && gathers) part.bytes *= in_use;  // the share is the optimizer's, in fp32
    if (part.kind == PartKind::gradients) part.bytes *= share + (gathers && layout.pp > 1 ? 1 : 0);
    if (part.kind == PartKind::optimizer) part.bytes *= share;
    part.bytes = std::round(part.bytes);
    bytes += part.bytes;
  }
  rank.tensors = {static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(bound_joined * bytes)};
}

/// What Megatron-LM's ranks hold, or, of replicas that share more than it does, what they do.
/// @returns nothing where it is not known
std::optional<RankMemory> fullest_rank(RankRequest request) {
  const ParallelLayout layout = request.layout;
  const bool shares_more = layout.sharding >= Sharding::zero2;
  if (shares_more) request.layout.sharding = Sharding::none;
  if (!why_unknown(request).empty()) return std::nullopt;
  std::vector<RankMemory> ranks = rank_memory(request);
  if (shares_more) {
    for (RankMemory& rank : ranks) share(rank, layout, layout.dp * layout.cp, request.network.layers / layout.pp);
  }
  return fullest(ranks);
}

}  // namespace

RankRequest rank_request(const Workload& workload, const MegatronProgram& program,
                         const std::optional<Device>& device) {
  const std::optional<TransformerDescription> network = transformer_of_words(workload);
  if (!network) {
    throw InputError(fmt::format("memory over several devices is answered for transformers of words; {} is none",
                                 shown(workload.network)));
  }
  if (const std::string what = unknown_field(workload, device); !what.empty()) refuse_rank_memory(what);
  if (workload.attention == Attention::eager && program.attention)
    throw InputError("attention eager and attention-backend are both given");
  return request_of(workload, *network, program, device);
}

const MemoryOfPlaced::Alone* MemoryOfPlaced::alone(const Workload& workload) {
  Workload rank = of_one_rank(workload);
  if (alone_ && alone_->rank == rank) return &*alone_;
  alone_.reset();
  const std::optional<TrainingJob> job = TrainingJob::of(workload, device_);
  if (!job) return nullptr;
  const std::shared_ptr<const ExecutedStep> step = executed_step(rank, device_.kind);
  alone_ = {std::move(rank), estimate_memory(*step, *job), gradient_bytes(step->graph())};
  return &*alone_;
}

std::optional<PlacedMemory> MemoryOfPlaced::of(const Workload& workload) {
  const Alone* known_alone = alone(workload);
  if (known_alone == nullptr) return std::nullopt;
  const MemoryEstimate& alone = known_alone->memory;
  const World world = world_of(workload);
  PlacedMemory placed = {alone};
  const MemoryBound of_collectives = device_.kind == DeviceKind::gpu ? collectives_of_gpu : MemoryBound();
  if (!splits_network(world.layout)) {
    share(placed.memory, workload, world, known_alone->gradient_bytes);
    if (world.layout.full) gather_all(placed.memory, world, alone.parameters);
    reserve(placed.memory, alone, of_collectives);
    if (world.layout.sharding != Sharding::none) widen(placed.memory);
    return placed;
  }
  const std::optional<TransformerDescription> network = transformer_of_words(workload);
  if (!network || !unknown_field(workload, device_).empty()) return std::nullopt;
  const std::optional<RankMemory> known = fullest_rank(request_of(workload, *network, {}, device_));
  if (!known) return std::nullopt;
  const RankMemory& rank = *known;
  MemoryEstimate& memory = placed.memory;
  memory.tensors = rank.tensors;
  memory.parameters = bytes_of(rank, PartKind::parameters);
  memory.gradients = bytes_of(rank, PartKind::gradients);
  memory.optimizer = bytes_of(rank, PartKind::optimizer);
  memory.activations = bytes_of(rank, PartKind::activations);
  memory.loader = 0;
  reserve(memory, alone, of_collectives);
  placed.stage = rank.stage;
  placed.tp = rank.tp;
  placed.ep = rank.ep;
  return placed;
}

}  // namespace perfpred
