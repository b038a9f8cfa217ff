// SPDX-License-Identifier: Apache-2.0
// ResNet, ResNeXt, Wide ResNet and RegNet as in torchvision; ResNet for 32x32 images; SSD300 on a ResNet-50.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

struct ResNetSpec {
  std::string_view name;
  std::array<int, 4> blocks;
  bool bottleneck;
  std::int64_t groups;
  std::int64_t group_width;
  bool cifar_stem;  // 3x3 without stride, no pooling
};

constexpr std::array<ResNetSpec, 14> resnets = {{
    {"resnet18", {2, 2, 2, 2}, false, 1, 64, false},
    {"resnet34", {3, 4, 6, 3}, false, 1, 64, false},
    {"resnet50", {3, 4, 6, 3}, true, 1, 64, false},
    {"resnet101", {3, 4, 23, 3}, true, 1, 64, false},
    {"resnet152", {3, 8, 36, 3}, true, 1, 64, false},
    {"resnext50_32x4d", {3, 4, 6, 3}, true, 32, 4, false},
    {"resnext101_32x4d", {3, 4, 23, 3}, true, 32, 4, false},
    {"resnext101_32x8d", {3, 4, 23, 3}, true, 32, 8, false},
    {"resnext101_64x4d", {3, 4, 23, 3}, true, 64, 4, false},
    {"wide_resnet50_2", {3, 4, 6, 3}, true, 1, 128, false},
    {"wide_resnet101_2", {3, 4, 23, 3}, true, 1, 128, false},
    {"cifar_resnet18", {2, 2, 2, 2}, false, 1, 64, true},
    {"cifar_resnet34", {3, 4, 6, 3}, false, 1, 64, true},
    {"cifar_resnet50", {3, 4, 6, 3}, true, 1, 64, true},
}};

LayerId residual_block(NetworkBuilder& b, LayerId x, const ResNetSpec& spec, std::int64_t planes, std::int64_t stride) {
  const std::int64_t out = spec.bottleneck ? planes * 4 : planes;
  LayerId y = x;
  if (spec.bottleneck) {
    const std::int64_t width = planes * spec.group_width / 64 * spec.groups;
    y = b.relu(b.batch_norm(b.conv(y, "conv1", width, {}), "bn1"));
    y = b.relu(b.batch_norm(b.conv(y, "conv2", width, {3, stride, 1, spec.groups}), "bn2"));
    y = b.batch_norm(b.conv(y, "conv3", out, {}), "bn3");
  } else {
    y = b.relu(b.batch_norm(b.conv(y, "conv1", out, {3, stride, 1}), "bn1"));
    y = b.batch_norm(b.conv(y, "conv2", out, {3, 1, 1}), "bn2");
  }
  LayerId shortcut = x;
  if (stride != 1 || b.channels(x) != out) {
    shortcut = b.batch_norm(b.conv(x, "downsample.0", out, {1, stride}), "downsample.1");
  }
  return b.relu(b.add(y, shortcut, true));
}

/// All before the head. @param strides  of the first block of each stage
LayerId resnet_features(NetworkBuilder& b, const ResNetSpec& spec, std::span<const std::int64_t> strides) {
  const Window stem = spec.cifar_stem ? Window{3, 1, 1} : Window{7, 2, 3};
  LayerId x = b.relu(b.batch_norm(b.conv(b.images(), "conv1", 64, stem), "bn1"));
  if (!spec.cifar_stem) x = b.max_pool(x, {3, 2, 1});
  std::array<char, 16> prefix = {"layer1."};
  for (std::size_t stage = 0; stage < strides.size(); ++stage) {
    prefix[5] = static_cast<char>('1' + stage);
    for (int block = 0; block < spec.blocks[stage]; ++block) {
      const auto end = fmt::format_to(prefix.data() + 7, "{}", block);
      b.enter({prefix.data(), static_cast<std::size_t>(end - prefix.data())});
      x = residual_block(b, x, spec, std::int64_t{64} << stage, block == 0 ? strides[stage] : 1);
    }
  }
  b.enter("");
  return x;
}

void build_resnet(NetworkBuilder& b, std::size_t row) {
  const LayerId x = resnet_features(b, resnets[row], std::array<std::int64_t, 4>{1, 2, 2, 2});
  b.linear(b.flatten(b.global_avg_pool(x)), "fc", b.classes());
}

/// Images that boxes are found in: how many at each position, and the block that makes such an image of the one before.
struct BoxMap {
  std::int64_t boxes, inner = 0, channels = 0;
  Window window = {};
};

constexpr std::array<BoxMap, 6> ssd300_maps = {{{4},
                                                {6, 256, 512, {3, 2, 1}},
                                                {6, 256, 512, {3, 2, 1}},
                                                {6, 128, 256, {3, 2, 1}},
                                                {4, 128, 256, {3}},
                                                {4, 128, 256, {3}}}};

/// SSD300 (Liu et al. 2016) as in NVIDIA's DeepLearningExamples, PyTorch/Detection/SSD/ssd/model.py: three stages of a
/// ResNet, the last at the stride of the second. @param row  the ResNet's
void build_ssd300(NetworkBuilder& b, std::size_t row) {
  LayerId x = resnet_features(b, resnets[row], std::array<std::int64_t, 3>{1, 2, 1});
  std::array<LayerId, ssd300_maps.size()> images = {x}, places = {}, classes = {};
  for (std::size_t i = 1; i < images.size(); ++i) {
    const BoxMap& map = ssd300_maps.at(i);
    b.enter(fmt::format("additional_blocks.{}", i - 1));
    x = b.relu(b.batch_norm(b.conv(x, "0", map.inner, {}), "1"));
    images.at(i) = x = b.relu(b.batch_norm(b.conv(x, "3", map.channels, map.window), "4"));
  }
  b.enter("");
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t boxes = ssd300_maps.at(i).boxes;
    const auto head = [&](std::string_view name, std::int64_t numbers) {
      return b.to_boxes(b.conv(images.at(i), fmt::format("{}.{}", name, i), boxes * numbers, {3, 1, 1}, true), boxes);
    };
    places.at(i) = head("loc", 4);
    classes.at(i) = head("conf", b.classes());
  }
  b.gives_boxes(b.concat(places));
  b.concat(classes);
}

struct RegNetSpec {
  std::string_view name;
  int depth;
  int initial_width;
  double slope, step;
  std::int64_t group_width;
  bool squeeze;
};

constexpr std::array<RegNetSpec, 15> regnets = {{
    {"regnet_y_400mf", 16, 48, 27.89, 2.09, 8, true},
    {"regnet_y_800mf", 14, 56, 38.84, 2.4, 16, true},
    {"regnet_y_1_6gf", 27, 48, 20.71, 2.65, 24, true},
    {"regnet_y_3_2gf", 21, 80, 42.63, 2.66, 24, true},
    {"regnet_y_8gf", 17, 192, 76.82, 2.19, 56, true},
    {"regnet_y_16gf", 18, 200, 106.23, 2.48, 112, true},
    {"regnet_y_32gf", 20, 232, 115.89, 2.53, 232, true},
    {"regnet_y_128gf", 27, 456, 160.83, 2.52, 264, true},
    {"regnet_x_400mf", 22, 24, 24.48, 2.54, 16, false},
    {"regnet_x_800mf", 16, 56, 35.73, 2.28, 16, false},
    {"regnet_x_1_6gf", 18, 80, 34.01, 2.25, 24, false},
    {"regnet_x_3_2gf", 25, 88, 26.31, 2.25, 48, false},
    {"regnet_x_8gf", 23, 80, 49.56, 2.88, 120, false},
    {"regnet_x_16gf", 22, 216, 55.59, 2.1, 128, false},
    {"regnet_x_32gf", 23, 320, 69.86, 2.0, 168, false},
}};

struct RegNetStage {
  std::int64_t width, depth, group_width;
};

/// Widths grow linearly with the block, are rounded to powers of the step, then to multiples of 8 and of the groups.
std::vector<RegNetStage> regnet_stages(const RegNetSpec& spec) {
  std::vector<RegNetStage> stages;
  for (int block = 0; block < spec.depth; ++block) {
    const double linear = block * spec.slope + spec.initial_width;
    const double power = std::nearbyint(std::log(linear / spec.initial_width) / std::log(spec.step));
    const auto width =
        static_cast<std::int64_t>(std::nearbyint(spec.initial_width * std::pow(spec.step, power) / 8)) * 8;
    if (stages.empty() || stages.back().width != width) stages.push_back({width, 0, 0});
    ++stages.back().depth;
  }
  for (RegNetStage& stage : stages) {
    stage.group_width = std::min(spec.group_width, stage.width);
    stage.width = multiple_of(static_cast<double>(stage.width), stage.group_width);
  }
  return stages;
}

LayerId regnet_block(NetworkBuilder& b, LayerId x, const RegNetStage& stage, std::int64_t stride, bool squeeze) {
  LayerId shortcut = x;
  const std::int64_t in = b.channels(x);
  if (stride != 1 || in != stage.width) {
    shortcut = b.batch_norm(b.conv(x, "proj.0", stage.width, {1, stride}), "proj.1");
  }
  LayerId y = b.relu(b.batch_norm(b.conv(x, "f.a.0", stage.width, {}), "f.a.1"));
  y = b.conv(y, "f.b.0", stage.width, {3, stride, 1, stage.width / stage.group_width});
  y = b.relu(b.batch_norm(y, "f.b.1"));
  if (squeeze) {
    y = b.squeeze_excitation(y, "f.se", static_cast<std::int64_t>(std::nearbyint(0.25 * static_cast<double>(in))),
                             LayerKind::relu, LayerKind::sigmoid);
  }
  y = b.batch_norm(b.conv(y, "f.c.0", stage.width, {}), "f.c.1");
  return b.relu(b.add(shortcut, y));
}

void build_regnet(NetworkBuilder& b, std::size_t row) {
  const RegNetSpec& spec = regnets[row];
  LayerId x = b.relu(b.batch_norm(b.conv(b.images(), "stem.0", 32, {3, 2, 1}), "stem.1"));
  int number = 1;
  for (const RegNetStage& stage : regnet_stages(spec)) {
    for (int block = 0; block < stage.depth; ++block) {
      b.enter(fmt::format("trunk_output.block{0}.block{0}-{1}", number, block));
      x = regnet_block(b, x, stage, block == 0 ? 2 : 1, spec.squeeze);
    }
    ++number;
  }
  b.enter("");
  b.linear(b.flatten(b.global_avg_pool(x)), "fc", b.classes());
}

}  // namespace

void add_resnets(std::vector<ZooEntry>& zoo) {
  for (std::size_t row = 0; row < resnets.size(); ++row) {
    const bool cifar = resnets[row].cifar_stem;
    zoo.push_back({resnets[row].name, build_resnet, row, cifar ? 32 : 224, cifar ? 10 : 1000,
                   cifar ? cifar_images : imagenet_images});
    if (resnets[row].name == "resnet50") zoo.push_back({"ssd300_resnet50", build_ssd300, row, 300, 81, coco_images});
  }
  for (std::size_t row = 0; row < regnets.size(); ++row) zoo.push_back({regnets[row].name, build_regnet, row});
}

}  // namespace perfpred
