// SPDX-License-Identifier: Apache-2.0
// Swin and MaxViT as in torchvision: attention inside windows of an image, written out.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

constexpr std::int64_t window = 7;  // rows and columns

struct SwinSpec {
  std::string_view name;
  std::int64_t width;  // of the first stage; doubled in each later one, as are the heads
  std::array<int, 4> depths;
  std::int64_t heads;
  double stochastic_depth;
};

constexpr std::array<SwinSpec, 3> swins = {{
    {"swin_b", 128, {2, 2, 18, 2}, 4, 0.5},
    {"swin_s", 96, {2, 2, 18, 2}, 3, 0.3},
    {"swin_t", 96, {2, 2, 6, 2}, 3, 0.2},
}};

LayerId dropped(NetworkBuilder& b, LayerId x, double drop) {
  return drop > 0 ? b.with_value(LayerKind::stochastic_depth, x, drop) : x;
}

/// Attention inside windows of NxHxWxC, of a shifted block in windows that begin half a window further. Sides that are
/// no multiple of a window are padded; an axis of one window is not shifted.
LayerId window_attention(NetworkBuilder& b, LayerId x, std::int64_t heads, bool shifted) {
  const Shape image = b.shape(x);
  const std::int64_t width = image[3];
  RolledWindows windows{window, {}, {}};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    windows.count[axis] = (image[axis + 1] + window - 1) / window;
    windows.shift[axis] = shifted && windows.count[axis] > 1 ? window / 2 : 0;
  }
  const auto [rows, columns] = windows.shift;
  const bool rolled = rows > 0 || columns > 0;
  LayerId y = b.pad(x, windows.count[0] * window, windows.count[1] * window);
  const Shape padded = b.shape(y);
  if (rolled) y = b.roll(y, -rows, -columns);
  const LayerId q = b.select_heads(b.linear(b.to_windows(y, window), "attn.qkv", 3 * width), 3, heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
  LayerId scores = b.matmul(b.with_value(LayerKind::scale, q, scale), q + 1, true);
  scores = b.relative_position(scores, "attn.relative_position_bias_table", heads, window);
  if (rolled) scores = b.window_mask(scores, heads, windows);
  y = b.merge_heads(b.matmul(b.view(LayerKind::softmax, scores), q + 2, false), heads);
  y = b.from_windows(b.linear(y, "attn.proj", width), window, padded);
  if (rolled) y = b.roll(y, rows, columns);
  return padded == image ? y : b.crop(y, image[1], image[2]);
}

LayerId swin_block(NetworkBuilder& b, LayerId x, std::int64_t heads, bool shifted, double drop) {
  const std::int64_t width = b.shape(x)[3];
  x = b.add(x, dropped(b, window_attention(b, b.layer_norm(x, "norm1", 1e-5), heads, shifted), drop));
  const LayerId inner = b.linear(b.layer_norm(x, "norm2", 1e-5), "mlp.0", 4 * width);
  return b.add(x, dropped(b, b.linear(b.activation(LayerKind::gelu, inner), "mlp.3", width), drop));
}

void build_swin(NetworkBuilder& b, std::size_t row) {
  const SwinSpec& spec = swins[row];
  int blocks = 0;
  for (const int depth : spec.depths) blocks += depth;
  LayerId x = b.conv(b.images(), "features.0.0", spec.width, {4, 4}, true);
  x = b.layer_norm(b.view(LayerKind::to_nhwc, x), "features.0.2", 1e-5);
  int block = 0;
  std::int64_t heads = spec.heads;
  for (std::size_t stage = 0; stage < spec.depths.size(); ++stage, heads *= 2) {
    if (stage > 0) {
      b.enter(fmt::format("features.{}", 2 * stage));
      const Shape image = b.shape(x);
      x = b.merge_patches(b.pad(x, image[1] + image[1] % 2, image[2] + image[2] % 2));
      x = b.linear(b.layer_norm(x, "norm", 1e-5), "reduction", 2 * image[3], false);
    }
    for (int i = 0; i < spec.depths[stage]; ++i, ++block) {
      b.enter(fmt::format("features.{}.{}", 2 * stage + 1, i));
      x = swin_block(b, x, heads, i % 2 == 1, spec.stochastic_depth * block / (blocks - 1));
    }
  }
  b.enter("");
  x = b.view(LayerKind::to_nchw, b.layer_norm(x, "norm", 1e-5));
  b.linear(b.flatten(b.global_avg_pool(x)), "head", b.classes());
}

struct MaxVitBlock {
  std::int64_t channels;
  int layers;
};

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
  return b.add(kept, dropped(b, b.conv(y, "layers.conv_c", channels, {}, true), drop));
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
  const LayerId x = b.add(windows, dropped(b, y, drop));
  y = b.view(LayerKind::join_windows, b.layer_norm(x, "mlp_layer.0", 1e-5));
  y = b.linear(b.activation(LayerKind::gelu, b.linear(y, "mlp_layer.1", 4 * width)), "mlp_layer.3", width);
  return b.windows_image(b.add(x, dropped(b, b.part_windows(y, parted[1]), drop)), windows);
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

void add_windowed_networks(std::vector<ZooEntry>& zoo) {
  zoo.push_back({"maxvit_t", build_maxvit});
  for (std::size_t row = 0; row < swins.size(); ++row) zoo.push_back({swins[row].name, build_swin, row});
}

}  // namespace perfpred
