// SPDX-License-Identifier: Apache-2.0
// ConvNeXt and ViT as in torchvision; BERT and GPT-2 with their language-model heads.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

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
  if (drop > 0) y = b.with_value(LayerKind::stochastic_depth, y, drop);
  return b.add(y, x, true);
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
    const LayerId all = b.linear(b.layer_norm(x, "ln_1", 1e-6), "self_attention.in_proj", 3 * spec.hidden);
    const LayerId q = b.chunk(all, 3);
    const LayerId mixed = b.attention(q, q + 1, q + 2, {spec.heads, false, 0});
    x = b.add(b.linear(mixed, "self_attention.out_proj", spec.hidden), x);
    const LayerId y = b.linear(b.layer_norm(x, "ln_2", 1e-6), "mlp.0", spec.inner);
    x = b.add(x, b.linear(b.activation(LayerKind::gelu, y), "mlp.3", spec.hidden));
  }
  b.enter("");
  x = b.view(LayerKind::first_token, b.layer_norm(x, "encoder.ln", 1e-6));
  b.linear(x, "heads.head", b.classes());
}

struct LanguageSpec {
  std::string_view name;
  TransformerSize size;
  std::int64_t positions;
};

constexpr std::array<LanguageSpec, 2> berts = {{
    {"bert_base", {12, 768, 12, 30522}, 512},
    {"bert_large", {24, 1024, 16, 30522}, 512},
}};
constexpr std::array<LanguageSpec, 3> gpts = {{
    {"gpt2", {12, 768, 12, 50257}, 1024},
    {"gpt2_large", {36, 1280, 20, 50257}, 1024},
    {"gpt2_xl", {48, 1600, 25, 50257}, 1024},
}};

LayerId words_up_to(NetworkBuilder& b, const LanguageSpec& spec) {
  const LayerId words = b.words();
  if (b.shape(words)[1] > spec.positions) {
    throw InputError(
        fmt::format("input {} does not fit {}: it has {} positions", b.shape(words)[1], spec.name, spec.positions));
  }
  if (b.classes() != spec.size.words) {
    throw InputError(fmt::format("classes {} do not fit {}: it has {} words", b.classes(), spec.name, spec.size.words));
  }
  return words;
}

void build_bert(NetworkBuilder& b, std::size_t row) {
  const LanguageSpec& spec = berts[row];
  const auto& [layers, hidden, heads, vocabulary] = spec.size;
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
    const LayerId q = b.linear(x, "attention.self.query", hidden);
    const LayerId k = b.linear(x, "attention.self.key", hidden);
    const LayerId v = b.linear(x, "attention.self.value", hidden);
    LayerId y = b.linear(b.attention(q, k, v, {heads, false, drop}), "attention.output.dense", hidden);
    x = b.layer_norm(b.add(b.with_value(LayerKind::dropout, y, drop), x), "attention.output.LayerNorm", epsilon);
    y = b.activation(LayerKind::gelu, b.linear(x, "intermediate.dense", 4 * hidden));
    y = b.with_value(LayerKind::dropout, b.linear(y, "output.dense", hidden), drop);
    x = b.layer_norm(b.add(y, x), "output.LayerNorm", epsilon);
  }
  b.enter("cls.predictions");
  x = b.activation(LayerKind::gelu, b.linear(x, "transform.dense", hidden));
  x = b.layer_norm(x, "transform.LayerNorm", epsilon);
  b.linear(x, "decoder", vocabulary, true, table);
}

/// A GPT-2: normalisation before each part, tied head without bias.
void build_decoder(NetworkBuilder& b, LayerId words, const TransformerSize& size, std::int64_t positions) {
  const auto& [layers, hidden, heads, vocabulary] = size;
  constexpr double epsilon = 1e-5;
  constexpr double drop = 0.1;
  b.enter("transformer");
  const LayerId table = b.embedding(words, "wte", vocabulary, hidden);
  const LayerId places = b.embedding(b.ids(LayerKind::position_ids, words), "wpe", positions, hidden);
  LayerId x = b.with_value(LayerKind::dropout, b.add(table, places), drop);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    b.enter(fmt::format("transformer.h.{}", layer));
    const LayerId q = b.chunk(b.linear(b.layer_norm(x, "ln_1", epsilon), "attn.c_attn", 3 * hidden), 3);
    LayerId y = b.linear(b.attention(q, q + 1, q + 2, {heads, true, drop}), "attn.c_proj", hidden);
    x = b.add(b.with_value(LayerKind::dropout, y, drop), x);
    y = b.activation(LayerKind::gelu_tanh, b.linear(b.layer_norm(x, "ln_2", epsilon), "mlp.c_fc", 4 * hidden));
    x = b.add(x, b.with_value(LayerKind::dropout, b.linear(y, "mlp.c_proj", hidden), drop));
  }
  b.enter("");
  b.linear(b.layer_norm(x, "transformer.ln_f", epsilon), "lm_head", vocabulary, false, table);
}

void build_gpt(NetworkBuilder& b, std::size_t row) {
  const LanguageSpec& spec = gpts[row];
  build_decoder(b, words_up_to(b, spec), spec.size, spec.positions);
}

}  // namespace

void add_vision_transformers(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < convnexts.size(); ++row) zoo.push_back({convnexts[row].name, build_convnext, row});
  for (std::size_t row = 0; row < vits.size(); ++row) zoo.push_back({vits[row].name, build_vit, row});
}

void add_language_models(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < berts.size(); ++row) {
    zoo.push_back(
        {berts[row].name, build_bert, row, berts[row].positions, berts[row].size.words, token_sequences, true});
  }
  for (std::size_t row = 0; row < gpts.size(); ++row) {
    zoo.push_back({gpts[row].name, build_gpt, row, gpts[row].positions, gpts[row].size.words, token_sequences, true});
  }
}

TransformerSize parse_transformer(std::string_view name) {
  constexpr std::array<std::string_view, 4> keys = {"layers", "hidden", "heads", "vocab"};
  constexpr std::array<std::int64_t, 4> largest = {10'000, 1 << 30, 1 << 30, 1 << 30};
  const auto refuse = [&](std::string_view expected) { throw_bad_value({{}, 0, "network"}, name, expected); };
  std::array<std::int64_t, 4> sizes{};
  std::string_view rest = name;
  rest.remove_prefix(std::string_view("transformer:").size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t end = i + 1 == keys.size() ? rest.size() : std::min(rest.find(','), rest.size());
    const std::string_view field = rest.substr(0, end);
    if (field.substr(0, keys[i].size()) != keys[i] || field.substr(keys[i].size(), 1) != "=") {
      refuse("of the form transformer:layers=12,hidden=768,heads=12,vocab=30522");
    }
    sizes[i] = parse_positive_integer(field.substr(keys[i].size() + 1), {{}, 0, keys[i]});
    if (sizes[i] > largest[i]) refuse(fmt::format("a transformer of at most {} {}", largest[i], keys[i]));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (name !=
      fmt::format("transformer:layers={},hidden={},heads={},vocab={}", sizes[0], sizes[1], sizes[2], sizes[3])) {
    refuse("written with plain numbers, as transformer:layers=12,hidden=768,heads=12,vocab=30522");  // one key only
  }
  if (sizes[1] % sizes[2] != 0) refuse("a transformer whose hidden size is a multiple of its heads");
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

void build_transformer(NetworkBuilder& b, const TransformerSize& size) {
  if (b.classes() != size.words) {
    throw InputError(fmt::format("classes {} do not fit the network: it has {} words", b.classes(), size.words));
  }
  const LayerId words = b.words();
  build_decoder(b, words, size, b.shape(words)[1]);
}

}  // namespace perfpred
