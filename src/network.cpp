#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "parse.h"
#include "zoo.h"

namespace perfpred {
namespace {

// In the order of LayerKind.
constexpr std::array<std::string_view, 41> kind_names = {
    "input",       "conv2d",       "batch_norm",      "layer_norm",     "linear",
    "embedding",   "position_ids", "type_ids",        "relu",           "relu6",
    "hardswish",   "hardsigmoid",  "silu",            "sigmoid",        "tanh",
    "gelu",        "gelu_tanh",    "max_pool",        "avg_pool",       "adaptive_avg_pool",
    "global_avg_pool", "add",      "mul",             "scale",          "dropout",
    "stochastic_depth", "layer_scale", "concat",      "chunk",          "channel_shuffle",
    "flatten",     "to_nhwc",      "to_nchw",         "to_tokens",      "class_token",
    "first_token", "position_embedding", "split_heads", "merge_heads",  "matmul",
    "matmul_transposed"};
static_assert(kind_names.size() == static_cast<std::size_t>(LayerKind::causal_mask));

}  // namespace

std::string_view to_string(LayerKind kind) {
  if (kind == LayerKind::causal_mask) return "causal_mask";
  if (kind == LayerKind::softmax) return "softmax";
  return kind_names.at(static_cast<std::size_t>(kind));
}

LayerParameters Network::parameters(const Layer& layer) {
  LayerParameters parameters;
  const auto add = [&](const Shape& shape) { parameters.shapes[parameters.count++] = shape; };
  switch (layer.kind) {
    case LayerKind::conv2d:
      add({layer.out_channels, layer.in_channels / layer.groups, layer.kernel[0], layer.kernel[1]});
      if (layer.bias) add({layer.out_channels});
      break;
    case LayerKind::linear:
      if (layer.tied_to < 0) add({layer.out_channels, layer.in_channels});
      if (layer.bias) add({layer.out_channels});
      break;
    case LayerKind::batch_norm:
    case LayerKind::layer_norm:
      add({layer.out_channels});
      add({layer.out_channels});
      break;
    case LayerKind::embedding: add({layer.in_channels, layer.out_channels}); break;
    case LayerKind::layer_scale: add({layer.out_channels, 1, 1}); break;
    case LayerKind::class_token: add({1, 1, layer.out_channels}); break;
    case LayerKind::position_embedding: add({1, layer.in_channels, layer.out_channels}); break;
    default: break;
  }
  return parameters;
}

std::int64_t Network::params() const {
  std::int64_t total = 0;
  for (const Layer& layer : layers) {
    const LayerParameters own = parameters(layer);
    for (std::size_t i = 0; i < own.count; ++i) total += own.shapes[i].numel();
  }
  return total;
}

std::int64_t Network::params(LayerKind kind) const {
  std::int64_t total = 0;
  for (const Layer& layer : layers) {
    if (layer.kind != kind) continue;
    const LayerParameters own = parameters(layer);
    for (std::size_t i = 0; i < own.count; ++i) total += own.shapes[i].numel();
  }
  return total;
}

Network build_network(const Workload& workload) {
  Network network;
  network.name = workload.network;
  std::transform(network.name.begin(), network.name.end(), network.name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  network.classes = workload.classes;
  network.layers.reserve(256);
  network.edges.reserve(256);
  NetworkBuilder builder(network, workload);
  const bool known = build_cifar_cnn(builder, workload) || build_resnet(builder, network.name);
  if (!known) throw InputError(fmt::format("network \"{}\" is not known", shown(workload.network)));
  return network;
}

}  // namespace perfpred
