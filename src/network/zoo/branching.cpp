// SPDX-License-Identifier: Apache-2.0
// GoogLeNet (without auxiliary heads), Inception v3 (with its own), DenseNet and ShuffleNetV2 as in torchvision:
// branches that are concatenated.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

LayerId conv_norm_relu(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t channels,
                       const Window& window) {
  x = b.conv(x, fmt::format("{}.conv", name), channels, window);
  return b.relu(b.batch_norm(x, fmt::format("{}.bn", name), 1e-3));
}

struct InceptionSpec {
  std::string_view name;
  std::int64_t single, triple_reduced, triple, second_reduced, second, pooled;
  std::int64_t pooling_after;  // kernel; 0: none
};

constexpr std::array<InceptionSpec, 9> inceptions = {{
    {"inception3a", 64, 96, 128, 16, 32, 32, 0},
    {"inception3b", 128, 128, 192, 32, 96, 64, 3},
    {"inception4a", 192, 96, 208, 16, 48, 64, 0},
    {"inception4b", 160, 112, 224, 24, 64, 64, 0},
    {"inception4c", 128, 128, 256, 24, 64, 64, 0},
    {"inception4d", 112, 144, 288, 32, 64, 64, 0},
    {"inception4e", 256, 160, 320, 32, 128, 128, 2},
    {"inception5a", 256, 160, 320, 32, 128, 128, 0},
    {"inception5b", 384, 192, 384, 48, 128, 128, 0},
}};

LayerId inception(NetworkBuilder& b, LayerId x, const InceptionSpec& spec) {
  b.enter(spec.name);
  const LayerId first = conv_norm_relu(b, x, "branch1", spec.single, {});
  const LayerId second = conv_norm_relu(b, conv_norm_relu(b, x, "branch2.0", spec.triple_reduced, {}), "branch2.1",
                                        spec.triple, {3, 1, 1});
  // torchvision's "5x5" branch has 3x3 kernels.
  const LayerId third = conv_norm_relu(b, conv_norm_relu(b, x, "branch3.0", spec.second_reduced, {}), "branch3.1",
                                       spec.second, {3, 1, 1});
  const LayerId fourth = conv_norm_relu(b, b.max_pool(x, {3, 1, 1}, true), "branch4.1", spec.pooled, {});
  x = b.concat(std::array{first, second, third, fourth});
  return spec.pooling_after == 0 ? x : b.max_pool(x, {spec.pooling_after, 2}, true);
}

void build_googlenet(NetworkBuilder& b, std::size_t) {
  LayerId x = b.max_pool(conv_norm_relu(b, b.images(), "conv1", 64, {7, 2, 3}), {3, 2}, true);
  x = conv_norm_relu(b, x, "conv2", 64, {});
  x = b.max_pool(conv_norm_relu(b, x, "conv3", 192, {3, 1, 1}), {3, 2}, true);
  for (const InceptionSpec& spec : inceptions) x = inception(b, x, spec);
  b.enter("");
  x = b.with_value(LayerKind::dropout, b.flatten(b.global_avg_pool(x)), 0.2);
  b.linear(x, "fc", b.classes());
}

LayerId conv_norm_relu(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t channels, std::int64_t rows,
                       std::int64_t columns) {
  x = b.same_conv(x, fmt::format("{}.conv", name), channels, {rows, columns});
  return b.relu(b.batch_norm(x, fmt::format("{}.bn", name), 1e-3));
}

/// The branch that pools first, as all blocks of Inception v3 that keep the image's size have it.
LayerId pooled_branch(NetworkBuilder& b, LayerId x, std::int64_t channels) {
  return conv_norm_relu(b, b.pool(LayerKind::avg_pool, x, {3, 1, 1}), "branch_pool", channels, {});
}

LayerId inception_a(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t pooled) {
  b.enter(name);
  const LayerId first = conv_norm_relu(b, x, "branch1x1", 64, {});
  const LayerId second = conv_norm_relu(b, conv_norm_relu(b, x, "branch5x5_1", 48, {}), "branch5x5_2", 64, {5, 1, 2});
  LayerId third = conv_norm_relu(b, conv_norm_relu(b, x, "branch3x3dbl_1", 64, {}), "branch3x3dbl_2", 96, {3, 1, 1});
  third = conv_norm_relu(b, third, "branch3x3dbl_3", 96, {3, 1, 1});
  return b.concat(std::array{first, second, third, pooled_branch(b, x, pooled)});
}

LayerId inception_b(NetworkBuilder& b, LayerId x, std::string_view name) {
  b.enter(name);
  const LayerId first = conv_norm_relu(b, x, "branch3x3", 384, {3, 2});
  LayerId second = conv_norm_relu(b, conv_norm_relu(b, x, "branch3x3dbl_1", 64, {}), "branch3x3dbl_2", 96, {3, 1, 1});
  second = conv_norm_relu(b, second, "branch3x3dbl_3", 96, {3, 2});
  return b.concat(std::array{first, second, b.max_pool(x, {3, 2})});
}

LayerId inception_c(NetworkBuilder& b, LayerId x, std::string_view name, std::int64_t inner) {
  b.enter(name);
  const LayerId first = conv_norm_relu(b, x, "branch1x1", 192, {});
  LayerId second = conv_norm_relu(b, conv_norm_relu(b, x, "branch7x7_1", inner, {}), "branch7x7_2", inner, 1, 7);
  second = conv_norm_relu(b, second, "branch7x7_3", 192, 7, 1);
  LayerId third = conv_norm_relu(b, conv_norm_relu(b, x, "branch7x7dbl_1", inner, {}), "branch7x7dbl_2", inner, 7, 1);
  third = conv_norm_relu(b, conv_norm_relu(b, third, "branch7x7dbl_3", inner, 1, 7), "branch7x7dbl_4", inner, 7, 1);
  third = conv_norm_relu(b, third, "branch7x7dbl_5", 192, 1, 7);
  return b.concat(std::array{first, second, third, pooled_branch(b, x, 192)});
}

LayerId inception_d(NetworkBuilder& b, LayerId x, std::string_view name) {
  b.enter(name);
  const LayerId first = conv_norm_relu(b, conv_norm_relu(b, x, "branch3x3_1", 192, {}), "branch3x3_2", 320, {3, 2});
  LayerId second = conv_norm_relu(b, conv_norm_relu(b, x, "branch7x7x3_1", 192, {}), "branch7x7x3_2", 192, 1, 7);
  second = conv_norm_relu(b, conv_norm_relu(b, second, "branch7x7x3_3", 192, 7, 1), "branch7x7x3_4", 192, {3, 2});
  return b.concat(std::array{first, second, b.max_pool(x, {3, 2})});
}

LayerId inception_e(NetworkBuilder& b, LayerId x, std::string_view name) {
  b.enter(name);
  const auto crossed = [&](LayerId y, std::string_view row, std::string_view column) {
    return b.concat(std::array{conv_norm_relu(b, y, row, 384, 1, 3), conv_norm_relu(b, y, column, 384, 3, 1)});
  };
  const LayerId first = conv_norm_relu(b, x, "branch1x1", 320, {});
  const LayerId second = crossed(conv_norm_relu(b, x, "branch3x3_1", 384, {}), "branch3x3_2a", "branch3x3_2b");
  LayerId third = conv_norm_relu(b, conv_norm_relu(b, x, "branch3x3dbl_1", 448, {}), "branch3x3dbl_2", 384, {3, 1, 1});
  third = crossed(third, "branch3x3dbl_3a", "branch3x3dbl_3b");
  return b.concat(std::array{first, second, third, pooled_branch(b, x, 192)});
}

void build_inception_v3(NetworkBuilder& b, std::size_t) {
  LayerId x = conv_norm_relu(b, b.images(), "Conv2d_1a_3x3", 32, {3, 2});
  x = conv_norm_relu(b, conv_norm_relu(b, x, "Conv2d_2a_3x3", 32, {3}), "Conv2d_2b_3x3", 64, {3, 1, 1});
  x = conv_norm_relu(b, b.max_pool(x, {3, 2}), "Conv2d_3b_1x1", 80, {});
  x = b.max_pool(conv_norm_relu(b, x, "Conv2d_4a_3x3", 192, {3}), {3, 2});
  x = inception_a(b, inception_a(b, x, "Mixed_5b", 32), "Mixed_5c", 64);
  x = inception_b(b, inception_a(b, x, "Mixed_5d", 64), "Mixed_6a");
  x = inception_c(b, inception_c(b, x, "Mixed_6b", 128), "Mixed_6c", 160);
  x = inception_c(b, inception_c(b, x, "Mixed_6d", 160), "Mixed_6e", 192);
  b.enter("AuxLogits");
  const LayerId trunk = x;
  LayerId aux = conv_norm_relu(b, b.pool(LayerKind::avg_pool, x, {5, 3}), "conv0", 128, {});
  aux = b.flatten(b.global_avg_pool(conv_norm_relu(b, aux, "conv1", 768, {5})));
  b.linear(aux, "fc", b.classes());
  b.end_auxiliary_head(trunk, 0.4);
  x = inception_e(b, inception_e(b, inception_d(b, x, "Mixed_7a"), "Mixed_7b"), "Mixed_7c");
  b.enter("");
  x = b.flatten(b.with_value(LayerKind::dropout, b.global_avg_pool(x), 0.5));
  b.linear(x, "fc", b.classes());
}

struct DenseNetSpec {
  std::string_view name;
  std::int64_t growth, stem;
  std::array<int, 4> blocks;
};

constexpr std::array<DenseNetSpec, 4> densenets = {{
    {"densenet121", 32, 64, {6, 12, 24, 16}},
    {"densenet161", 48, 96, {6, 12, 36, 24}},
    {"densenet169", 32, 64, {6, 12, 32, 32}},
    {"densenet201", 32, 64, {6, 12, 48, 32}},
}};

LayerId dense_block(NetworkBuilder& b, LayerId x, int number, int layers, std::int64_t growth) {
  std::vector<LayerId> features = {x};
  for (int layer = 1; layer <= layers; ++layer) {
    b.enter(fmt::format("features.denseblock{}.denselayer{}", number, layer));
    LayerId y = b.relu(b.batch_norm(b.concat(features), "norm1"));
    y = b.relu(b.batch_norm(b.conv(y, "conv1", 4 * growth, {}), "norm2"));
    features.push_back(b.conv(y, "conv2", growth, {3, 1, 1}));
  }
  return b.concat(features);
}

void build_densenet(NetworkBuilder& b, std::size_t row) {
  const DenseNetSpec& spec = densenets[row];
  LayerId x = b.images();
  b.enter("features");
  x = b.max_pool(b.relu(b.batch_norm(b.conv(x, "conv0", spec.stem, {7, 2, 3}), "norm0")), {3, 2, 1});
  for (int block = 0; block < 4; ++block) {
    x = dense_block(b, x, block + 1, spec.blocks[static_cast<std::size_t>(block)], spec.growth);
    if (block == 3) break;
    b.enter(fmt::format("features.transition{}", block + 1));
    x = b.relu(b.batch_norm(x, "norm"));
    x = b.pool(LayerKind::avg_pool, b.conv(x, "conv", b.channels(x) / 2, {}), {2, 2});
  }
  b.enter("");
  x = b.relu(b.batch_norm(x, "features.norm5"));
  b.linear(b.flatten(b.global_avg_pool(x)), "classifier", b.classes());
}

struct ShuffleNetSpec {
  std::string_view name;
  std::array<std::int64_t, 3> stages;
  std::int64_t last;
};

constexpr std::array<ShuffleNetSpec, 4> shufflenets = {{
    {"shufflenet_v2_x0_5", {48, 96, 192}, 1024},
    {"shufflenet_v2_x1_0", {116, 232, 464}, 1024},
    {"shufflenet_v2_x1_5", {176, 352, 704}, 1024},
    {"shufflenet_v2_x2_0", {244, 488, 976}, 2048},
}};
constexpr std::array<int, 3> shufflenet_repeats = {4, 8, 4};

LayerId shuffle_unit(NetworkBuilder& b, LayerId x, std::int64_t channels, std::int64_t stride) {
  const std::int64_t half = channels / 2;
  LayerId kept = x;
  LayerId y = x;
  if (stride > 1) {
    kept = b.batch_norm(b.conv(x, "branch1.0", b.channels(x), {3, stride, 1, b.channels(x)}), "branch1.1");
    kept = b.relu(b.batch_norm(b.conv(kept, "branch1.2", half, {}), "branch1.3"));
  } else {
    kept = b.chunk(x, 2);
    y = kept + 1;
  }
  y = b.relu(b.batch_norm(b.conv(y, "branch2.0", half, {}), "branch2.1"));
  y = b.batch_norm(b.conv(y, "branch2.3", half, {3, stride, 1, half}), "branch2.4");
  y = b.relu(b.batch_norm(b.conv(y, "branch2.5", half, {}), "branch2.6"));
  return b.channel_shuffle(b.concat(std::array{kept, y}), 2);
}

void build_shufflenet(NetworkBuilder& b, std::size_t row) {
  const ShuffleNetSpec& spec = shufflenets[row];
  LayerId x = b.relu(b.batch_norm(b.conv(b.images(), "conv1.0", 24, {3, 2, 1}), "conv1.1"));
  x = b.max_pool(x, {3, 2, 1});
  for (std::size_t stage = 0; stage < spec.stages.size(); ++stage) {
    for (int unit = 0; unit < shufflenet_repeats[stage]; ++unit) {
      b.enter(fmt::format("stage{}.{}", stage + 2, unit));
      x = shuffle_unit(b, x, spec.stages[stage], unit == 0 ? 2 : 1);
    }
  }
  b.enter("");
  x = b.relu(b.batch_norm(b.conv(x, "conv5.0", spec.last, {}), "conv5.1"));
  b.linear(b.flatten(b.global_avg_pool(x)), "fc", b.classes());
}

}  // namespace

void add_branching_networks(std::vector<ZooEntry>& zoo) {
  zoo.push_back({"googlenet", build_googlenet});
  zoo.push_back({"inception_v3", build_inception_v3, 0, 299});
  for (std::size_t row = 0; row < densenets.size(); ++row) zoo.push_back({densenets[row].name, build_densenet, row});
  for (std::size_t row = 0; row < shufflenets.size(); ++row) {
    zoo.push_back({shufflenets[row].name, build_shufflenet, row});
  }
}

}  // namespace perfpred
