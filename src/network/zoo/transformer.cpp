// SPDX-License-Identifier: Apache-2.0
// ConvNeXt and ViT as in torchvision; BERT and GPT-2 with their language-model heads; transformers by their sizes.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "network/zoo/pretrained.h"
#include "network/zoo/sized_name.h"
#include "network/zoo/zoo.h"
#include "text/parse.h"

namespace perfpred {
namespace {

struct ConvNeXtSpec {
  std::string_view name;
  std::array<std::int64_t, 4> widths;
  std::array<int, 4> depths;
  double stochastic_depth;
};

constexpr std::array<ConvNeXtSpec, 4> convnexts = {{
    {"convnext_tiny", {96, 192, 384, 768}, {3, 3, 9, 3}, 0.1},
    {"convnext_small", {96, 192, 384, 768}, {3, 3, 27, 3}, 0.4},
    {"convnext_base", {128, 256, 512, 1024}, {3, 3, 27, 3}, 0.5},
    {"convnext_large", {192, 384, 768, 1536}, {3, 3, 27, 3}, 0.5},
}};

LayerId image_layer_norm(NetworkBuilder& b, LayerId x, std::string_view name) {
  return b.view(LayerKind::to_nchw, b.layer_norm(b.view(LayerKind::to_nhwc, x), name, 1e-6));
}

LayerId convnext_block(NetworkBuilder& b, LayerId x, double drop) {
  const std::int64_t width = b.channels(x);
  LayerId y = b.view(LayerKind::to_nhwc, b.conv(x, "block.0", width, {7, 1, 3, width}, true));
  y = b.linear(b.layer_norm(y, "block.2", 1e-6), "block.3", 4 * width);
  y = b.linear(b.activation(LayerKind::gelu, y), "block.5", width);
  y = b.layer_scale(b.view(LayerKind::to_nchw, y), "layer_scale");
  return b.add(b.at_chance(LayerKind::stochastic_depth, y, drop), x, true);
}

void build_convnext(NetworkBuilder& b, std::size_t row) {
  const ConvNeXtSpec& spec = convnexts[row];
  int blocks = 0;
  for (const int depth : spec.depths) blocks += depth;
  LayerId x = b.conv(b.images(), "features.0.0", spec.widths[0], {4, 4}, true);
  x = image_layer_norm(b, x, "features.0.1");
  int block = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    if (stage > 0) {
      b.enter(fmt::format("features.{}", 2 * stage));
      x = b.conv(image_layer_norm(b, x, "0"), "1", spec.widths[stage], {2, 2}, true);
    }
    for (int i = 0; i < spec.depths[stage]; ++i, ++block) {
      b.enter(fmt::format("features.{}.{}", 2 * stage + 1, i));
      x = convnext_block(b, x, spec.stochastic_depth * block / (blocks - 1));
    }
  }
  b.enter("classifier");
  x = image_layer_norm(b, b.global_avg_pool(x), "0");
  b.linear(b.flatten(x), "2", b.classes());
}

constexpr PartNames torchvision_parts = {.root = "",
                                         .positions = "encoder.pos_embedding",
                                         .block = "encoder.layers.encoder_layer_",
                                         .norm1 = "ln_1",
                                         .norm2 = "ln_2",
                                         .qkv = "self_attention.in_proj",
                                         .out = "self_attention.out_proj",
                                         .attention = "self_attention",
                                         .up = "mlp.0",
                                         .down = "mlp.3",
                                         .last_norm = "encoder.ln",
                                         .head = "heads.head",
                                         .patches = "conv_proj",
                                         .token = "class_token"};
constexpr PartNames bert_parts = {.root = "bert.embeddings",
                                  .words = "word_embeddings",
                                  .positions = "position_embeddings",
                                  .first_norm = "LayerNorm",
                                  .block = "bert.encoder.layer.",
                                  .q = "attention.self.query",
                                  .k = "attention.self.key",
                                  .v = "attention.self.value",
                                  .out = "attention.output.dense",
                                  .attention = "attention.output",
                                  .attention_norm = "attention.output.LayerNorm",
                                  .up = "intermediate.dense",
                                  .down = "output.dense",
                                  .mlp = "output",
                                  .mlp_norm = "output.LayerNorm",
                                  .head_root = "cls.predictions",
                                  .transform = "transform.dense",
                                  .head_norm = "transform.LayerNorm",
                                  .head = "decoder"};
constexpr PartNames gpt_parts = {.root = "transformer",
                                 .words = "wte",
                                 .positions = "wpe",
                                 .block = "transformer.h.",
                                 .norm1 = "ln_1",
                                 .norm2 = "ln_2",
                                 .qkv = "attn.c_attn",
                                 .out = "attn.c_proj",
                                 .attention = "attn.c_proj",
                                 .gate = "mlp.c_gate",
                                 .up = "mlp.c_fc",
                                 .down = "mlp.c_proj",
                                 .mlp = "mlp.c_proj",
                                 .last_norm = "transformer.ln_f"};

/// A transformer that differs from its usual one in sizes only.
struct TransformerRow {
  std::string_view name;
  std::int64_t layers, hidden, heads;
  std::int64_t patch = 0;  ///< 0: of words
};
constexpr std::array<TransformerRow, 11> transformers = {{
    {"vit_b_16", 12, 768, 12, 16},
    {"vit_b_32", 12, 768, 12, 32},
    {"vit_l_16", 24, 1024, 16, 16},
    {"vit_l_32", 24, 1024, 16, 32},
    {"vit_h_14", 32, 1280, 16, 14},
    {"bert_base", 12, 768, 12},
    {"bert_large", 24, 1024, 16},
    {"gpt2", 12, 768, 12},
    {"gpt2_medium", 24, 1024, 16},
    {"gpt2_large", 36, 1280, 20},
    {"gpt2_xl", 48, 1600, 25},
}};

/// Queries, keys and values come out of one linear layer as in GPT-2.
TransformerDescription gpt() {
  TransformerDescription d = usual_of("gpt2");
  d.of_transformers = false;
  d.names = &gpt_parts;
  d.activation = LayerKind::gelu_tanh;
  d.norm_epsilon = 1e-5;
  return d;
}

TransformerDescription description_of(const TransformerRow& row) {
  const bool is_gpt = row.name.starts_with("gpt2");
  TransformerDescription d = is_gpt ? gpt() : usual_of(row.patch > 0 ? "vit" : "bert");
  d.of_transformers = false;
  d.name = row.name;
  d.layers = row.layers;
  d.hidden = row.hidden;
  d.heads = row.heads;
  d.patch = row.patch;
  if (row.patch > 0) {
    d.names = &torchvision_parts;
    d.fused_qkv = true;
  } else if (!is_gpt) {
    d.names = &bert_parts;
    d.norm_epsilon = 1e-12;
  }
  return d;
}

void set_experts(TransformerDescription& d, SizedName& name) {
  d.experts = name.number("experts", 0);
  if (d.experts == 0) return;
  d.top_k = name.number("top_k", 2);
  if (d.top_k > d.experts) {
    throw_bad_value({{}, 0, "top_k"}, std::to_string(d.top_k), fmt::format("at most experts={}", d.experts));
  }
  d.expert_inner = name.number("expert_hidden", d.inner);
  d.shared_inner = name.number("shared_hidden", 0);
}

void build_transformer(NetworkBuilder& b, std::size_t row) {
  build_pretrained(b, description_of(transformers.at(row)));
}

}  // namespace

void add_convnexts(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < convnexts.size(); ++row) zoo.push_back({convnexts[row].name, build_convnext, row});
}

void add_transformers(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < transformers.size(); ++row) {
    ZooEntry entry = {transformers.at(row).name, build_transformer, row};
    if (const TransformerDescription d = description_of(transformers.at(row)); d.patch == 0) {
      entry = {entry.name, entry.build, row, d.positions, d.words, token_sequences, true};
    }
    zoo.push_back(entry);
  }
}

std::optional<TransformerDescription> find_zoo_transformer(std::string_view name) {
  const auto* const row =
      std::find_if(transformers.begin(), transformers.end(), [&](const auto& r) { return r.name == name; });
  return row != transformers.end() ? std::optional(description_of(*row)) : std::nullopt;
}

TransformerDescription parse_transformer(std::string_view text) {
  constexpr std::array<std::string_view, 4> sizes = {"layers", "hidden", "heads", "vocab"};
  constexpr std::array<std::string_view, 2> norms = {"layer", "rms"}, positions = {"learned", "rotary"},
                                            mlps = {"gelu", "swiglu"};
  const auto refuse = [&](std::string_view expected) { throw_bad_value({{}, 0, "network"}, text, expected); };
  SizedName name(text, sizes, transformer_example);
  TransformerDescription d = gpt();
  d.layers = name.size(0);
  d.hidden = name.size(1);
  d.heads = name.size(2);
  d.words = name.size(3);
  d.positions = 0;
  d.head_dim = name.number("head_dim", 0);
  if (d.head_dim == 0 && d.hidden % d.heads != 0) refuse("a transformer whose hidden size is a multiple of its heads");
  if (name.choice("norm", norms) == 1) d.norm = LayerKind::rms_norm;
  d.learned_positions = name.choice("positions", positions) == 0;
  d.rotary = d.learned_positions ? 0 : 1;
  if (d.rotary > 0 && (d.head_dim > 0 ? d.head_dim : d.hidden / d.heads) % 2 != 0) {
    refuse("a transformer with heads of even width, which rotary positions need");
  }
  d.kv_heads = name.number("kv_heads", d.heads);
  if (d.heads % d.kv_heads != 0) {
    throw_bad_value({{}, 0, "kv_heads"}, std::to_string(d.kv_heads), fmt::format("a divisor of heads={}", d.heads));
  }
  d.fused_qkv = d.learned_positions && d.kv_heads == d.heads;
  d.gated = name.choice("mlp", mlps) == 1;
  if (d.gated) d.activation = LayerKind::silu;
  // Llama's: two thirds of 4 hidden, up to a multiple of 256 (Touvron et al. 2023, section 2.2, and its source).
  const std::int64_t gated_inner = (8 * d.hidden / 3 + 255) / 256 * 256;
  d.inner = name.number("mlp_hidden", d.gated ? gated_inner : 4 * d.hidden);
  set_experts(d, name);
  d.causal = name.flag("causal", true);
  d.qkv_bias = d.out_bias = d.mlp_bias = name.flag("bias", true);
  d.tied = name.flag("tied", true);
  if (!name.flag("dropout", true)) d.dropout = d.attention_dropout = 0;
  d.name = std::move(name).finish();
  return d;
}

}  // namespace perfpred
