// SPDX-License-Identifier: Apache-2.0
#include "tools/rank_report.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include "text/parse.h"

namespace perfpred {
namespace {

/// @throws InputError for what a rank's memory would depend on, and is not answered
void refuse_unanswered(const Workload& workload, const std::optional<Device>& device) {
  const auto refuse = [](std::string_view what) {
    throw InputError(fmt::format("memory over several devices is not answered for {}", what));
  };
  if (!workload.adapter.empty()) refuse("adapters");
  if (workload.weights != Weights::as_precision) refuse("weights other than as_precision");
  if (workload.phases != Phases::all) refuse("phases forward");
  if (workload.loss != LossForm::whole) refuse("loss chunked");
  if (workload.padding != Padding::packed) refuse("padding padded");
  if (workload.optimizer_impl != OptimizerImpl::fused) refuse("optimizer_impl foreach: Megatron-LM's is fused");
  if (workload.checkpoint > 1) refuse("checkpoint of every k-th block: none and all are known");
  if (device && (device->kind != DeviceKind::gpu || device->vendor == "AMD")) refuse("devices but NVIDIA's GPUs");
}

}  // namespace

std::optional<RankReport> report_ranks(const Workload& workload, const std::string& parallel,
                                       const std::string& gpus_per_node, const std::string& program,
                                       const std::optional<Device>& device) {
  ParallelLayout layout = ParallelLayout::parse(parallel.empty() ? "ddp" : parallel);
  Placement placement = {{layout.devices()}};
  if (!gpus_per_node.empty()) placement = Placement::parse(gpus_per_node);
  layout = layout.on(placement);
  if (layout.devices() == 1) {
    if (!parallel.empty() && gpus_per_node.empty())
      throw InputError(
          fmt::format("--parallel {} is for several devices: --gpus-per-node says how many", shown(parallel)));
    if (!program.empty()) throw InputError("--program is for several devices");
    return std::nullopt;
  }
  const std::optional<TransformerDescription> network = find_transformer(workload.network);
  if (!network || workload.input.size() != 1) {
    throw InputError(fmt::format("memory over several devices is answered for transformers of words; {} is none",
                                 shown(workload.network)));
  }
  refuse_unanswered(workload, device);
  RankRequest request;
  request.layout = layout;
  request.program = parse_megatron_program(program);
  request.network = *network;
  request.words = workload.input.front();
  request.micro_batch = workload.batch_size;
  request.micro_batches = workload.accumulate;
  request.precision = workload.precision;
  request.optimizer = workload.optimizer;
  request.since_hopper = device && (device->arch == "Hopper" || device->arch == "Blackwell");
  if (workload.checkpoint == 1) request.program.recompute = Recompute::layers;
  if (workload.attention == Attention::eager) {
    if (request.program.attention) throw InputError("attention eager and attention-backend are both given");
    request.program.attention = AttentionKernel::unfused;
  }
  return RankReport{
      std::string(workload.network), workload.batch_size, workload.accumulate, std::move(placement), layout,
      rank_memory(request)};
}

std::int64_t bytes_of(const RankMemory& rank, PartKind kind) {
  double bytes = 0;
  for (const RankPart& part : rank.parts) bytes += part.kind == kind ? part.bytes : 0;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace perfpred
