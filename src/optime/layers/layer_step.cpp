// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_step.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <algorithm>
#include <utility>

#include "network/network_builder.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

constexpr std::string_view source_name = "source";

/// What a layer of a network is measured as, and back.
constexpr std::array<std::pair<LayerKind, std::string_view>, 7> functions = {{{LayerKind::relu, "relu"},
                                                                              {LayerKind::relu6, "relu6"},
                                                                              {LayerKind::hardswish, "hardswish"},
                                                                              {LayerKind::silu, "silu"},
                                                                              {LayerKind::sigmoid, "sigmoid"},
                                                                              {LayerKind::tanh, "tanh"},
                                                                              {LayerKind::gelu, "gelu"}}};

LayerKind function_named(std::string_view name) {
  return std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.second == name; })->first;
}

bool is_image(LayerType type) {
  return type == LayerType::conv2d || type == LayerType::batchnorm || type == LayerType::pooling;
}

/// An input, and behind it the layer that gives it a gradient.
LayerId add_input(NetworkBuilder& b, Network& network, const Shape& shape, bool source) {
  Layer& input = network.layers.emplace_back();
  input.name = "input";
  input.output = shape;
  const auto id = static_cast<LayerId>(network.layers.size()) - 1;
  if (!source) return id;
  return shape.rank() == 4 ? b.layer_scale(id, source_name) : b.position_embedding(id, source_name);
}

/// Queries, keys and values by one product, or by three where there are fewer heads of keys.
LayerId add_attention(NetworkBuilder& b, LayerId x, const LayerCase& layer) {
  LayerId q = 0, k = 0, v = 0;
  if (layer.num_kv_heads == 0) {
    q = b.chunk(b.linear(x, "in_proj", 3 * layer.in), 3);
    k = q + 1;
    v = q + 2;
  } else {
    const std::int64_t width = layer.in / layer.num_heads * layer.num_kv_heads;
    q = b.linear(x, "q_proj", layer.in);
    k = b.linear(x, "k_proj", width);
    v = b.linear(x, "v_proj", width);
  }
  return b.linear(b.attention(q, k, v, {layer.num_heads, false, 0, layer.num_kv_heads}), "out_proj", layer.in);
}

constexpr std::array<std::pair<RnnCell, std::string_view>, 3> cells = {
    {{RnnCell::lstm, "lstm"}, {RnnCell::gru, "gru"}, {RnnCell::tanh, "rnn"}}};

LayerCase case_of(LayerType type, std::string_view variant, const Shape& in) {
  LayerCase layer;
  layer.type = type;
  layer.variant = variant;
  layer.batch_size = in[0];
  if (is_image(type)) {
    layer.in = in[1];
    layer.image_size = in[2];
  } else {
    layer.in = in.back();
    layer.seq_len = in.numel() / (in[0] * in.back());
  }
  return layer;
}

/// Whether a window is one that a LayerCase can have.
bool is_square(const Layer& layer, const Shape& in) {
  const auto equal = [](const std::array<std::int64_t, 2>& sizes) { return sizes[0] == sizes[1]; };
  return in.rank() == 4 && in[2] == in[3] && equal(layer.kernel) && equal(layer.stride) && equal(layer.padding) &&
         !layer.ceil_mode;
}

std::optional<LayerCase> measurable(const Layer& layer, const Shape& in) {
  LayerCase found;
  switch (layer.kind) {
    case LayerKind::conv2d:
    case LayerKind::max_pool:
    case LayerKind::avg_pool:
      if (!is_square(layer, in)) return std::nullopt;
      found = layer.kind == LayerKind::conv2d
                  ? case_of(LayerType::conv2d, {}, in)
                  : case_of(LayerType::pooling, layer.kind == LayerKind::max_pool ? "max" : "avg", in);
      found.kernel_size = layer.kernel[0];
      found.stride = layer.stride[0];
      found.padding = layer.padding[0];
      if (found.padding != 0 && 2 * found.padding == found.kernel_size - 1) found.padding = same_padding;
      if (layer.kind == LayerKind::conv2d) {
        found.out = layer.out_channels;
        found.groups = layer.groups;
        found.bias = layer.bias;
      }
      return found;
    case LayerKind::linear:
      found = case_of(LayerType::linear, {}, in);
      found.out = layer.out_channels;
      found.bias = layer.bias;
      return found;
    case LayerKind::batch_norm:
      if (in.rank() != 4 || in[2] != in[3]) return std::nullopt;
      return case_of(LayerType::batchnorm, {}, in);
    case LayerKind::layer_norm:
      return case_of(LayerType::layernorm, {}, in);
    case LayerKind::rms_norm:
      return case_of(LayerType::rmsnorm, {}, in);
    case LayerKind::rnn: {
      const auto* cell = std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.first == layer.cell; });
      if (cell == cells.end()) return std::nullopt;
      found = case_of(LayerType::rnn, cell->second, in);
      found.out = layer.out_channels;
      found.num_layers = layer.count;
      found.bidirectional = layer.groups == 2;
      return found;
    }
    case LayerKind::softmax:
      return case_of(LayerType::softmax, {}, in);
    case LayerKind::add:
      return case_of(LayerType::elementwise, "add", in);
    case LayerKind::dropout:
      if (in.rank() < 2) return std::nullopt;
      return case_of(LayerType::elementwise, "dropout", in);
    case LayerKind::position_embedding:
      return case_of(LayerType::positional_encoding, "learned", in);
    case LayerKind::attention:
      found = case_of(LayerType::attention, "sdpa", in);
      found.num_heads = layer.groups;
      if (layer.count != layer.groups) found.num_kv_heads = layer.count;
      return found;
    case LayerKind::embedding:
      if (in.rank() != 2) return std::nullopt;
      found = case_of(LayerType::embedding, {}, in);
      found.seq_len = in[1];
      found.in = layer.in_channels;
      found.out = layer.out_channels;
      return found;
    default:
      break;
  }
  const auto* function =
      std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.first == layer.kind; });
  if (function == functions.end() || in.rank() < 2) return std::nullopt;
  return case_of(LayerType::elementwise, function->second, in);
}

}  // namespace

Network network_of(const LayerCase& layer, bool source) {
  check_layer(layer);
  Network network;
  network.name = to_string(layer.type);
  const bool uneven = pads_unevenly(layer);
  const std::int64_t pixels = layer.image_size + (uneven ? padded_pixels(layer) : 0);
  const std::int64_t padding = uneven ? 0 : padded_pixels(layer) / 2;
  NetworkBuilder b(network, layer.batch_size, {}, layer.variant == "eager" ? Attention::eager : Attention::sdpa);
  if (layer.type == LayerType::embedding) {
    network.tokens = true;
    b.embedding(add_input(b, network, {layer.batch_size, layer.seq_len}, false), "layer", layer.in, layer.out);
    return network;
  }
  const bool gradient = source && layer.input_gradient;
  const Shape shape = is_image(layer.type) ? Shape{layer.batch_size, layer.in, pixels, pixels}
                                           : Shape{layer.batch_size, layer.seq_len, layer.in};
  static_cast<void>(shape.numel());
  LayerId x = add_input(b, network, shape, gradient);
  switch (layer.type) {
    case LayerType::conv2d:
      x = b.conv(x, "layer", layer.out, {layer.kernel_size, layer.stride, padding, layer.groups}, layer.bias);
      break;
    case LayerType::linear:
      x = b.linear(x, "layer", layer.out, layer.bias);
      break;
    case LayerType::rnn: {
      const auto* cell =
          std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.second == layer.variant; });
      x = b.rnn(x, "layer", {cell->first, layer.num_layers, layer.out, layer.bidirectional, 0});
      break;
    }
    case LayerType::attention:
      x = add_attention(b, x, layer);
      break;
    case LayerType::layernorm:
      x = b.layer_norm(x, "layer", 1e-5);
      break;
    case LayerType::rmsnorm:
      x = b.rms_norm(x, "layer", 1e-5);
      break;
    case LayerType::positional_encoding:
      x = layer.variant == "learned" ? b.position_embedding(x, "layer")
                                     : b.add(x, add_input(b, network, {layer.seq_len, layer.in}, false));
      break;
    case LayerType::batchnorm:
      x = b.batch_norm(x, "layer");
      break;
    case LayerType::pooling:
      if (2 * padding > layer.kernel_size) throw InputError("layer pooling: padding is more than half the kernel");
      x = b.pool(layer.variant == "max" ? LayerKind::max_pool : LayerKind::avg_pool, x,
                 {layer.kernel_size, layer.stride, padding});
      break;
    case LayerType::elementwise:
      x = layer.variant == "add"       ? b.add(x, add_input(b, network, shape, gradient))
          : layer.variant == "dropout" ? b.with_value(LayerKind::dropout, x, 0.1)
                                       : b.activation(function_named(layer.variant), x);
      break;
    default:
      x = b.view(LayerKind::softmax, x);
      break;
  }
  if (layer.activation != "none") b.activation(function_named(layer.activation), x);
  return network;
}

LayerStep layer_step(const LayerCase& layer, DeviceKind device) {
  LayerStep step{execute(training_step(network_of(layer, true), layer.optimizer, layer.precision), device), {}};
  const OpGraph& graph = step.executed.graph();
  for (const Op& op : graph.ops()) {
    const bool update = op.phase == Phase::optimizer;
    const bool own = op.layer >= 0 && graph.layer_name(op) != source_name;
    // Without a backward the update is not measured either.
    step.own.push_back((own && (layer.backward || op.phase == Phase::forward)) || (update && layer.backward));
  }
  return step;
}

double layer_bytes(const LayerCase& layer) {
  const double element = layer.precision == Precision::fp64 ? 8 : 4;
  const Network network = network_of(layer);
  double values = 0, learned = 0;
  for (const Layer& part : network.layers) {
    const double gates_of_rnn = part.kind == LayerKind::rnn ? part.count * static_cast<double>(gates(part.cell)) : 0;
    double numel = 1 + gates_of_rnn;  // gates are kept for the backward
    for (const std::int64_t size : part.output) numel *= static_cast<double>(size);
    values += numel;
    const LayerParameters own = Network::parameters(part);
    for (std::size_t i = 0; i < own.count; ++i) learned += static_cast<double>(own[i].numel());
  }
  return element * (2 * values + 4 * learned);  // with gradients, and two moments of the optimizer
}

std::vector<LayerCase> layers_of(const Network& network) {
  std::vector<LayerCase> layers;
  std::vector<bool> learned(network.layers.size(), false);  // behind a layer with parameters: its input has a gradient
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    learned[i] = Network::parameters(layer).count > 0;
    if (network.inputs(layer).empty()) continue;
    const auto first = static_cast<std::size_t>(network.inputs(layer)[0]);
    if (auto found = measurable(layer, network.layers[first].output)) {
      found->input_gradient = learned[first];
      layers.push_back(*std::move(found));
    }
    for (const std::int32_t input : network.inputs(layer))
      learned[i] = learned[i] || learned[static_cast<std::size_t>(input)];
  }
  return layers;
}

}  // namespace perfpred
