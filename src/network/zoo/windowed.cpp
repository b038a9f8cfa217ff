// SPDX-License-Identifier: Apache-2.0
// Swin and MaxViT as in torchvision: attention inside windows of an image, written out. Swin also as in transformers
// (modeling_swin.py, version 5.24).
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "network/zoo/pretrained.h"
#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

/// A Swin of torchvision; of transformers in another form.
struct SwinForm {
  std::int64_t width;  // of the first stage; doubled in each later one
  std::span<const std::int64_t> depths, heads;
  double stochastic_depth;
  std::int64_t window = 7, patch = 4;  // rows and columns
  double mlp_ratio = 4, dropout = 0, attention_dropout = 0;
  LayerKind activation = LayerKind::gelu;
  bool of_transformers = false;  // three products, and no stochastic depth of the MLP
  bool qkv_bias = true, positions = false;
};

struct SwinSpec {
  std::string_view name;
  std::int64_t width;
  std::array<std::int64_t, 4> depths, heads;
  double stochastic_depth;
};

constexpr std::array<SwinSpec, 3> swins = {{
    {"swin_b", 128, {2, 2, 18, 2}, {4, 8, 16, 32}, 0.5},
    {"swin_s", 96, {2, 2, 18, 2}, {3, 6, 12, 24}, 0.3},
    {"swin_t", 96, {2, 2, 6, 2}, {3, 6, 12, 24}, 0.2},
}};

/// Attention of the positions of windows, (N*windows) x positions x C, without its last product.
LayerId attention_in_windows(NetworkBuilder& b, LayerId x, const SwinForm& form, std::int64_t heads,
                             const RolledWindows& windows) {
  constexpr std::string_view table = "attn.relative_position_bias_table";
  const std::int64_t width = b.shape(x).back();
  std::array<LayerId, 3> parts{};  // queries, keys, values
  if (form.of_transformers) {
    constexpr std::array<const char*, 3> names = {"attn.q_proj", "attn.k_proj", "attn.v_proj"};
    for (std::size_t i = 0; i < 3; ++i) parts.at(i) = b.linear(x, names.at(i), width, form.qkv_bias);
    if (!b.writes_attention_out()) {
      AttentionStyle style = {heads, false, form.attention_dropout};
      style.bias = b.window_bias(table, heads, windows);
      return b.attention(parts[0], parts[1], parts[2], style);
    }
    for (LayerId& part : parts) part = b.split_heads(part, heads);
  } else {
    const LayerId first = b.select_heads(b.linear(x, "attn.qkv", 3 * width), 3, heads);
    parts = {first, first + 1, first + 2};
  }
  const std::int64_t head_width = width / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  LayerId scores = b.matmul(b.with_value(LayerKind::scale, parts[0], scale), parts[1], true);
  scores = b.relative_position(scores, table, heads, windows.size);
  if (windows.rolled()) scores = b.window_mask(scores, heads, windows);
  const LayerId chances = b.at_chance(LayerKind::dropout, b.view(LayerKind::softmax, scores), form.attention_dropout);
  return b.merge_heads(b.matmul(chances, parts[2], false), heads);
}

/// Attention inside windows of NxHxWxC, of a shifted block in windows that begin half a window further. Sides that are
/// no multiple of a window are padded; an axis of one window is not shifted, in transformers neither is the other one.
LayerId window_attention(NetworkBuilder& b, LayerId x, const SwinForm& form, std::int64_t heads, bool shifted) {
  const Shape image = b.shape(x);
  if (form.of_transformers) shifted = shifted && std::min(image[1], image[2]) > form.window;
  RolledWindows windows{form.window, {}, {}};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    windows.count[axis] = (image[axis + 1] + form.window - 1) / form.window;
    windows.shift[axis] = shifted && windows.count[axis] > 1 ? form.window / 2 : 0;
  }
  const auto [rows, columns] = windows.shift;
  LayerId y = b.pad(x, windows.count[0] * form.window, windows.count[1] * form.window);
  const Shape padded = b.shape(y);
  if (windows.rolled()) y = b.roll(y, -rows, -columns);
  y = attention_in_windows(b, b.to_windows(y, form.window), form, heads, windows);
  y = b.at_chance(LayerKind::dropout, b.linear(y, "attn.proj", image[3]), form.dropout);
  y = b.from_windows(y, form.window, padded);
  if (windows.rolled()) y = b.roll(y, rows, columns);
  return padded == image ? y : b.crop(y, image[1], image[2]);
}

LayerId swin_block(NetworkBuilder& b, LayerId x, const SwinForm& form, std::int64_t heads, bool shifted, double drop) {
  const std::int64_t width = b.shape(x)[3];
  x = b.add(x, b.at_chance(LayerKind::stochastic_depth,
                           window_attention(b, b.layer_norm(x, "norm1", 1e-5), form, heads, shifted), drop));
  const auto inner_width = static_cast<std::int64_t>(form.mlp_ratio * static_cast<double>(width));
  const LayerId inner = b.linear(b.layer_norm(x, "norm2", 1e-5), "mlp.0", inner_width);
  const LayerId y =
      b.at_chance(LayerKind::dropout, b.linear(b.activation(form.activation, inner), "mlp.3", width), form.dropout);
  return b.add(x, form.of_transformers ? y : b.at_chance(LayerKind::stochastic_depth, y, drop));
}

void add_swin(NetworkBuilder& b, LayerId images, const SwinForm& form) {
  const auto blocks = std::accumulate(form.depths.begin(), form.depths.end(), std::int64_t{0});
  LayerId x = b.conv(images, "features.0.0", form.width, {form.patch, form.patch}, true);
  x = b.layer_norm(b.view(LayerKind::to_nhwc, x), "features.0.2", 1e-5);
  if (form.positions) {
    const Shape image = b.shape(x);
    x = b.position_embedding(b.reshape(x, {image[0], image[1] * image[2], image[3]}), "position_embeddings");
    x = b.reshape(x, image);
  }
  x = b.at_chance(LayerKind::dropout, x, form.dropout);
  std::int64_t block = 0;
  for (std::size_t stage = 0; stage < form.depths.size(); ++stage) {
    if (stage > 0) {
      b.enter(fmt::format("features.{}", 2 * stage));
      const Shape image = b.shape(x);
      x = b.merge_patches(b.pad(x, image[1] + image[1] % 2, image[2] + image[2] % 2));
      x = b.linear(b.layer_norm(x, "norm", 1e-5), "reduction", 2 * image[3], false);
    }
    for (std::int64_t i = 0; i < form.depths[stage]; ++i, ++block) {
      b.enter(fmt::format("features.{}.{}", 2 * stage + 1, i));
      const double drop =
          blocks > 1 ? form.stochastic_depth * static_cast<double>(block) / static_cast<double>(blocks - 1) : 0;
      b.begin_block();
      x = swin_block(b, x, form, form.heads[stage], i % 2 == 1, drop);
      b.end_block();
    }
  }
  b.enter("");
  x = b.view(LayerKind::to_nchw, b.layer_norm(x, "norm", 1e-5));
  b.linear(b.flatten(b.global_avg_pool(x)), "head", b.classes());
}

void build_swin_of_torchvision(NetworkBuilder& b, std::size_t row) {
  const SwinSpec& spec = swins.at(row);
  add_swin(b, b.images(), {spec.width, spec.depths, spec.heads, spec.stochastic_depth});
}

struct MaxVitBlock {
  std::int64_t channels;
  int layers;
};

constexpr std::int64_t window = 7;  // rows and columns
constexpr std::array<MaxVitBlock, 4> maxvit_t = {{{64, 2}, {128, 2}, {256, 5}, {512, 2}}};
constexpr std::int64_t maxvit_head = 32;
constexpr double maxvit_epsilon = 1e-3, maxvit_stochastic_depth = 0.2;

LayerId conv_norm_gelu(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t channels,
                       const Window& kernel) {
  x = b.conv(x, fmt::format("{}.0", name), channels, kernel);
  return b.activation(LayerKind::gelu, b.batch_norm(x, fmt::format("{}.1", name), maxvit_epsilon));
}

LayerId mbconv(NetworkBuilder& b, LayerId x, std::int64_t channels, std::int64_t stride, double drop) {
  const std::int64_t expanded = 4 * channels;
  LayerId kept = x;
  if (stride > 1) kept = b.conv(b.pool(LayerKind::avg_pool, x, {3, stride, 1}), "proj.1", channels, {}, true);
  LayerId y = conv_norm_gelu(b, b.batch_norm(x, "layers.pre_norm", maxvit_epsilon), "layers.conv_a", expanded, {});
  y = conv_norm_gelu(b, y, "layers.conv_b", expanded, {3, stride, 1, expanded});
  y = b.squeeze_excitation(y, "layers.squeeze_excitation", channels / 4, LayerKind::silu, LayerKind::sigmoid);
  return b.add(kept, b.at_chance(LayerKind::stochastic_depth, b.conv(y, "layers.conv_c", channels, {}, true), drop));
}

/// Attention and an MLP inside windows of NxCxHxW.
LayerId partition_attention(NetworkBuilder& b, LayerId image, bool grid, double drop) {
  const LayerId windows = b.image_windows(image, window, grid);
  const Shape parted = b.shape(windows);
  const std::int64_t width = parted[3], heads = width / maxvit_head;
  LayerId y = b.view(LayerKind::join_windows, b.layer_norm(windows, "attn_layer.0", 1e-5));
  const LayerId all = b.chunk(b.linear(y, "attn_layer.1.to_qkv", 3 * width), 3);
  const LayerId q = b.split_heads(all, heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width));  // torchvision's, not a head's
  const LayerId k = b.split_heads(b.with_value(LayerKind::scale, all + 1, scale), heads);
  const LayerId v = b.split_heads(all + 2, heads);
  const LayerId scores =
      b.relative_position(b.matmul(q, k, true), "attn_layer.1.relative_position_bias_table", heads, window);
  y = b.merge_heads(b.matmul(b.view(LayerKind::softmax, scores), v, false), heads);
  y = b.part_windows(b.linear(y, "attn_layer.1.merge", width), parted[1]);
  const LayerId x = b.add(windows, b.at_chance(LayerKind::stochastic_depth, y, drop));
  y = b.view(LayerKind::join_windows, b.layer_norm(x, "mlp_layer.0", 1e-5));
  y = b.linear(b.activation(LayerKind::gelu, b.linear(y, "mlp_layer.1", 4 * width)), "mlp_layer.3", width);
  return b.windows_image(b.add(x, b.at_chance(LayerKind::stochastic_depth, b.part_windows(y, parted[1]), drop)),
                         windows);
}

void build_maxvit(NetworkBuilder& b, std::size_t) {
  const LayerId images = b.images();
  const std::int64_t unit = 32 * window;  // the stem and the four blocks halve the image
  const Shape size = b.shape(images);
  if (size[2] != size[3] || size[2] % unit != 0) {
    throw InputError(
        fmt::format("input {}x{} does not fit maxvit_t: its windows need squares of a multiple of {} pixels", size[2],
                    size[3], unit));
  }
  LayerId x = conv_norm_gelu(b, images, "stem.0", maxvit_t[0].channels, {3, 2, 1});
  x = b.conv(x, "stem.1.0", maxvit_t[0].channels, {3, 1, 1}, true);
  int layers = 0, layer = 0;
  for (const MaxVitBlock& block : maxvit_t) layers += block.layers;
  for (std::size_t i = 0; i < maxvit_t.size(); ++i) {
    for (int j = 0; j < maxvit_t[i].layers; ++j, ++layer) {
      const double drop = maxvit_stochastic_depth * layer / (layers - 1);
      const std::string name = fmt::format("blocks.{}.layers.{}.layers", i, j);
      b.enter(name + ".MBconv");
      x = mbconv(b, x, maxvit_t[i].channels, j == 0 ? 2 : 1, drop);
      b.enter(name + ".window_attention");
      x = partition_attention(b, x, false, drop);
      b.enter(name + ".grid_attention");
      x = partition_attention(b, x, true, drop);
    }
  }
  b.enter("classifier");
  x = b.layer_norm(b.flatten(b.global_avg_pool(x)), "2", 1e-5);
  x = b.activation(LayerKind::tanh, b.linear(x, "3", maxvit_t.back().channels));
  b.linear(x, "5", b.classes(), false);
}

}  // namespace

void build_swin(NetworkBuilder& b, const TransformerDescription& d) {
  const SwinStages& stages = d.stages;
  const LayerId images = b.images();
  const Shape given = b.shape(images);
  std::int64_t rows = given[2] / d.patch, columns = given[3] / d.patch;
  for (std::size_t stage = 1; stage < stages.depths.size(); ++stage) {
    rows = (rows + 1) / 2;
    columns = (columns + 1) / 2;
  }
  if (given[2] % d.patch != 0 || given[3] % d.patch != 0 || std::min(rows, columns) < stages.window) {
    throw InputError(fmt::format(
        "input {}x{} does not fit the network: its patches have {} x {} pixels, and its last stage windows of "
        "{} x {}",
        given[2], given[3], d.patch, d.patch, stages.window, stages.window));
  }
  b.gives_loss();
  add_swin(b, images,
           {.width = d.hidden,
            .depths = stages.depths,
            .heads = stages.heads,
            .stochastic_depth = stages.stochastic_depth,
            .window = stages.window,
            .patch = d.patch,
            .mlp_ratio = stages.mlp_ratio,
            .dropout = d.dropout,
            .attention_dropout = d.attention_dropout,
            .activation = d.activation,
            .of_transformers = true,
            .qkv_bias = d.qkv_bias,
            .positions = stages.positions});
}

void add_windowed_networks(std::vector<ZooEntry>& zoo) {
  zoo.push_back({"maxvit_t", build_maxvit});
  for (std::size_t row = 0; row < swins.size(); ++row) zoo.push_back({swins[row].name, build_swin_of_torchvision, row});
}

}  // namespace perfpred
