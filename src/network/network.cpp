// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/nearest_name.h"
#include "text/parse.h"
#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

// In the order of LayerKind.
constexpr std::array<std::string_view, 41> kind_names = {"input",
                                                         "conv2d",
                                                         "batch_norm",
                                                         "layer_norm",
                                                         "linear",
                                                         "embedding",
                                                         "position_ids",
                                                         "type_ids",
                                                         "relu",
                                                         "relu6",
                                                         "hardswish",
                                                         "hardsigmoid",
                                                         "silu",
                                                         "sigmoid",
                                                         "tanh",
                                                         "gelu",
                                                         "gelu_tanh",
                                                         "max_pool",
                                                         "avg_pool",
                                                         "adaptive_avg_pool",
                                                         "global_avg_pool",
                                                         "add",
                                                         "mul",
                                                         "scale",
                                                         "dropout",
                                                         "stochastic_depth",
                                                         "layer_scale",
                                                         "concat",
                                                         "chunk",
                                                         "channel_shuffle",
                                                         "flatten",
                                                         "to_nhwc",
                                                         "to_nchw",
                                                         "to_tokens",
                                                         "class_token",
                                                         "first_token",
                                                         "position_embedding",
                                                         "split_heads",
                                                         "merge_heads",
                                                         "matmul",
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
    case LayerKind::embedding:
      add({layer.in_channels, layer.out_channels});
      break;
    case LayerKind::layer_scale:
      add({layer.out_channels, 1, 1});
      break;
    case LayerKind::class_token:
      add({1, 1, layer.out_channels});
      break;
    case LayerKind::position_embedding:
      add({1, layer.in_channels, layer.out_channels});
      break;
    default:
      break;
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

namespace {

/// Sorted by name.
const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries = [] {
    std::vector<ZooEntry> all;
    add_resnets(all);
    add_plain_networks(all);
    add_branching_networks(all);
    add_mobile_networks(all);
    add_vision_transformers(all);
    add_language_models(all);
    std::sort(all.begin(), all.end(), [](const ZooEntry& a, const ZooEntry& b) { return a.name < b.name; });
    return all;
  }();
  return entries;
}

bool is_transformer(std::string_view name) { return name.substr(0, 12) == "transformer:"; }

/// @throws InputError if there is none of this (lower-case) name
const ZooEntry& zoo_entry(const std::string& name) {
  const auto found = std::lower_bound(zoo().begin(), zoo().end(), name,
                                      [](const ZooEntry& entry, const std::string& key) { return entry.name < key; });
  if (found != zoo().end() && found->name == name) return *found;
  if (name == "cifar_cnn") {
    throw InputError("network cifar_cnn is a family: without depth and base_filters it is no network");
  }
  NearestName nearest(name);
  for (const ZooEntry& entry : zoo()) nearest.offer(entry.name, entry.name);
  nearest.offer("cifar_cnn", "cifar_cnn");
  throw InputError(fmt::format("network \"{}\" is not known{}", shown(name),
                               nearest.found() ? fmt::format("; did you mean {}?", *nearest.found()) : ""));
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

}  // namespace

std::span<const std::string_view> zoo_networks() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const ZooEntry& entry : zoo()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

Network build_network(const Workload& workload) {
  workload.validate();
  Network network;
  network.name = lower_case(workload.network);
  network.classes = workload.classes;
  network.layers.reserve(256);
  network.edges.reserve(256);
  NetworkBuilder builder(network, workload);
  if (network.name == "cifar_cnn") {
    build_cifar_cnn(builder, *workload.depth, *workload.base_filters);
  } else if (is_transformer(network.name)) {
    build_transformer(builder, parse_transformer(network.name));
  } else {
    const ZooEntry& entry = zoo_entry(network.name);
    entry.build(builder, entry.row);
  }
  return network;
}

Workload Workload::zoo(std::string_view name, std::int64_t batch, std::vector<std::int64_t> input) {
  Workload workload;
  workload.network = lower_case(name);
  workload.batch_size = batch;
  if (is_transformer(workload.network)) {
    workload.input = {512};
    workload.classes = parse_transformer(workload.network).words;
  } else {
    const ZooEntry& entry = zoo_entry(workload.network);
    workload.input =
        entry.tokens ? std::vector<std::int64_t>{entry.size} : std::vector<std::int64_t>{3, entry.size, entry.size};
    workload.classes = entry.classes;
  }
  if (!input.empty()) workload.input = std::move(input);
  workload.validate();
  return workload;
}

}  // namespace perfpred
