// SPDX-License-Identifier: Apache-2.0
// ConvNeXt and ViT as in torchvision; BERT and GPT-2 with their language-model heads.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

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

struct VitSpec {
  std::string_view name;
  std::int64_t patch;
  int layers;
  std::int64_t heads, hidden, inner;
};

constexpr std::array<VitSpec, 5> vits = {{
    {"vit_b_16", 16, 12, 12, 768, 3072},
    {"vit_b_32", 32, 12, 12, 768, 3072},
    {"vit_l_16", 16, 24, 16, 1024, 4096},
    {"vit_l_32", 32, 24, 16, 1024, 4096},
    {"vit_h_14", 14, 32, 16, 1280, 5120},
}};

void build_vit(NetworkBuilder& b, std::size_t row) {
  const VitSpec& spec = vits[row];
  const LayerId images = b.images();
  if (b.shape(images)[2] % spec.patch != 0 || b.shape(images)[3] % spec.patch != 0) {
    throw InputError(fmt::format("input {}x{} does not fit {}: its patches have {} x {} pixels", b.shape(images)[2],
                                 b.shape(images)[3], spec.name, spec.patch, spec.patch));
  }
  LayerId x = b.view(LayerKind::to_tokens, b.conv(images, "conv_proj", spec.hidden, {spec.patch, spec.patch}, true));
  x = b.position_embedding(b.class_token(x, "class_token"), "encoder.pos_embedding");
  for (int layer = 0; layer < spec.layers; ++layer) {
    b.enter(fmt::format("encoder.layers.encoder_layer_{}", layer));
    b.begin_block();
    const LayerId all = b.projection(b.layer_norm(x, "ln_1", 1e-6), "self_attention.in_proj", 3 * spec.hidden, true,
                                     Projection::attention_in);
    const LayerId q = b.chunk(all, 3);
    const LayerId mixed = b.attention(q, q + 1, q + 2, {spec.heads, false, 0});
    const LayerId out = b.projection(mixed, "self_attention.out_proj", spec.hidden, true, Projection::mixed);
    x = b.add(b.bottleneck(out, "self_attention"), x);
    const LayerId y = b.projection(b.layer_norm(x, "ln_2", 1e-6), "mlp.0", spec.inner, true, Projection::up);
    const LayerId z = b.projection(b.activation(LayerKind::gelu, y), "mlp.3", spec.hidden, true, Projection::down);
    x = b.add(x, b.bottleneck(z, "mlp"));
    b.end_block();
  }
  b.enter("");
  x = b.view(LayerKind::first_token, b.layer_norm(x, "encoder.ln", 1e-6));
  b.linear(x, "heads.head", b.classes());
}

struct LanguageSpec {
  std::string_view name;
  TransformerSpec sizes;
  std::int64_t positions;
};

const std::array<LanguageSpec, 2> berts = {{
    {"bert_base", {12, 768, 12, 30522}, 512},
    {"bert_large", {24, 1024, 16, 30522}, 512},
}};
const std::array<LanguageSpec, 4> gpts = {{
    {"gpt2", {12, 768, 12, 50257}, 1024},
    {"gpt2_medium", {24, 1024, 16, 50257}, 1024},
    {"gpt2_large", {36, 1280, 20, 50257}, 1024},
    {"gpt2_xl", {48, 1600, 25, 50257}, 1024},
}};

LayerId words_up_to(NetworkBuilder& b, const LanguageSpec& spec) {
  const LayerId words = b.words_of(spec.sizes.words);
  if (b.shape(words)[1] > spec.positions) {
    throw InputError(
        fmt::format("input {} does not fit {}: it has {} positions", b.shape(words)[1], spec.name, spec.positions));
  }
  return words;
}

void build_bert(NetworkBuilder& b, std::size_t row) {
  const LanguageSpec& spec = berts[row];
  const std::int64_t layers = spec.sizes.layers, hidden = spec.sizes.hidden, heads = spec.sizes.heads;
  const std::int64_t vocabulary = spec.sizes.words;
  const LayerId words = words_up_to(b, spec);
  constexpr double epsilon = 1e-12;
  constexpr double drop = 0.1;
  b.enter("bert.embeddings");
  const LayerId table = b.embedding(words, "word_embeddings", vocabulary, hidden);
  LayerId x = b.add(table, b.embedding(b.ids(LayerKind::type_ids, words), "token_type_embeddings", 2, hidden));
  x = b.add(x, b.embedding(b.ids(LayerKind::position_ids, words), "position_embeddings", spec.positions, hidden));
  x = b.with_value(LayerKind::dropout, b.layer_norm(x, "LayerNorm", epsilon), drop);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    b.enter(fmt::format("bert.encoder.layer.{}", layer));
    b.begin_block();
    const LayerId q = b.projection(x, "attention.self.query", hidden, true, Projection::query);
    const LayerId k = b.projection(x, "attention.self.key", hidden, true, Projection::key);
    const LayerId v = b.projection(x, "attention.self.value", hidden, true, Projection::value);
    const LayerId out = b.attention(q, k, v, {heads, false, drop});
    LayerId y =
        b.bottleneck(b.projection(out, "attention.output.dense", hidden, true, Projection::mixed), "attention.output");
    x = b.layer_norm(b.add(b.with_value(LayerKind::dropout, y, drop), x), "attention.output.LayerNorm", epsilon);
    y = b.activation(LayerKind::gelu, b.projection(x, "intermediate.dense", 4 * hidden, true, Projection::up));
    y = b.with_value(LayerKind::dropout,
                     b.bottleneck(b.projection(y, "output.dense", hidden, true, Projection::down), "output"), drop);
    x = b.layer_norm(b.add(y, x), "output.LayerNorm", epsilon);
    b.end_block();
  }
  b.enter("cls.predictions");
  x = b.activation(LayerKind::gelu, b.linear(x, "transform.dense", hidden));
  x = b.layer_norm(x, "transform.LayerNorm", epsilon);
  b.head(x, "decoder", vocabulary, true, table);
}

/// Builds a GPT-2 or a Llama: normalisation before each part. Queries, keys and values come out of one linear layer
/// as in GPT-2, out of three as in Llama where positions are rotary or heads are grouped.
class Decoder {
 public:
  Decoder(NetworkBuilder& b, const TransformerSpec& spec) : b_(b), spec_(spec) {}

  void build(LayerId words, std::int64_t positions) {
    b_.enter("transformer");
    const LayerId table = b_.embedding(words, "wte", spec_.words, spec_.hidden);
    LayerId x = table;
    if (!spec_.rotary) {
      x = b_.add(x, b_.embedding(b_.ids(LayerKind::position_ids, words), "wpe", positions, spec_.hidden));
    }
    x = dropped(x);
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
      b_.enter(fmt::format("transformer.h.{}", layer));
      b_.begin_block();
      const LayerId y = b_.projection(attention(norm(x, "ln_1")), out, spec_.hidden, spec_.bias, Projection::mixed);
      x = b_.add(dropped(b_.bottleneck(y, out)), x);
      const LayerId z = b_.projection(inner(norm(x, "ln_2")), down, spec_.hidden, spec_.bias, Projection::down);
      x = b_.add(x, dropped(b_.bottleneck(z, down)));
      b_.end_block();
    }
    b_.enter("");
    b_.head(norm(x, "transformer.ln_f"), "lm_head", spec_.words, false, spec_.tied ? table : -1);
  }

 private:
  static constexpr double epsilon = 1e-5;
  static constexpr double drop = 0.1;
  static constexpr std::string_view out = "attn.c_proj", down = "mlp.c_proj";  // adapters have the names, too

  [[nodiscard]] LayerId dropped(LayerId x) { return spec_.dropout ? b_.with_value(LayerKind::dropout, x, drop) : x; }

  [[nodiscard]] LayerId norm(LayerId x, std::string_view name) {
    return spec_.rms ? b_.rms_norm(x, name, epsilon) : b_.layer_norm(x, name, epsilon);
  }

  [[nodiscard]] LayerId attention(LayerId x) {
    const AttentionStyle style = {spec_.heads, spec_.causal, spec_.dropout ? drop : 0, spec_.kv_heads};
    if (!spec_.rotary && spec_.kv_heads == spec_.heads) {
      const LayerId q =
          b_.chunk(b_.projection(x, "attn.c_attn", 3 * spec_.hidden, spec_.bias, Projection::attention_in), 3);
      return b_.attention(q, q + 1, q + 2, style);
    }
    const std::int64_t width = spec_.hidden / spec_.heads * spec_.kv_heads;
    LayerId q = b_.projection(x, "self_attn.q_proj", spec_.hidden, spec_.bias, Projection::query);
    LayerId k = b_.projection(x, "self_attn.k_proj", width, spec_.bias, Projection::key);
    const LayerId v = b_.projection(x, "self_attn.v_proj", width, spec_.bias, Projection::value);
    if (spec_.rotary) {
      q = b_.rotary(q, spec_.heads);
      k = b_.rotary(k, spec_.kv_heads);
    }
    return b_.attention(q, k, v, style);
  }

  [[nodiscard]] LayerId inner(LayerId x) {
    if (!spec_.gated) {
      return b_.activation(LayerKind::gelu_tanh, b_.projection(x, "mlp.c_fc", spec_.inner, spec_.bias, Projection::up));
    }
    const LayerId gated =
        b_.activation(LayerKind::silu, b_.projection(x, "mlp.c_gate", spec_.inner, spec_.bias, Projection::gate));
    return b_.mul(gated, b_.projection(x, "mlp.c_fc", spec_.inner, spec_.bias, Projection::up));
  }

  NetworkBuilder& b_;
  const TransformerSpec& spec_;
};

void build_gpt(NetworkBuilder& b, std::size_t row) {
  const LanguageSpec& spec = gpts[row];
  Decoder(b, spec.sizes).build(words_up_to(b, spec), spec.positions);
}

}  // namespace

void add_vision_transformers(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < convnexts.size(); ++row) zoo.push_back({convnexts[row].name, build_convnext, row});
  for (std::size_t row = 0; row < vits.size(); ++row) zoo.push_back({vits[row].name, build_vit, row});
}

void add_language_models(std::vector<ZooEntry>& zoo) {
  const auto add = [&](const auto& specs, auto build) {
    for (std::size_t row = 0; row < specs.size(); ++row) {
      zoo.push_back({specs[row].name, build, row, specs[row].positions, specs[row].sizes.words, token_sequences, true});
    }
  };
  add(berts, build_bert);
  add(gpts, build_gpt);
}

TransformerSpec parse_transformer(std::string_view text) {
  constexpr std::array<std::string_view, 4> sizes = {"layers", "hidden", "heads", "vocab"};
  constexpr std::array<std::string_view, 2> norms = {"layer", "rms"}, positions = {"learned", "rotary"},
                                            mlps = {"gelu", "swiglu"};
  const auto refuse = [&](std::string_view expected) { throw_bad_value({{}, 0, "network"}, text, expected); };
  SizedName name(text, sizes, transformer_example);
  TransformerSpec spec{name.size(0), name.size(1), name.size(2), name.size(3)};
  if (spec.hidden % spec.heads != 0) refuse("a transformer whose hidden size is a multiple of its heads");
  spec.rms = name.choice("norm", norms) == 1;
  spec.rotary = name.choice("positions", positions) == 1;
  if (spec.rotary && spec.hidden / spec.heads % 2 != 0) {
    refuse("a transformer with heads of even width, which rotary positions need");
  }
  spec.kv_heads = name.number("kv_heads", spec.heads);
  if (spec.heads % spec.kv_heads != 0) {
    throw_bad_value({{}, 0, "kv_heads"}, std::to_string(spec.kv_heads),
                    fmt::format("a divisor of heads={}", spec.heads));
  }
  spec.gated = name.choice("mlp", mlps) == 1;
  // Llama's: two thirds of 4 hidden, up to a multiple of 256 (Touvron et al. 2023, section 2.2, and its source).
  const std::int64_t gated_inner = (8 * spec.hidden / 3 + 255) / 256 * 256;
  spec.inner = name.number("mlp_hidden", spec.gated ? gated_inner : 4 * spec.hidden);
  spec.causal = name.flag("causal", true);
  spec.bias = name.flag("bias", true);
  spec.tied = name.flag("tied", true);
  spec.dropout = name.flag("dropout", true);
  spec.name = std::move(name).finish();
  return spec;
}

void build_transformer(NetworkBuilder& b, const TransformerSpec& spec) {
  const LayerId words = b.words_of(spec.words);
  Decoder(b, spec).build(words, b.shape(words)[1]);
}

}  // namespace perfpred
