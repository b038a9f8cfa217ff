// SPDX-License-Identifier: Apache-2.0
// File names below are those of Megatron-LM, of Transformer Engine (te/) and PyTorch (torch/). What was read off the
// peaks of Megatron-LM's own tests (BSD-3-Clause) says so; docs/notes/layouts.md has what each rule is worth.
#include "parallel/rank_memory.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "parallel/layer_bytes.h"
#include "parallel/stages.h"
#include "workload/divisors.h"
#include "workload/rank_network.h"

namespace perfpred {
namespace {

constexpr double mib = 1 << 20;
/// Words that the experts of the fullest rank get, of an even share; and bytes of batches, random states and padding.
/// Both fitted to Megatron's CI rows.
constexpr double imbalance = 1.09, rest_bytes = 14 * mib;
/// Bounds that hold for 96.5 % of Megatron's CI rows of the same kind, networks without and with experts; and for what
/// they do not cover, where whole families were left out.
constexpr double bound_dense = 1.06, bound_experts = 1.11, bound_unseen = 1.12;

/// Of an optimizer's state, beside the parameters in fp32, for each parameter; nothing if that is not known.
std::optional<double> state_bytes(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::adam:
    case Optimizer::adamw:
      return 8;
    case Optimizer::momentum:
      return 4;
    case Optimizer::sgd:
      return 0;
    default:
      return std::nullopt;
  }
}

AttentionKernel usual_attention(const RankRequest& request) {
  const MegatronProgram& program = request.program;
  if (!program.transformer_engine) return AttentionKernel::unfused;
  if (program.attention) return *program.attention;
  // te/pytorch/attention.py get_attention_backend: nothing else is left where FlashAttention is not deterministic.
  if (program.deterministic && program.deterministic_flash == false) return AttentionKernel::unfused;
  return request.since_hopper ? AttentionKernel::fused : AttentionKernel::flash;
}

/// The one with the most memory that the request allows.
AttentionKernel worst_attention(const RankRequest& request) {
  const MegatronProgram& program = request.program;
  const bool may_lack_flash = program.deterministic && !program.deterministic_flash.value_or(false);
  return !program.attention && may_lack_flash ? AttentionKernel::unfused : usual_attention(request);
}

/// Whether the peaks that the bounds rest on are of such networks: GPT and BERT with LayerNorm and a plain MLP.
bool is_like_the_rows(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  return n.norm == LayerKind::layer_norm && !n.gated && !n.qk_norm && request.precision != Precision::fp32 &&
         (n.kv_heads == 0 || n.kv_heads == n.heads) && n.shared_inner == 0;
}

/// The tensors on a rank of one stage, each as a named part.
class StageAccount {
 public:
  StageAccount(const RankRequest& request, std::int64_t stage, AttentionKernel attention)
      : request_(request),
        n_(request.network),
        layout_(request.layout),
        program_(request.program),
        s_(request),
        stage_(stage),
        is_first_(stage == 0),
        is_last_(stage == layout_.pp - 1),
        attention_(attention) {
    add_states();
    add_workspaces();
    add_buffers();
    add_layers();
    add_ends();
    add_main_gradients();
    add("rest", PartKind::workspace, rest_bytes);
  }

  [[nodiscard]] std::vector<RankPart> take() && { return std::move(parts_); }

 private:
  void add(std::string_view name, PartKind kind, double bytes) {
    if (bytes <= 0) return;
    for (RankPart& part : parts_) {
      if (part.name != name) continue;
      part.bytes += bytes;
      return;
    }
    parts_.push_back({name, kind, bytes});
  }

  /// Of the embeddings, the head and the norm before it. The last stage of a pipeline keeps a copy of a tied matrix:
  /// megatron/core/models/common/language_module/language_module.py.
  [[nodiscard]] double end_parameters() const {
    const double hidden = number(n_.hidden), matrix = s_.vocabulary * hidden;
    double count = 0;
    if (is_first_) count += matrix;
    if (is_first_ && n_.learned_positions) count += hidden * number(n_.positions > 0 ? n_.positions : request_.words);
    if (is_last_ && (!is_first_ || !n_.tied)) count += matrix;
    if (is_last_) count += hidden * (n_.norm == LayerKind::layer_norm ? 2 : 1);
    // megatron/core/models/bert: the head's dense layer, the pooler, the bias of the words.
    if (is_last_ && n_.form == BlockForm::post) count += 2 * hidden * hidden + s_.vocabulary;
    return count;
  }

  /// Parameters, gradients and the optimizer's state.
  void add_states() {
    const LayerShard layer = layer_parameters(request_);
    const double layers = number(n_.layers / layout_.pp);
    const double dense = layers * layer.dense + end_parameters(), experts = layers * layer.experts;
    // megatron/core/optimizer/distrib_optimizer.py: the state is shared by the replicas of each parameter.
    const bool shares = layout_.sharding == Sharding::zero1;
    const double replicas = number(layout_.dp * layout_.cp) / number(program_.instances);
    const double of_experts =
        number(layout_.devices()) / number(layout_.pp * layout_.ep * layout_.etp) / number(program_.instances);
    const double own = shares ? dense / replicas + experts / std::max(1.0, of_experts) : dense + experts;
    const double all = dense + experts;
    add("parameters", PartKind::parameters, s_.element * all);
    // megatron/core/distributed/param_and_grad_buffer.py; megatron/training/arguments.py forces fp32 on for bf16.
    add("gradients", PartKind::gradients, (gradients_are_half() ? 2 : 4) * all);
    if (request_.precision != Precision::fp32) add("master_weights", PartKind::optimizer, 4 * own);
    add("optimizer_states", PartKind::optimizer, state_bytes(request_.optimizer).value() * own);
    main_gradients_ = gradients_are_half() ? 4 * own : 0;
  }

  [[nodiscard]] bool gradients_are_half() const {
    return request_.precision == Precision::fp16 || (request_.precision == Precision::bf16 && program_.half_gradients);
  }

  void add_workspaces() {
    // torch/ATen/cuda/CublasHandlePool.cpp: one handle of the forward thread and one of the backward thread.
    // Deterministic runs set CUBLAS_WORKSPACE_CONFIG=:4096:8.
    const bool large = request_.since_hopper || program_.deterministic;
    add("matrix_workspaces", PartKind::workspace, 2 * (large ? 32 * mib : 8'519'680));
    // te/pytorch/module/base.py get_workspace(), and one for each stream of grouped products. Read off Megatron's CI
    // rows: with experts there is one with the local implementation, too.
    const double own = (request_.since_hopper ? 32 : 4) * mib;
    double engine = program_.transformer_engine || n_.experts > 0 ? own : 0;
    if (program_.grouped_gemm && program_.transformer_engine) engine += 4 * own;
    if (program_.tp_overlap) {
      engine += 2 * own;
      // initialize_ub(); the number of buffers was read off a CI row.
      add("overlap_buffers", PartKind::workspace, 8 * s_.stream);
    }
    add("engine_workspaces", PartKind::workspace, engine);
  }

  void add_buffers() {
    const double words = number(request_.words);
    if (!program_.transformer_engine) {
      // get_global_memory_buffer() in megatron/core/transformer/dot_product_attention.py and tensor_parallel/layers.py
      // keep their tensors for ever.
      add("score_buffer", PartKind::workspace, s_.element * number(request_.micro_batch) * s_.heads * words * words);
      if (layout_.sp) add("gather_buffer", PartKind::workspace, s_.stream);
    }
    // The loader's mask, a byte for each pair of positions: create_attention_mask_in_dataloader. Stages inside get
    // none.
    if (layout_.cp == 1 && (is_first_ || is_last_)) {
      add("attention_mask", PartKind::workspace, number(request_.micro_batch) * words * words);
    }
    // megatron/core/pipeline_parallel/p2p_communication.py
    if (layout_.pp > 1) add("pipeline_buffers", PartKind::workspace, 2 * s_.shared);
  }

  void add_layers() {
    const LayerBytes layer = layer_bytes(request_, attention_);
    const std::vector<std::int64_t> held = in_flight(stage_, layout_.pp, layout_.vp, request_.micro_batches);
    const double layers = number(n_.layers / layout_.pp / layout_.vp);
    double passes = 0;
    for (const std::int64_t micro_batches : held) passes += number(micro_batches);
    for (const RankPart& part : layer.saved) {
      const double uneven = part.name.starts_with("expert_") ? imbalance : 1;
      add(part.name, PartKind::activations, uneven * passes * layers * part.bytes);
    }
    if (is_first_ && n_.dropout > 0) {  // the mask of the embedding's dropout
      add("embedding_dropout", PartKind::activations, number(held.front()) * s_.shared / s_.element);
    }
    // The head and a layer's backward pass are never alive together: the larger of the two counts.
    const double head = is_last_ ? (s_.element + 4) * s_.words * s_.vocabulary : 0;
    add("layer_work", PartKind::activations, std::max(0.0, layer.work - head));
  }

  /// The last norm, the head and the loss.
  void add_ends() {
    if (!is_last_) return;
    const double logits = s_.words * s_.vocabulary;
    add("last_norm", PartKind::activations, 2 * s_.shared);
    if (n_.form == BlockForm::post) add("masked_head", PartKind::activations, 3 * s_.stream);
    add("logits", PartKind::activations, s_.element * logits);
    // megatron/core/tensor_parallel/cross_entropy.py works in place on one copy in fp32.
    add("loss", PartKind::activations, 4 * logits);
    if (program_.defers_head) {  // read off Megatron's CI rows: gradients of two micro-batches' logits wait
      const double waiting = number(std::min<std::int64_t>(request_.micro_batches - 1, 2));
      add("deferred_head", PartKind::activations, waiting * (s_.element * logits + s_.stream));
    }
  }

  /// megatron/core/optimizer/optimizer.py _copy_model_grads_to_main_grads: gradients in fp32, made after the backward
  /// pass, when activations are gone. They count where they are larger.
  void add_main_gradients() {
    double activations = 0;
    for (const RankPart& part : parts_) activations += part.kind == PartKind::activations ? part.bytes : 0;
    add("main_gradients", PartKind::gradients, main_gradients_ - activations);
  }

  const RankRequest& request_;
  const TransformerDescription& n_;
  const ParallelLayout& layout_;
  const MegatronProgram& program_;
  RankSizes s_;
  std::int64_t stage_;
  bool is_first_, is_last_;
  AttentionKernel attention_;
  double main_gradients_ = 0;
  std::vector<RankPart> parts_;
};

double total(const std::vector<RankPart>& parts) {
  double sum = 0;
  for (const RankPart& part : parts) sum += part.bytes;
  if (sum > 0x1p60) throw InputError("the network is too large for any device");
  return sum;
}

/// @throws InputError for sizes out of range
void check_sizes(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  if (request.micro_batches > std::int64_t{1} << 30) throw InputError("accumulate is larger than 2^30");
  const std::int64_t positions = n.positions - n.padding_places;
  if (n.learned_positions && n.positions > 0 && request.words > positions) {
    throw InputError(fmt::format("input {} does not fit {}: it has {} positions", request.words, n.name, positions));
  }
}

/// @throws InputError for a layout that does not divide the network
void check_layout(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  const ParallelLayout& l = request.layout;
  const auto check = [](std::string_view name, std::int64_t value, std::int64_t whole, std::string_view of) {
    check_divides(fmt::format("{} = {} of parallel", name, value), value, whole, of);
  };
  check_splits(n, l);
  if (l.cp > 1) check("2 cp", 2 * l.cp, request.words, "words of a sequence");  // halves balance causal attention
  if (l.sp) check("cp x tp", l.cp * l.tp, request.words, "words of a sequence");
  if (request.program.instances > 1) {
    if (l.sharding != Sharding::zero1) throw InputError("num-distributed-optimizer-instances is for parallel zero1");
    check_divides(fmt::format("num-distributed-optimizer-instances = {}", request.program.instances),
                  request.program.instances, l.dp * l.cp, "replicas (dp x cp)");
  }
}

}  // namespace

std::string why_unknown(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  if (n.patch > 0) return "networks of images";
  if (n.form != BlockForm::sequential && n.form != BlockForm::post) return n.name + ", whose blocks Megatron-LM lacks";
  if (!n.quantization.empty()) return "packed weights";
  const Sharding sharding = request.layout.sharding;
  if (sharding != Sharding::none && sharding != Sharding::zero1)
    return fmt::format("parallel {}: of what replicas share, only ddp and zero1 are known", to_string(sharding));
  const Precision precision = request.precision;
  if (precision != Precision::fp32 && precision != Precision::bf16 && precision != Precision::fp16)
    return fmt::format("precision {}: only fp32, bf16 and fp16 are known", to_string(precision));
  if (request.program.fp8 && precision == Precision::fp32) return "fp8 with precision fp32";
  if (!state_bytes(request.optimizer))
    return fmt::format("optimizer {}: only adam, adamw, sgd and momentum are known", to_string(request.optimizer));
  return {};
}

void refuse_rank_memory(std::string_view what) {
  throw InputError(fmt::format("memory over several devices is not answered for {}", what));
}

std::int64_t bytes_of(const RankMemory& rank, PartKind kind) {
  double bytes = 0;
  for (const RankPart& part : rank.parts) bytes += part.kind == kind ? part.bytes : 0;
  return static_cast<std::int64_t>(bytes);
}

std::vector<RankMemory> rank_memory(const RankRequest& request) {
  if (const std::string what = why_unknown(request); !what.empty()) refuse_rank_memory(what);
  check_sizes(request);
  check_layout(request);
  const AttentionKernel usual = usual_attention(request), worst = worst_attention(request);
  std::vector<RankMemory> ranks;
  for (std::int64_t stage = 0; stage < request.layout.pp; ++stage) {
    RankMemory rank{.stage = stage, .tensors = {}, .parts = StageAccount(request, stage, usual).take()};
    for (RankPart& part : rank.parts) part.bytes = std::round(part.bytes);
    rank.tensors.p50 = static_cast<std::int64_t>(total(rank.parts));
    const bool is_seen = stage == request.layout.pp - 1 && is_like_the_rows(request);  // the last rank logs
    const double factor = !is_seen ? bound_unseen : request.network.experts > 0 ? bound_experts : bound_dense;
    rank.tensors.upper = static_cast<std::int64_t>(factor * total(StageAccount(request, stage, worst).take()));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

const RankMemory& fullest(const std::vector<RankMemory>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const RankMemory& a, const RankMemory& b) { return a.tensors.p50 < b.tensors.p50; });
}

}  // namespace perfpred
