// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_step.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <utility>

#include "network/network_builder.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

constexpr std::string_view source_name = "source";

/// The kind that a network's layers have which are measured as this type and variant.
struct Counterpart {
  LayerType type;
  LayerKind kind;
  std::string_view variant = {};
  RnnCell cell = RnnCell::lstm;
};
constexpr auto counterparts = std::to_array<Counterpart>({
    {LayerType::conv2d, LayerKind::conv2d},
    {LayerType::linear, LayerKind::linear},
    {LayerType::rnn, LayerKind::rnn, "lstm", RnnCell::lstm},
    {LayerType::rnn, LayerKind::rnn, "gru", RnnCell::gru},
    {LayerType::rnn, LayerKind::rnn, "rnn", RnnCell::tanh},
    {LayerType::attention, LayerKind::attention, "sdpa"},
    {LayerType::embedding, LayerKind::embedding},
    {LayerType::layernorm, LayerKind::layer_norm},
    {LayerType::rmsnorm, LayerKind::rms_norm},
    {LayerType::positional_encoding, LayerKind::position_embedding, "learned"},
    {LayerType::batchnorm, LayerKind::batch_norm},
    {LayerType::pooling, LayerKind::max_pool, "max"},
    {LayerType::pooling, LayerKind::avg_pool, "avg"},
    {LayerType::elementwise, LayerKind::add, "add"},
    {LayerType::elementwise, LayerKind::dropout, "dropout"},
    {LayerType::elementwise, LayerKind::relu, "relu"},
    {LayerType::elementwise, LayerKind::relu6, "relu6"},
    {LayerType::elementwise, LayerKind::hardswish, "hardswish"},
    {LayerType::elementwise, LayerKind::silu, "silu"},
    {LayerType::elementwise, LayerKind::sigmoid, "sigmoid"},
    {LayerType::elementwise, LayerKind::tanh, "tanh"},
    {LayerType::elementwise, LayerKind::gelu, "gelu"},
    {LayerType::softmax, LayerKind::softmax},
});

/// Null for variants that no layer of a network is measured as.
const Counterpart* counterpart(LayerType type, std::string_view variant) {
  const auto* const found = std::ranges::find_if(
      counterparts, [&](const Counterpart& row) { return row.type == type && row.variant == variant; });
  return found == counterparts.end() ? nullptr : found;
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
  const auto* const row = std::ranges::find_if(
      counterparts, [&](const Counterpart& r) { return r.kind == layer.kind && r.cell == layer.cell; });
  if (row == counterparts.end()) return std::nullopt;
  if (is_image(row->type) ? !is_square(layer, in) : in.rank() < 2) return std::nullopt;
  LayerCase found = case_of(row->type, row->variant, in);
  const LayerForm& form = form_of(row->type);
  const auto has = [&](std::int64_t LayerCase::*size) {
    return std::ranges::find(form.sizes, size, &LayerSize::member) != form.sizes.end();
  };
  if (has(&LayerCase::kernel_size)) {
    found.kernel_size = layer.kernel[0];
    found.stride = layer.stride[0];
    found.padding = layer.padding[0];
    if (found.padding != 0 && 2 * found.padding == found.kernel_size - 1) found.padding = same_padding;
  }
  if (has(&LayerCase::out)) found.out = layer.out_channels;
  if (has(&LayerCase::groups)) found.groups = layer.groups;
  if (form.weighted) found.bias = layer.bias;
  if (has(&LayerCase::num_layers)) {
    found.num_layers = layer.count;
    found.bidirectional = layer.groups == 2;
  }
  if (has(&LayerCase::num_heads)) {
    found.num_heads = layer.groups;
    if (layer.count != layer.groups) found.num_kv_heads = layer.count;
  }
  if (layer.kind == LayerKind::embedding) {  // its input is token numbers
    found.seq_len = found.in;
    found.in = layer.in_channels;
  }
  return found;
}

/// Adds the layer behind x. @param padding  on each side @param gradient  of a second input
LayerId add_layer(NetworkBuilder& b, Network& network, LayerId x, const LayerCase& layer, std::int64_t padding,
                  bool gradient) {
  const Counterpart* const same = counterpart(layer.type, layer.variant);
  switch (layer.type) {
    case LayerType::conv2d:
      return b.conv(x, "layer", layer.out, {layer.kernel_size, layer.stride, padding, layer.groups}, layer.bias);
    case LayerType::linear:
      return b.linear(x, "layer", layer.out, layer.bias);
    case LayerType::rnn:
      return b.rnn(x, "layer", {same->cell, layer.num_layers, layer.out, layer.bidirectional, 0});
    case LayerType::attention:
      return add_attention(b, x, layer);
    case LayerType::embedding:
      return b.embedding(x, "layer", layer.in, layer.out);
    case LayerType::layernorm:
      return b.layer_norm(x, "layer", 1e-5);
    case LayerType::rmsnorm:
      return b.rms_norm(x, "layer", 1e-5);
    case LayerType::positional_encoding:
      if (layer.variant == "learned") return b.position_embedding(x, "layer");
      return b.add(x, add_input(b, network, {layer.seq_len, layer.in}, false));
    case LayerType::batchnorm:
      return b.batch_norm(x, "layer");
    case LayerType::pooling:
      return b.pool(same->kind, x, {layer.kernel_size, layer.stride, padding});
    case LayerType::elementwise:
      if (same->kind == LayerKind::dropout) return b.with_value(same->kind, x, 0.1);
      if (same->kind != LayerKind::add) return b.activation(same->kind, x);
      return b.add(x, add_input(b, network, b.shape(x), gradient));
    default:  // softmax
      return b.view(same->kind, x);
  }
}

/// Adds a graph's tensors, and its operators of the update.
void append_update(OpGraph& to, const OpGraph& from) {
  const auto before = static_cast<TensorId>(to.tensors().size());
  const auto layers_before = static_cast<std::int32_t>(to.layer_names().size());
  const auto names_before = static_cast<std::int32_t>(to.op_names().size());
  for (TensorId id = 0; id < from.tensors().size(); ++id) {
    const Tensor& tensor = from.tensors()[id];
    const TensorId added = tensor.storage == id ? to.add_tensor(from.shape(id), tensor.type, tensor.role)
                                                : to.add_view(before + tensor.storage, from.shape(id), tensor.type);
    to.set_role(added, tensor.role);
  }
  for (const std::string& name : from.layer_names()) to.add_layer(name);
  for (const std::string& name : from.op_names()) to.add_op_name(name);
  for (const Op& op : from.ops()) {
    if (op.phase != Phase::optimizer) continue;
    Op& added = to.add_copy(from, op, before);
    if (added.layer >= 0) added.layer += layers_before;
    if (added.name >= 0) added.name += names_before;
  }
}

}  // namespace

Network network_of(const LayerCase& layer, bool source) {
  check_layer(layer);
  Network network;
  network.name = to_string(layer.type);
  network.tokens = layer.type == LayerType::embedding;
  const bool uneven = pads_unevenly(layer);
  const std::int64_t pixels = layer.image_size + (uneven ? padded_pixels(layer) : 0);
  const std::int64_t padding = uneven ? 0 : padded_pixels(layer) / 2;
  const Shape shape = network.tokens         ? Shape{layer.batch_size, layer.seq_len}
                      : is_image(layer.type) ? Shape{layer.batch_size, layer.in, pixels, pixels}
                                             : Shape{layer.batch_size, layer.seq_len, layer.in};
  if (layer.type == LayerType::pooling && 2 * padding > layer.kernel_size) {
    throw InputError("layer pooling: padding is more than half the kernel");
  }
  static_cast<void>(shape.numel());  // throws if it is too large
  const bool gradient = source && layer.input_gradient && !network.tokens;
  NetworkBuilder b(network, layer.batch_size, {}, layer.variant == "eager" ? Attention::eager : Attention::sdpa);
  const LayerId x = add_layer(b, network, add_input(b, network, shape, gradient), layer, padding, gradient);
  if (layer.activation != "none") b.activation(counterpart(LayerType::elementwise, layer.activation)->kind, x);
  return network;
}

LayerStep layer_step(const LayerCase& layer, DeviceKind device) {
  const StepStyle style = {layer.optimizer, layer.precision};
  const OpGraph with_source = training_step(network_of(layer, true), style);
  OpGraph whole = with_source.without_ops();
  for (const Op& op : with_source.ops()) {
    if (op.phase != Phase::optimizer) whole.add_copy(with_source, op);
  }
  // The source learns, too; an update holds the layer's own parameters alone.
  const Network alone = network_of(layer);
  if (alone.params() > 0) append_update(whole, training_step(alone, style));
  LayerStep step{execute(std::move(whole), device), {}};
  const OpGraph& graph = step.executed.graph();
  for (const Op& op : graph.ops()) {
    const bool update = op.phase == Phase::optimizer;
    const bool own = op.layer >= 0 && graph.layer_name(op) != source_name;
    // Without a backward the update is not measured either.
    step.own.push_back((own && (layer.backward || op.phase == Phase::forward)) || (update && layer.backward));
  }
  return step;
}

LayerWork layer_work(const LayerCase& layer, DeviceKind device) {
  const LayerStep step = layer_step(layer, device);
  const OpGraph& graph = step.executed.graph();
  LayerWork work;
  work.params = network_of(layer).params();
  for (std::size_t i = 0; i < step.own.size(); ++i) {
    if (!step.own[i]) continue;
    const Op& op = graph.ops()[i];
    work.totals += op;
    work.phases[op.phase] += op;
    work.kinds[std::string(graph.name(op))] += op;
  }
  return work;
}

std::vector<StepKernel> own_kernels(const LayerStep& layer) {
  std::vector<StepKernel> kernels = step_kernels(layer.executed);
  std::erase_if(kernels, [&](const StepKernel& kernel) { return !layer.own[kernel.op]; });
  return kernels;
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
