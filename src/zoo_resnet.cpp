// The CIFAR-10 CNN family; ResNet, ResNeXt and Wide ResNet as in torchvision, and ResNet with a stem for 32x32 images.
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "zoo.h"

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

constexpr std::array<ResNetSpec, 12> resnets = {{
    {"resnet18", {2, 2, 2, 2}, false, 1, 64, false},
    {"resnet34", {3, 4, 6, 3}, false, 1, 64, false},
    {"resnet50", {3, 4, 6, 3}, true, 1, 64, false},
    {"resnet101", {3, 4, 23, 3}, true, 1, 64, false},
    {"resnet152", {3, 8, 36, 3}, true, 1, 64, false},
    {"resnext50_32x4d", {3, 4, 6, 3}, true, 32, 4, false},
    {"resnext101_32x8d", {3, 4, 23, 3}, true, 32, 8, false},
    {"resnext101_64x4d", {3, 4, 23, 3}, true, 64, 4, false},
    {"wide_resnet50_2", {3, 4, 6, 3}, true, 1, 128, false},
    {"wide_resnet101_2", {3, 4, 23, 3}, true, 1, 128, false},
    {"cifar_resnet18", {2, 2, 2, 2}, false, 1, 64, true},
    {"cifar_resnet34", {3, 4, 6, 3}, false, 1, 64, true},
}};

LayerId residual_block(NetworkBuilder& b, LayerId x, const ResNetSpec& spec, std::int64_t planes,
                       std::int64_t stride) {
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

}  // namespace

bool build_resnet(NetworkBuilder& b, std::string_view name) {
  const auto spec =
      std::find_if(resnets.begin(), resnets.end(), [&](const ResNetSpec& row) { return row.name == name; });
  if (spec == resnets.end()) return false;
  const Window stem = spec->cifar_stem ? Window{3, 1, 1} : Window{7, 2, 3};
  LayerId x = b.relu(b.batch_norm(b.conv(b.images(), "conv1", 64, stem), "bn1"));
  if (!spec->cifar_stem) x = b.max_pool(x, {3, 2, 1});
  std::array<char, 16> prefix = {"layer1."};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    prefix[5] = static_cast<char>('1' + stage);
    for (int block = 0; block < spec->blocks[stage]; ++block) {
      const auto end = fmt::format_to(prefix.data() + 7, "{}", block);
      b.enter({prefix.data(), static_cast<std::size_t>(end - prefix.data())});
      x = residual_block(b, x, *spec, std::int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  b.enter("");
  b.linear(b.flatten(b.global_avg_pool(x)), "fc", b.classes());
  return true;
}

bool build_cifar_cnn(NetworkBuilder& b, const Workload& workload) {
  if (workload.network != "cifar_cnn") return false;
  LayerId x = b.images();
  for (int block = 0; block < *workload.depth; ++block) {
    b.enter(fmt::format("block{}", block));
    const std::int64_t filters = static_cast<std::int64_t>(*workload.base_filters) << block;
    x = b.relu(b.conv(x, "conv1", filters, {3, 1, 1}, true));
    x = b.relu(b.conv(x, "conv2", filters, {3, 1, 1}, true));
    x = b.max_pool(x, {2, 2});
  }
  b.enter("");
  x = b.activation(LayerKind::relu, b.linear(b.flatten(x), "dense1", 128), true);
  b.linear(x, "dense2", b.classes());
  return true;
}

}  // namespace perfpred
