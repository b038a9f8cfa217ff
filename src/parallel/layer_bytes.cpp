// SPDX-License-Identifier: Apache-2.0
// File names below are those of Megatron-LM, and of Transformer Engine (te/) and PyTorch (torch/).
#include "parallel/layer_bytes.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

double norm_width(const TransformerDescription& network) { return network.norm == LayerKind::layer_norm ? 2 : 1; }

/// Named bytes; those of nothing are left out.
class Saved {
 public:
  void add(std::string_view name, double bytes) {
    if (bytes > 0) parts_.push_back({name, PartKind::activations, bytes});
  }
  [[nodiscard]] std::vector<RankPart> take() && { return std::move(parts_); }

 private:
  std::vector<RankPart> parts_;
};

/// Of multi-latent attention what each word is made short to: megatron/core/transformer/multi_latent_attention.py keeps
/// it before its norm and behind it.
double short_vectors(const RankRequest& request, const RankSizes& s) {
  const LatentAttention& latent = request.program.latent;
  const double shared = s.words / (request.layout.sp ? number(request.layout.tp) : 1);
  return s.element * shared * number(2 * (latent.query_rank + latent.rank) + latent.turned);
}

/// What attention keeps between its two linear layers, and the most that its backward pass holds beside.
double add_attention(Saved& saved, const RankRequest& request, const RankSizes& s, AttentionKernel attention) {
  const TransformerDescription& network = request.network;
  const double qkv = s.element * s.words * ((s.heads + s.kv_heads) * s.head_dim + s.kv_heads * s.value_dim);
  saved.add("queries_keys_values", qkv);  // one buffer, of which q, k and v are views
  if (request.program.is_latent) saved.add("latent_vectors", short_vectors(request, s));
  const double turned = s.element * s.words * (s.heads + s.kv_heads) * s.head_dim;
  if (network.qk_norm) saved.add("query_key_norms", turned);
  saved.add("attention_out", s.context * s.narrow / s.element);  // input of the output projection
  if (attention == AttentionKernel::unfused) {
    // te/pytorch/attention.py UnfusedDotProductAttention; megatron/core/transformer/dot_product_attention.py
    if (network.rotary > 0 && !request.program.is_latent) saved.add("rotary", turned);
    if (request.program.recompute != Recompute::core_attention) {
      saved.add("softmax", s.element * s.scores);
      // Its dropout's output and mask; without dropout at::dropout returns its input.
      if (network.attention_dropout > 0) saved.add("attention_dropout", (s.element + 1) * s.scores);
    }
    return 2 * s.element * s.scores;
  }
  // te's FlashAttention transposes to [b, s, ...]: a copy, but for one sequence, where it is a view. cuDNN's takes
  // tensors as they are; read off Megatron's CI rows: there is no such copy on Hopper, where it is the usual choice.
  if (attention == AttentionKernel::flash && request.micro_batch > 1) saved.add("attention_copy", s.context);
  saved.add("softmax_sums", 4 * s.words * s.heads);  // logarithms of the sums of exponentials, fp32
  return 3 * s.context;
}

/// megatron/core/transformer/mlp.py
double add_mlp(Saved& saved, const RankSizes& s) {
  const double first = s.element * s.words * s.inner * s.gates;
  saved.add("mlp_first", first);
  saved.add("mlp_activation", s.narrow * s.words * s.inner);
  return 2 * first;
}

/// megatron/core/transformer/moe/experts.py and token_dispatcher.py
double add_experts(Saved& saved, const RankSizes& s, double hidden) {
  const double permuted = s.chosen * hidden, first = s.element * s.chosen * s.expert_inner * s.gates;
  saved.add("expert_in", s.narrow * permuted);
  saved.add("expert_first", first);
  saved.add("expert_activation", s.narrow * s.chosen * s.expert_inner);
  // Read off Megatron's CI rows: two more copies of the permuted words than the products need.
  saved.add("expert_copies", 2 * s.element * permuted);
  saved.add("shared_expert", s.element * s.words * s.shared_inner * (s.gates + 1));
  return 2 * first + s.element * permuted;
}

}  // namespace

RankSizes::RankSizes(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  const ParallelLayout& layout = request.layout;
  const double tp = number(layout.tp), hidden = number(n.hidden);
  element = request.precision == Precision::fp32 ? 4 : 2;
  narrow = request.program.fp8 ? 1 : element;
  words = number(request.micro_batch) * number(request.words) / number(layout.cp);
  stream = element * words * hidden;
  shared = stream / (layout.sp ? tp : 1);
  heads = number(n.heads) / tp;
  const LatentAttention& latent = request.program.latent;
  const bool is_latent = request.program.is_latent;
  kv_heads = number(n.kv_heads > 0 && !is_latent ? n.kv_heads : n.heads) / tp;
  head_dim = number(is_latent ? latent.head() : n.head_dim > 0 ? n.head_dim : n.hidden / n.heads);
  value_dim = is_latent ? number(latent.value) : head_dim;
  context = element * words * heads * value_dim;
  scores = words * heads * number(request.words);
  inner = number(n.inner > 0 ? n.inner : 4 * n.hidden) / tp;
  gates = n.gated ? 2 : 1;
  chosen = words / tp * number(n.top_k) * number(layout.etp);
  expert_inner = number(n.expert_inner) / number(layout.etp);
  shared_inner = number(n.shared_inner) / tp;
  // _vocab_size_with_padding of megatron/training/tokenizer/tokenizer.py
  const double multiple = number(request.program.vocabulary) * tp;
  vocabulary = std::ceil(number(n.words) / multiple) * multiple / tp;
}

namespace {

/// Of attention's matrices before its output projection. Those that make words short are whole on each rank.
double latent_parameters(const RankRequest& request, const RankSizes& s) {
  const TransformerDescription& n = request.network;
  const LatentAttention& latent = request.program.latent;
  const double hidden = number(n.hidden), rank = number(latent.rank), query_rank = number(latent.query_rank);
  double count = hidden * (rank + number(latent.turned)) + norm_width(n) * rank;
  count += rank * s.heads * number(latent.plain + latent.value);
  const double queries = s.heads * s.head_dim;
  if (latent.query_rank == 0) return count + hidden * queries;
  return count + hidden * query_rank + norm_width(n) * query_rank + query_rank * queries;
}

}  // namespace

LayerShard layer_parameters(const RankRequest& request) {
  const TransformerDescription& n = request.network;
  const RankSizes s(request);
  const double hidden = number(n.hidden), qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  LayerShard count;
  count.dense = hidden * s.heads * s.value_dim + 2 * norm_width(n) * hidden;
  count.dense += request.program.is_latent ? latent_parameters(request, s) : hidden * qkv;
  if (n.qkv_bias && !request.program.is_latent) count.dense += qkv;
  if (n.out_bias) count.dense += hidden;
  if (n.qk_norm) count.dense += 2 * s.head_dim;
  if (n.experts == 0) {
    count.dense += (s.gates + 1) * hidden * s.inner;
    if (n.mlp_bias) count.dense += s.gates * s.inner + hidden;
    return count;
  }
  count.dense += hidden * number(n.experts) + (s.gates + 1) * hidden * s.shared_inner;  // the router is not shared
  const double own = number(n.experts / request.layout.ep);
  count.experts = own * (s.gates + 1) * hidden * s.expert_inner;
  if (n.mlp_bias) count.experts += own * (s.gates * s.expert_inner + hidden);
  return count;
}

LayerBytes layer_bytes(const RankRequest& request, AttentionKernel attention) {
  const RankSizes s(request);
  Saved saved;
  // te/pytorch/module/layernorm_linear.py keeps the input and the output of each norm as this rank has them, and
  // gathers the output again in the backward pass.
  saved.add("norm_inputs", 2 * s.shared);
  saved.add("norm_outputs", 2 * s.shared * s.narrow / s.element);
  // Two masks of a byte: megatron/core/fusions/fused_bias_dropout.py.
  if (request.network.dropout > 0) saved.add("dropout_masks", 2 * s.shared / s.element);
  double work = add_attention(saved, request, s, attention);
  const double of_mlp =
      request.network.experts > 0 ? add_experts(saved, s, number(request.network.hidden)) : add_mlp(saved, s);
  work = std::max(work, of_mlp) + 2 * s.shared;
  LayerBytes bytes = {std::move(saved).take(), work};
  if (request.program.recompute != Recompute::layers) return bytes;
  // megatron/core/transformer/transformer_block.py _checkpointed_forward: the inputs are kept; one layer at a time is
  // computed anew.
  for (const RankPart& part : bytes.saved) bytes.work += part.bytes;
  bytes.saved = {{"layer_inputs", PartKind::activations, s.shared}};
  return bytes;
}

}  // namespace perfpred
