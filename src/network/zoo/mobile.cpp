// SPDX-License-Identifier: Apache-2.0
// MobileNetV2, MobileNetV3, MNASNet and EfficientNet as in torchvision: inverted residual blocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

/// How a family writes its blocks.
struct BlockStyle {
  LayerKind activation;
  bool in_place;
  double epsilon;
  bool flat = false;  // the projection's convolution and normalisation are modules of the block itself
};

/// One inverted residual block: expansion by a 1x1 convolution, a depthwise one, squeeze and excitation, projection.
struct Block {
  std::int64_t expanded, kernel, stride, out;
  std::int64_t squeezed = 0;  // 0: no squeeze and excitation
  LayerKind gate = LayerKind::sigmoid;
  LayerKind squeeze_activation = LayerKind::relu;
};

LayerId conv_norm(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t channels, const Window& window,
                  double epsilon) {
  x = b.conv(x, fmt::format("{}.0", name), channels, window);
  return b.batch_norm(x, fmt::format("{}.1", name), epsilon);
}

LayerId conv_norm_act(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t channels, const Window& window,
                      const BlockStyle& style) {
  return b.activation(style.activation, conv_norm(b, x, name, channels, window, style.epsilon), style.in_place);
}

/// The block without its residual sum; modules are numbered `name.0`, `name.1`, ...
LayerId inverted_residual(NetworkBuilder& b, LayerId x, std::string_view name, const Block& block,
                          const BlockStyle& style) {
  int module = 0;
  const auto next = [&] { return fmt::format("{}.{}", name, module++); };
  LayerId y = x;
  if (block.expanded != b.channels(x)) y = conv_norm_act(b, y, next(), block.expanded, {}, style);
  const Window depthwise = {block.kernel, block.stride, block.kernel / 2, block.expanded};
  y = conv_norm_act(b, y, next(), block.expanded, depthwise, style);
  if (block.squeezed > 0) {
    y = b.squeeze_excitation(y, next(), block.squeezed, block.squeeze_activation, block.gate);
  }
  if (!style.flat) return conv_norm(b, y, next(), block.out, {}, style.epsilon);
  y = b.conv(y, next(), block.out, {});
  return b.batch_norm(y, next(), style.epsilon);
}

bool has_residual(NetworkBuilder& b, LayerId x, std::int64_t stride, std::int64_t out) {
  return stride == 1 && b.channels(x) == out;
}

void classify(NetworkBuilder& b, LayerId x, std::string_view name, double dropout) {
  b.enter("");
  x = b.with_value(LayerKind::dropout, b.flatten(b.global_avg_pool(x)), dropout);
  b.linear(x, name, b.classes());
}

struct Stage {
  std::int64_t expansion, kernel, stride, out;
  int repeats;
};

constexpr std::array<Stage, 7> mobilenet_v2 = {{
    {1, 3, 1, 16, 1},
    {6, 3, 2, 24, 2},
    {6, 3, 2, 32, 3},
    {6, 3, 2, 64, 4},
    {6, 3, 1, 96, 3},
    {6, 3, 2, 160, 3},
    {6, 3, 1, 320, 1},
}};

void build_mobilenet_v2(NetworkBuilder& b, std::size_t) {
  const BlockStyle style = {LayerKind::relu6, false, 1e-5, true};  // in place, LibTorch would keep a copy of its input
  LayerId x = conv_norm_act(b, b.images(), "features.0", 32, {3, 2, 1}, style);
  int number = 1;
  for (const Stage& stage : mobilenet_v2) {
    for (int repeat = 0; repeat < stage.repeats; ++repeat, ++number) {
      const std::int64_t stride = repeat == 0 ? stage.stride : 1;
      const Block block = {b.channels(x) * stage.expansion, stage.kernel, stride, stage.out};
      b.enter(fmt::format("features.{}", number));
      const LayerId y = inverted_residual(b, x, "conv", block, style);
      x = has_residual(b, x, stride, stage.out) ? b.add(x, y) : y;
    }
  }
  b.enter("");
  x = conv_norm_act(b, x, fmt::format("features.{}", number), 1280, {1}, style);
  classify(b, x, "classifier.1", 0.2);
}

struct MobileNetV3Block {
  std::int64_t kernel, expanded, out;
  bool squeeze, hardswish;
  std::int64_t stride;
};

constexpr std::array<MobileNetV3Block, 15> mobilenet_v3_large = {{
    {3, 16, 16, false, false, 1},
    {3, 64, 24, false, false, 2},
    {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},
    {5, 120, 40, true, false, 1},
    {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2},
    {3, 200, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 480, 112, true, true, 1},
    {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2},
    {5, 960, 160, true, true, 1},
    {5, 960, 160, true, true, 1},
}};

constexpr std::array<MobileNetV3Block, 11> mobilenet_v3_small = {{
    {3, 16, 16, true, false, 2},
    {3, 72, 24, false, false, 2},
    {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},
    {5, 240, 40, true, true, 1},
    {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1},
    {5, 144, 48, true, true, 1},
    {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1},
    {5, 576, 96, true, true, 1},
}};

void build_mobilenet_v3(NetworkBuilder& b, std::size_t small) {
  const std::span<const MobileNetV3Block> blocks =
      small == 1 ? std::span<const MobileNetV3Block>(mobilenet_v3_small) : mobilenet_v3_large;
  const BlockStyle swish = {LayerKind::hardswish, false, 1e-3};
  const BlockStyle relu = {LayerKind::relu, true, 1e-3};
  LayerId x = conv_norm_act(b, b.images(), "features.0", 16, {3, 2, 1}, swish);
  int number = 1;
  for (const MobileNetV3Block& row : blocks) {
    Block block = {row.expanded, row.kernel, row.stride, row.out};
    if (row.squeeze) block.squeezed = multiple_of(static_cast<double>(row.expanded / 4), 8);
    block.gate = LayerKind::hardsigmoid;
    b.enter(fmt::format("features.{}", number++));
    const LayerId y = inverted_residual(b, x, "block", block, row.hardswish ? swish : relu);
    x = has_residual(b, x, row.stride, row.out) ? b.add(y, x, true) : y;
  }
  b.enter("");
  x = conv_norm_act(b, x, fmt::format("features.{}", number), 6 * b.channels(x), {1}, swish);
  x = b.linear(b.flatten(b.global_avg_pool(x)), "classifier.0", small == 1 ? 1024 : 1280);
  x = b.with_value(LayerKind::dropout, b.activation(LayerKind::hardswish, x), 0.2);
  b.linear(x, "classifier.3", b.classes());
}

constexpr std::array<std::string_view, 4> mnasnets = {"mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"};
constexpr std::array<double, 4> mnasnet_widths = {0.5, 0.75, 1.0, 1.3};
constexpr std::array<Stage, 6> mnasnet_stages = {{
    {3, 3, 2, 24, 3},
    {3, 5, 2, 40, 3},
    {6, 5, 2, 80, 3},
    {6, 3, 1, 96, 2},
    {6, 5, 2, 192, 4},
    {6, 3, 1, 320, 1},
}};

void build_mnasnet(NetworkBuilder& b, std::size_t row) {
  const auto scaled = [&](std::int64_t width) {
    return multiple_of(static_cast<double>(width) * mnasnet_widths[row], 8);
  };
  LayerId x = b.images();
  b.enter("layers");
  x = b.relu(b.batch_norm(b.conv(x, "0", scaled(32), {3, 2, 1}), "1"));
  x = b.relu(b.batch_norm(b.conv(x, "3", scaled(32), {3, 1, 1, scaled(32)}), "4"));
  x = b.batch_norm(b.conv(x, "6", scaled(16), {}), "7");
  int number = 8;
  for (const Stage& stage : mnasnet_stages) {
    for (int repeat = 0; repeat < stage.repeats; ++repeat) {
      const std::int64_t stride = repeat == 0 ? stage.stride : 1;
      const std::int64_t expanded = b.channels(x) * stage.expansion;
      b.enter(fmt::format("layers.{}.{}.layers", number, repeat));
      LayerId y = b.relu(b.batch_norm(b.conv(x, "0", expanded, {}), "1"));
      y = b.relu(b.batch_norm(b.conv(y, "3", expanded, {stage.kernel, stride, stage.kernel / 2, expanded}), "4"));
      y = b.batch_norm(b.conv(y, "6", scaled(stage.out), {}), "7");
      x = repeat > 0 ? b.add(y, x) : y;
    }
    ++number;
  }
  b.enter("layers");
  x = b.relu(b.batch_norm(b.conv(x, "14", 1280, {}), "15"));
  classify(b, x, "classifier.1", 0.2);
}

struct EfficientNetSpec {
  std::string_view name;
  int version;
  double width, depth, dropout, epsilon;
  std::int64_t size;
};

constexpr std::array<EfficientNetSpec, 11> efficientnets = {{
    {"efficientnet_b0", 1, 1.0, 1.0, 0.2, 1e-5, 224},
    {"efficientnet_b1", 1, 1.0, 1.1, 0.2, 1e-5, 240},
    {"efficientnet_b2", 1, 1.1, 1.2, 0.3, 1e-5, 288},
    {"efficientnet_b3", 1, 1.2, 1.4, 0.3, 1e-5, 300},
    {"efficientnet_b4", 1, 1.4, 1.8, 0.4, 1e-5, 380},
    {"efficientnet_b5", 1, 1.6, 2.2, 0.4, 1e-3, 456},
    {"efficientnet_b6", 1, 1.8, 2.6, 0.5, 1e-3, 528},
    {"efficientnet_b7", 1, 2.0, 3.1, 0.5, 1e-3, 600},
    {"efficientnet_v2_s", 2, 1.0, 1.0, 0.2, 1e-3, 384},
    {"efficientnet_v2_m", 3, 1.0, 1.0, 0.3, 1e-3, 480},
    {"efficientnet_v2_l", 4, 1.0, 1.0, 0.4, 1e-3, 480},
}};

struct EfficientNetStage {
  bool fused;  // one full convolution in place of expansion and depthwise convolution
  Stage stage;
};

constexpr std::array<EfficientNetStage, 7> efficientnet_v1 = {{
    {false, {1, 3, 1, 16, 1}},
    {false, {6, 3, 2, 24, 2}},
    {false, {6, 5, 2, 40, 2}},
    {false, {6, 3, 2, 80, 3}},
    {false, {6, 5, 1, 112, 3}},
    {false, {6, 5, 2, 192, 4}},
    {false, {6, 3, 1, 320, 1}},
}};
constexpr std::array<EfficientNetStage, 6> efficientnet_v2_s = {{
    {true, {1, 3, 1, 24, 2}},
    {true, {4, 3, 2, 48, 4}},
    {true, {4, 3, 2, 64, 4}},
    {false, {4, 3, 2, 128, 6}},
    {false, {6, 3, 1, 160, 9}},
    {false, {6, 3, 2, 256, 15}},
}};
constexpr std::array<EfficientNetStage, 7> efficientnet_v2_m = {{
    {true, {1, 3, 1, 24, 3}},
    {true, {4, 3, 2, 48, 5}},
    {true, {4, 3, 2, 80, 5}},
    {false, {4, 3, 2, 160, 7}},
    {false, {6, 3, 1, 176, 14}},
    {false, {6, 3, 2, 304, 18}},
    {false, {6, 3, 1, 512, 5}},
}};
constexpr std::array<EfficientNetStage, 7> efficientnet_v2_l = {{
    {true, {1, 3, 1, 32, 4}},
    {true, {4, 3, 2, 64, 7}},
    {true, {4, 3, 2, 96, 7}},
    {false, {4, 3, 2, 192, 10}},
    {false, {6, 3, 1, 224, 19}},
    {false, {6, 3, 2, 384, 25}},
    {false, {6, 3, 1, 640, 7}},
}};

std::span<const EfficientNetStage> efficientnet_stages(int version) {
  switch (version) {
    case 1:
      return efficientnet_v1;
    case 2:
      return efficientnet_v2_s;
    case 3:
      return efficientnet_v2_m;
    default:
      return efficientnet_v2_l;
  }
}

LayerId fused_block(NetworkBuilder& b, LayerId x, std::int64_t expanded, std::int64_t kernel, std::int64_t stride,
                    std::int64_t out, const BlockStyle& style) {
  const Window window = {kernel, stride, kernel / 2};
  if (expanded == b.channels(x)) return conv_norm_act(b, x, "block.0", out, window, style);
  x = conv_norm_act(b, x, "block.0", expanded, window, style);
  return conv_norm(b, x, "block.1", out, {}, style.epsilon);
}

void build_efficientnet(NetworkBuilder& b, std::size_t row) {
  const EfficientNetSpec& spec = efficientnets[row];
  const auto stages = efficientnet_stages(spec.version);
  const BlockStyle style = {LayerKind::silu, false, spec.epsilon};
  const auto scaled = [&](std::int64_t width) { return multiple_of(static_cast<double>(width) * spec.width, 8); };
  const auto repeats = [&](const Stage& stage) { return static_cast<int>(std::ceil(stage.repeats * spec.depth)); };
  int blocks = 0;
  for (const EfficientNetStage& stage : stages) blocks += repeats(stage.stage);

  const std::int64_t stem = spec.version == 1 ? scaled(32) : stages[0].stage.out;
  LayerId x = conv_norm_act(b, b.images(), "features.0", stem, {3, 2, 1}, style);
  int number = 1;
  int block = 0;
  for (const auto& [fused, stage] : stages) {
    for (int repeat = 0; repeat < repeats(stage); ++repeat, ++block) {
      const std::int64_t stride = repeat == 0 ? stage.stride : 1;
      const std::int64_t out = scaled(stage.out);
      const std::int64_t in = b.channels(x);
      const std::int64_t expanded = multiple_of(static_cast<double>(in * stage.expansion), 8);
      b.enter(fmt::format("features.{}.{}", number, repeat));
      LayerId y = -1;
      if (fused) {
        y = fused_block(b, x, expanded, stage.kernel, stride, out, style);
      } else {
        const Block inner = {expanded,           stage.kernel,   stride, out, std::max<std::int64_t>(1, in / 4),
                             LayerKind::sigmoid, LayerKind::silu};
        y = inverted_residual(b, x, "block", inner, style);
      }
      if (has_residual(b, x, stride, out)) {
        if (block > 0) y = b.with_value(LayerKind::stochastic_depth, y, 0.2 * block / blocks);
        y = b.add(y, x, true);
      }
      x = y;
    }
    ++number;
  }
  b.enter("");
  const std::int64_t last = spec.version == 1 ? 4 * b.channels(x) : 1280;
  x = conv_norm_act(b, x, fmt::format("features.{}", number), last, {1}, style);
  classify(b, x, "classifier.1", spec.dropout);
}

}  // namespace

void add_mobile_networks(std::vector<ZooEntry>& zoo) {
  zoo.push_back({"mobilenet_v2", build_mobilenet_v2});
  zoo.push_back({"mobilenet_v3_large", build_mobilenet_v3, 0});
  zoo.push_back({"mobilenet_v3_small", build_mobilenet_v3, 1});
  for (std::size_t row = 0; row < mnasnets.size(); ++row) zoo.push_back({mnasnets[row], build_mnasnet, row});
  for (std::size_t row = 0; row < efficientnets.size(); ++row) {
    zoo.push_back({efficientnets[row].name, build_efficientnet, row, efficientnets[row].size});
  }
}

}  // namespace perfpred
