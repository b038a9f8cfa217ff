// SPDX-License-Identifier: Apache-2.0
// AlexNet, VGG and SqueezeNet as in torchvision: layers one after another.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

constexpr double dropout = 0.5;

void build_alexnet(NetworkBuilder& b, std::size_t) {
  LayerId x = b.images();
  b.enter("features");
  x = b.max_pool(b.relu(b.conv(x, "0", 64, {11, 4, 2}, true)), {3, 2});
  x = b.max_pool(b.relu(b.conv(x, "3", 192, {5, 1, 2}, true)), {3, 2});
  x = b.relu(b.conv(x, "6", 384, {3, 1, 1}, true));
  x = b.relu(b.conv(x, "8", 256, {3, 1, 1}, true));
  x = b.max_pool(b.relu(b.conv(x, "10", 256, {3, 1, 1}, true)), {3, 2});
  b.enter("classifier");
  x = b.flatten(b.adaptive_avg_pool(x, 6, 6));
  x = b.relu(b.linear(b.with_value(LayerKind::dropout, x, dropout), "1", 4096));
  x = b.relu(b.linear(b.with_value(LayerKind::dropout, x, dropout), "4", 4096));
  b.linear(x, "6", b.classes());
}

struct VggSpec {
  std::string_view name;
  std::array<int, 5> convs;  // in each stage
  bool batch_norm;
};

constexpr std::array<VggSpec, 8> vggs = {{
    {"vgg11", {1, 1, 2, 2, 2}, false},
    {"vgg11_bn", {1, 1, 2, 2, 2}, true},
    {"vgg13", {2, 2, 2, 2, 2}, false},
    {"vgg13_bn", {2, 2, 2, 2, 2}, true},
    {"vgg16", {2, 2, 3, 3, 3}, false},
    {"vgg16_bn", {2, 2, 3, 3, 3}, true},
    {"vgg19", {2, 2, 4, 4, 4}, false},
    {"vgg19_bn", {2, 2, 4, 4, 4}, true},
}};

void build_vgg(NetworkBuilder& b, std::size_t row) {
  const VggSpec& spec = vggs[row];
  LayerId x = b.images();
  b.enter("features");
  int module = 0;  // its number in the sequence
  for (std::size_t stage = 0; stage < spec.convs.size(); ++stage) {
    for (int conv = 0; conv < spec.convs[stage]; ++conv) {
      x = b.conv(x, fmt::format_int(module++).str(), stage < 3 ? 64 << stage : 512, {3, 1, 1}, true);
      if (spec.batch_norm) x = b.batch_norm(x, fmt::format_int(module++).str());
      x = b.relu(x);
      ++module;
    }
    x = b.max_pool(x, {2, 2});
    ++module;
  }
  b.enter("classifier");
  x = b.flatten(b.adaptive_avg_pool(x, 7, 7));
  x = b.with_value(LayerKind::dropout, b.relu(b.linear(x, "0", 4096)), dropout);
  x = b.with_value(LayerKind::dropout, b.relu(b.linear(x, "3", 4096)), dropout);
  b.linear(x, "6", b.classes());
}

struct SqueezeNetSpec {
  std::string_view name;
  std::int64_t stem, stem_kernel;
  std::array<std::int64_t, 11> fires;  // squeezed channels; 0: pooling
};

constexpr std::array<SqueezeNetSpec, 2> squeezenets = {{
    {"squeezenet1_0", 96, 7, {0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64}},
    {"squeezenet1_1", 64, 3, {0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64}},
}};

LayerId fire(NetworkBuilder& b, LayerId x, std::int64_t squeezed) {
  x = b.relu(b.conv(x, "squeeze", squeezed, {}, true));
  const LayerId narrow = b.relu(b.conv(x, "expand1x1", squeezed * 4, {}, true));
  const LayerId wide = b.relu(b.conv(x, "expand3x3", squeezed * 4, {3, 1, 1}, true));
  return b.concat(std::array{narrow, wide});
}

void build_squeezenet(NetworkBuilder& b, std::size_t row) {
  const SqueezeNetSpec& spec = squeezenets[row];
  LayerId x = b.relu(b.conv(b.images(), "features.0", spec.stem, {spec.stem_kernel, 2}, true));
  for (std::size_t i = 0; i < spec.fires.size(); ++i) {
    b.enter(fmt::format("features.{}", i + 2));
    x = spec.fires[i] == 0 ? b.max_pool(x, {3, 2}, true) : fire(b, x, spec.fires[i]);
  }
  b.enter("classifier");
  x = b.relu(b.conv(b.with_value(LayerKind::dropout, x, dropout), "1", b.classes(), {}, true));
  b.flatten(b.global_avg_pool(x));
}

}  // namespace

void add_plain_networks(std::vector<ZooEntry>& zoo) {
  zoo.push_back({"alexnet", build_alexnet});
  for (std::size_t row = 0; row < vggs.size(); ++row) zoo.push_back({vggs[row].name, build_vgg, row});
  for (std::size_t row = 0; row < squeezenets.size(); ++row) {
    zoo.push_back({squeezenets[row].name, build_squeezenet, row});
  }
}

}  // namespace perfpred
