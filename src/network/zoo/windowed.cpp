// SPDX-License-Identifier: Apache-2.0
// Swin as in torchvision: attention inside windows of an image, written out.
#include <fmt/format.h>

#include <array>
#include <cmath>
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
  const auto residual = [&](LayerId y) {
    return b.add(x, drop > 0 ? b.with_value(LayerKind::stochastic_depth, y, drop) : y);
  };
  x = residual(window_attention(b, b.layer_norm(x, "norm1", 1e-5), heads, shifted));
  const LayerId inner = b.linear(b.layer_norm(x, "norm2", 1e-5), "mlp.0", 4 * width);
  return residual(b.linear(b.activation(LayerKind::gelu, inner), "mlp.3", width));
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

}  // namespace

void add_windowed_networks(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < swins.size(); ++row) zoo.push_back({swins[row].name, build_swin, row});
}

}  // namespace perfpred
