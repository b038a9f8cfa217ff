// SPDX-License-Identifier: Apache-2.0
#include "network/network_builder.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace perfpred {

std::int64_t multiple_of(double width, std::int64_t divisor) {
  const auto half = static_cast<double>(divisor) / 2;
  const std::int64_t rounded = std::max(divisor, static_cast<std::int64_t>(width + half) / divisor * divisor);
  return static_cast<double>(rounded) < 0.9 * width ? rounded + divisor : rounded;
}

NetworkBuilder::NetworkBuilder(Network& network, std::int64_t batch_size, const Shape& input, Attention attention,
                               Adapter adapter)
    : network_(network), batch_size_(batch_size), input_(input), attention_(attention), adapter_(std::move(adapter)) {}

void NetworkBuilder::enter(std::string_view prefix) {
  prefix_ = prefix;
  if (!prefix_.empty()) prefix_ += '.';
}

Layer& NetworkBuilder::add_layer(LayerKind kind, std::string_view name, std::initializer_list<LayerId> inputs) {
  append({.kind = kind}, name, inputs);
  return network_.layers.back();
}

LayerId NetworkBuilder::append(Layer layer, std::string_view name, std::initializer_list<LayerId> inputs) {
  layer.name.reserve(prefix_.size() + name.size());
  layer.name = prefix_;
  layer.name += name;
  layer.first_input = static_cast<std::uint32_t>(network_.edges.size());
  layer.input_count = static_cast<std::uint32_t>(inputs.size());
  layer.frozen = adapter_.kind != AdapterKind::none;
  if (layer.output.rank() == 0 && inputs.size() > 0) layer.output = shape(*inputs.begin());
  network_.edges.insert(network_.edges.end(), inputs.begin(), inputs.end());
  network_.layers.push_back(std::move(layer));
  return last();
}

std::int64_t NetworkBuilder::windows(std::int64_t size, const Window& window, bool ceil_mode,
                                     const Layer& layer) const {
  const std::int64_t reach = size + 2 * window.padding - window.kernel;
  if (reach < 0) {
    throw InputError(fmt::format("input {} is too small for {}: layer {} would see {} of the {} values of its window",
                                 input_.text(), network_.name, layer.name, size, window.kernel));
  }
  std::int64_t count = reach / window.stride + 1;
  if (ceil_mode && reach % window.stride != 0) {
    ++count;
    if ((count - 1) * window.stride >= size + window.padding) --count;  // the last window must begin inside
  }
  return count;
}

LayerId NetworkBuilder::images() {
  if (input_.rank() != 3) {
    throw InputError(
        fmt::format("input {} does not fit {}: it takes channels x height x width", input_.text(), network_.name));
  }
  const Shape batch = {batch_size_, input_[0], input_[1], input_[2]};
  static_cast<void>(batch.numel());  // refuses what is too large before sizes are added up
  return append({.kind = LayerKind::input, .output = batch}, "input", {});
}

LayerId NetworkBuilder::words() {
  if (input_.rank() != 1) {
    throw InputError(fmt::format("input {} does not fit {}: it takes a sequence length", input_.text(), network_.name));
  }
  network_.tokens = true;
  const Shape batch = {batch_size_, input_[0]};
  static_cast<void>(batch.numel());
  return append({.kind = LayerKind::input, .output = batch}, "input", {});
}

LayerId NetworkBuilder::words_of(std::int64_t vocabulary) {
  if (classes() != vocabulary) {
    throw InputError(fmt::format("classes {} do not fit {}: it has {} words", classes(), network_.name, vocabulary));
  }
  return words();
}

LayerId NetworkBuilder::conv(LayerId x, std::string_view name, std::int64_t channels, const Window& window, bool bias) {
  const Shape in = shape(x);
  Layer& layer = add_layer(LayerKind::conv2d, name, {x});
  layer.bias = bias;
  layer.in_channels = in[1];
  layer.out_channels = channels;
  layer.kernel = {window.kernel, window.kernel};
  layer.stride = {window.stride, window.stride};
  layer.padding = {window.padding, window.padding};
  layer.groups = window.groups;
  layer.output = {in[0], channels, windows(in[2], window, false, layer), windows(in[3], window, false, layer)};
  return last();
}

LayerId NetworkBuilder::same_conv(LayerId x, std::string_view name, std::int64_t channels,
                                  const std::array<std::int64_t, 2>& kernel) {
  const LayerId id = conv(x, name, channels, Window());
  Layer& layer = network_.layers.back();
  layer.kernel = kernel;
  layer.padding = {kernel[0] / 2, kernel[1] / 2};
  return id;
}

LayerId NetworkBuilder::batch_norm(LayerId x, std::string_view name, double epsilon) {
  const std::int64_t channels = shape(x)[1];
  return append({.kind = LayerKind::batch_norm, .in_channels = channels, .out_channels = channels, .value = epsilon},
                name, {x});
}

LayerId NetworkBuilder::layer_norm(LayerId x, std::string_view name, double epsilon) {
  return norm(LayerKind::layer_norm, x, name, epsilon);
}

LayerId NetworkBuilder::rms_norm(LayerId x, std::string_view name, double epsilon) {
  return norm(LayerKind::rms_norm, x, name, epsilon);
}

LayerId NetworkBuilder::linear(LayerId x, std::string_view name, std::int64_t features, bool bias, LayerId tied_to) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::linear,
                 .bias = bias,
                 .tied_to = tied_to,
                 .in_channels = in.back(),
                 .out_channels = features,
                 .output = in.with(in.rank() - 1, features)},
                name, {x});
}

LayerId NetworkBuilder::projection(LayerId x, std::string_view name, std::int64_t features, bool bias,
                                   std::uint8_t which) {
  const bool adapts = (adapter_.targets & which) != 0;
  if (adapts && adapter_.kind == AdapterKind::ia3 && (which & Projection::down) != 0) x = adapter_scale(x, name);
  const LayerId base = linear(x, name, features, bias);
  network_.layers.back().projection = true;
  if (!adapts) return base;
  if (adapter_.kind != AdapterKind::ia3) return lora(base, x, name, features);
  return (which & (Projection::key | Projection::value)) != 0 ? adapter_scale(base, name) : base;
}

LayerId NetworkBuilder::head(LayerId x, std::string_view name, std::int64_t words, bool bias, LayerId tied_to) {
  const LayerId logits = linear(x, name, words, bias, tied_to);
  network_.head = logits;
  return logits;
}

LayerId NetworkBuilder::adapter_linear(LayerId x, std::string_view name, std::string_view own, std::int64_t features,
                                       bool bias) {
  const LayerId id = linear(x, fmt::format("{}.{}", name, own), features, bias);
  network_.layers.back().frozen = false;
  network_.adapted = true;
  return id;
}

/// IA3 (Liu et al. 2022), peft's tuners/ia3/layer.py: a learned factor for each unit.
LayerId NetworkBuilder::adapter_scale(LayerId x, std::string_view name) {
  const LayerId id = unit_scale(x, fmt::format("{}.ia3_l", name));
  network_.layers.back().frozen = false;
  network_.adapted = true;
  return id;
}

/// peft's tuners/lora/layer.py without dropout: x is cast to the adapter's type, and B(A(x)) times a constant is added.
/// DoRA (tuners/lora/dora.py) multiplies both by a learned magnitude over the norm of the whole weight's rows, AdaLoRA
/// (tuners/adalora/layer.py) A by learned singular values.
LayerId NetworkBuilder::lora(LayerId base, LayerId x, std::string_view name, std::int64_t features) {
  const LayerId a = adapter_linear(view(LayerKind::to_adapter, x), name, "lora_A", adapter_.rank);
  const LayerId values = adapter_.kind == AdapterKind::adalora ? adapter_scale(a, fmt::format("{}.lora_E", name)) : a;
  const LayerId b = adapter_linear(values, name, "lora_B", features);
  const LayerId scaled = with_value(LayerKind::scale, b, 1);
  if (adapter_.kind != AdapterKind::dora) return add(base, scaled);
  const LayerId merged = add(base, scaled);
  Layer& layer = add_layer(LayerKind::weight_norm, fmt::format("{}.lora_magnitude", name), {merged});
  layer.in_channels = shape(x).back();
  layer.out_channels = features;
  layer.index = static_cast<std::int32_t>(adapter_.rank);
  layer.frozen = false;
  return last();
}

/// Houlsby et al. 2019, as the package adapters has it (`double_seq_bn`): down, ReLU, up, and the input added.
LayerId NetworkBuilder::bottleneck(LayerId x, std::string_view name) {
  if (adapter_.kind != AdapterKind::adapter) return x;
  const LayerId inner = activation(LayerKind::relu, adapter_linear(x, name, "adapter_down", adapter_.rank, true));
  return add(adapter_linear(inner, name, "adapter_up", shape(x).back(), true), x);
}

LayerId NetworkBuilder::embedding(LayerId indices, std::string_view name, std::int64_t rows, std::int64_t width) {
  const Shape in = shape(indices);
  return append({.kind = LayerKind::embedding,
                 .in_channels = rows,
                 .out_channels = width,
                 .output = in.rank() == 1 ? Shape{in[0], width} : Shape{in[0], in[1], width}},
                name, {indices});
}

LayerId NetworkBuilder::ids(LayerKind kind, LayerId words) {
  const std::int64_t length = shape(words)[1];
  return append({.kind = kind, .output = {length}}, to_string(kind), {words});
}

LayerId NetworkBuilder::activation(LayerKind kind, LayerId x, bool in_place) {
  return append({.kind = kind, .in_place = in_place}, to_string(kind), {x});
}

LayerId NetworkBuilder::pool(LayerKind kind, LayerId x, const Window& window, bool ceil_mode) {
  const Shape in = shape(x);
  Layer& layer = add_layer(kind, to_string(kind), {x});
  layer.ceil_mode = ceil_mode;
  layer.kernel = {window.kernel, window.kernel};
  layer.stride = {window.stride, window.stride};
  layer.padding = {window.padding, window.padding};
  layer.output = {in[0], in[1], windows(in[2], window, ceil_mode, layer), windows(in[3], window, ceil_mode, layer)};
  return last();
}

LayerId NetworkBuilder::adaptive_avg_pool(LayerId x, std::int64_t height, std::int64_t width) {
  const Shape in = shape(x);
  return append(
      {.kind = LayerKind::adaptive_avg_pool, .kernel = {height, width}, .output = {in[0], in[1], height, width}},
      "avgpool", {x});
}

LayerId NetworkBuilder::global_avg_pool(LayerId x) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::global_avg_pool, .output = {in[0], in[1], 1, 1}}, "avgpool", {x});
}

LayerId NetworkBuilder::add(LayerId x, LayerId y, bool in_place) {
  return append({.kind = LayerKind::add, .in_place = in_place}, "add", {x, y});
}

LayerId NetworkBuilder::mul(LayerId x, LayerId scale) { return append({.kind = LayerKind::mul}, "mul", {x, scale}); }

LayerId NetworkBuilder::with_value(LayerKind kind, LayerId x, double value) {
  return append({.kind = kind, .value = value}, to_string(kind), {x});
}

LayerId NetworkBuilder::layer_scale(LayerId x, std::string_view name) {
  return append({.kind = LayerKind::layer_scale, .out_channels = shape(x)[1]}, name, {x});
}

LayerId NetworkBuilder::squeeze_excitation(LayerId x, std::string_view name, std::int64_t squeezed, LayerKind inner,
                                           LayerKind outer) {
  const std::int64_t expanded = channels(x);
  std::string layer_name(name);
  layer_name += ".fc1";
  const LayerId hidden = activation(inner, conv(global_avg_pool(x), layer_name, squeezed, {}, true));
  layer_name.back() = '2';
  return mul(x, activation(outer, conv(hidden, layer_name, expanded, {}, true)));
}

LayerId NetworkBuilder::concat(std::span<const LayerId> parts) {
  Shape joined = shape(parts[0]);
  std::int64_t width = 0;
  for (const LayerId part : parts) width += shape(part)[1];
  Layer& layer = add_layer(LayerKind::concat, "concat", {});
  layer.input_count = static_cast<std::uint32_t>(parts.size());
  network_.edges.insert(network_.edges.end(), parts.begin(), parts.end());
  layer.output = joined.with(1, width);
  return last();
}

LayerId NetworkBuilder::chunk(LayerId x, std::int32_t count) {
  const Shape in = shape(x);
  const std::size_t axis = in.rank() == 4 ? 1 : in.rank() - 1;
  const LayerId first = last() + 1;
  for (std::int32_t index = 0; index < count; ++index) {
    append({.kind = LayerKind::chunk, .index = index, .count = count, .output = in.with(axis, in[axis] / count)},
           "chunk", {x});
  }
  return first;
}

LayerId NetworkBuilder::to_boxes(LayerId x, std::int64_t boxes) {
  const Shape in = shape(x);
  return append(
      {.kind = LayerKind::to_tokens, .groups = boxes, .output = {in[0], in[2] * in[3] * boxes, in[1] / boxes}},
      "to_boxes", {x});
}

LayerId NetworkBuilder::channel_shuffle(LayerId x, std::int64_t groups) {
  return append({.kind = LayerKind::channel_shuffle, .groups = groups}, "channel_shuffle", {x});
}

LayerId NetworkBuilder::flatten(LayerId x) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::flatten, .output = {in[0], in.numel() / in[0]}}, "flatten", {x});
}

LayerId NetworkBuilder::view(LayerKind kind, LayerId x) {
  const Shape in = shape(x);
  Layer& layer = add_layer(kind, to_string(kind), {x});
  switch (kind) {
    case LayerKind::to_nhwc:
      layer.output = {in[0], in[2], in[3], in[1]};
      break;
    case LayerKind::to_nchw:
      layer.output = {in[0], in[3], in[1], in[2]};
      break;
    case LayerKind::to_tokens:
      layer.output = {in[0], in[2] * in[3], in[1]};
      break;
    case LayerKind::first_token:
      layer.output = {in[0], in[2]};
      break;
    case LayerKind::token_and_mean:
      layer.output = {in[0], 2 * in[2]};
      break;
    case LayerKind::join_windows:
      layer.output = {in[0] * in[1], in[2], in[3]};
      break;
    default:
      break;
  }
  return last();
}

LayerId NetworkBuilder::class_token(LayerId x, std::string_view name) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::class_token, .out_channels = in[2], .output = in.with(1, in[1] + 1)}, name, {x});
}

LayerId NetworkBuilder::position_embedding(LayerId x, std::string_view name) {
  const Shape& in = shape(x);
  return append({.kind = LayerKind::position_embedding, .in_channels = in[1], .out_channels = in[2]}, name, {x});
}

LayerId NetworkBuilder::split_heads(LayerId x, std::int64_t heads) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::split_heads, .groups = heads, .output = {in[0] * heads, in[1], in[2] / heads}},
                "split_heads", {x});
}

LayerId NetworkBuilder::merge_heads(LayerId x, std::int64_t heads) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::merge_heads, .groups = heads, .output = {in[0] / heads, in[1], in[2] * heads}},
                "merge_heads", {x});
}

LayerId NetworkBuilder::matmul(LayerId a, LayerId b, bool transposed) {
  const Shape left = shape(a);
  const Shape right = shape(b);
  const LayerKind kind = transposed ? LayerKind::matmul_transposed : LayerKind::matmul;
  return append({.kind = kind, .output = left.with(2, transposed ? right[1] : right[2])}, to_string(kind), {a, b});
}

LayerId NetworkBuilder::pad(LayerId x, std::int64_t height, std::int64_t width) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::pad, .output = {in[0], height, width, in[3]}}, "pad", {x});
}

LayerId NetworkBuilder::crop(LayerId x, std::int64_t height, std::int64_t width) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::crop, .output = {in[0], height, width, in[3]}}, "crop", {x});
}

LayerId NetworkBuilder::roll(LayerId x, std::int64_t rows, std::int64_t columns) {
  return append({.kind = LayerKind::roll, .padding = {rows, columns}}, "roll", {x});
}

LayerId NetworkBuilder::merge_patches(LayerId x) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::merge_patches, .output = {in[0], in[1] / 2, in[2] / 2, 4 * in[3]}}, "merge_patches",
                {x});
}

LayerId NetworkBuilder::to_windows(LayerId x, std::int64_t size) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::to_windows,
                 .kernel = {size, size},
                 .output = {in[0] * (in[1] / size) * (in[2] / size), size * size, in[3]}},
                "to_windows", {x});
}

LayerId NetworkBuilder::from_windows(LayerId x, std::int64_t size, const Shape& image) {
  return append({.kind = LayerKind::from_windows, .kernel = {size, size}, .output = image}, "from_windows", {x});
}

LayerId NetworkBuilder::image_windows(LayerId x, std::int64_t size, bool grid) {
  const Shape in = shape(x);
  const std::int64_t rows = in[2] / size, columns = in[3] / size;
  Layer& layer = add_layer(LayerKind::image_windows, "image_windows", {x});
  layer.kernel = {size, size};
  if (grid) layer.stride = {rows, columns};
  layer.output = {in[0], rows * columns, size * size, in[1]};
  return last();
}

LayerId NetworkBuilder::windows_image(LayerId x, LayerId windows) {
  const Layer made = network_.layers[static_cast<std::size_t>(windows)];
  return append({.kind = LayerKind::windows_image,
                 .kernel = made.kernel,
                 .stride = made.stride,
                 .output = shape(network_.inputs(made)[0])},
                "windows_image", {x});
}

LayerId NetworkBuilder::part_windows(LayerId x, std::int64_t count) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::part_windows, .output = {in[0] / count, count, in[1], in[2]}}, "part_windows", {x});
}

LayerId NetworkBuilder::select_heads(LayerId x, std::int32_t count, std::int64_t heads) {
  const Shape in = shape(x);
  const LayerId first = last() + 1;
  for (std::int32_t index = 0; index < count; ++index) {
    append({.kind = LayerKind::select_heads,
            .groups = heads,
            .index = index,
            .count = count,
            .output = {in[0] * heads, in[1], in[2] / count / heads}},
           "select_heads", {x});
  }
  return first;
}

LayerId NetworkBuilder::relative_position(LayerId scores, std::string_view name, std::int64_t heads,
                                          std::int64_t size) {
  return append({.kind = LayerKind::relative_position, .kernel = {size, size}, .groups = heads}, name, {scores});
}

LayerId NetworkBuilder::window_mask(LayerId scores, std::int64_t heads, const RolledWindows& windows) {
  return append({.kind = LayerKind::window_mask,
                 .kernel = {windows.size, windows.size},
                 .stride = windows.count,
                 .padding = windows.shift,
                 .groups = heads},
                "window_mask", {scores});
}

LayerId NetworkBuilder::window_bias(std::string_view name, std::int64_t heads, const RolledWindows& windows) {
  const std::int64_t positions = windows.size * windows.size;
  const std::int64_t samples = windows.rolled() ? batch_size_ * windows.count[0] * windows.count[1] : 1;
  return append({.kind = LayerKind::window_bias,
                 .kernel = {windows.size, windows.size},
                 .stride = windows.count,
                 .padding = windows.shift,
                 .groups = heads,
                 .output = {samples, heads, positions, positions}},
                name, {});
}

LayerId NetworkBuilder::rotary(LayerId x, std::int64_t heads, std::int64_t turned) {
  return append({.kind = LayerKind::rotary, .in_channels = turned, .groups = heads}, "rotary", {x});
}

LayerId NetworkBuilder::rnn(LayerId x, std::string_view name, const RnnStyle& style) {
  const Shape in = shape(x);
  Layer& layer = add_layer(LayerKind::rnn, name, {x});
  layer.cell = style.cell;
  layer.count = static_cast<std::int32_t>(style.layers);
  layer.groups = style.bidirectional ? 2 : 1;
  layer.value = style.dropout;
  layer.in_channels = in[2];
  layer.out_channels = style.hidden;
  layer.output = in.with(2, layer.groups * style.hidden);
  return last();
}

LayerId NetworkBuilder::attention(LayerId query, LayerId key, LayerId value, const AttentionStyle& style) {
  const LayerId first = last() + 1;
  const LayerId mixed = mixed_values(query, key, value, style);
  network_.attentions.emplace_back(first, last());
  return mixed;
}

LayerId NetworkBuilder::mixed_values(LayerId query, LayerId key, LayerId value, const AttentionStyle& style) {
  has_attention_ = true;
  const std::int64_t kv_heads = style.kv_heads > 0 ? style.kv_heads : style.heads;
  if (attention_ == Attention::sdpa && !style.capped) {
    const Shape queries = shape(query);
    const bool masked = style.masked || network_.padded;
    if (masked && style.repeats_heads && !style.masked && kv_heads != style.heads) {  // no kernel has both
      AttentionStyle repeated = style;
      repeated.kv_heads = 0;
      const LayerId keys = repeat_heads(key, style.heads, kv_heads);
      return mixed_values(query, keys, repeat_heads(value, style.heads, kv_heads), repeated);
    }
    Layer& layer = style.bias < 0 ? add_layer(LayerKind::attention, "attention", {query, key, value})
                                  : add_layer(LayerKind::attention, "attention", {query, key, value, style.bias});
    layer.groups = style.heads;
    layer.count = static_cast<std::int32_t>(kv_heads);
    layer.causal = style.causal && !masked;
    layer.index = style.bias >= 0 ? 2 : masked ? 1 : 0;
    layer.value = style.dropout;
    layer.output = queries;
    return last();
  }
  if (kv_heads == style.heads) return eager_attention(query, key, value, style);
  if (!style.repeats_heads) {
    throw InputError(
        fmt::format("attention eager: {} has fewer heads of keys than of queries, which only sdpa has", network_.name));
  }
  const LayerId keys = repeat_heads(key, style.heads, kv_heads);
  return eager_attention(query, keys, repeat_heads(value, style.heads, kv_heads), style);
}

LayerId NetworkBuilder::eager_attention(LayerId query, LayerId key, LayerId value, const AttentionStyle& style) {
  const LayerId q = split_heads(query, style.heads);
  const LayerId k = split_heads(key, style.heads);
  const LayerId v = split_heads(value, style.heads);
  const auto width = static_cast<double>(shape(q)[2]);
  LayerId scores = with_value(LayerKind::scale, matmul(q, k, true), 1 / std::sqrt(width));
  if (style.capped) {
    scores = activation(LayerKind::tanh, with_value(LayerKind::scale, scores, 1));
    scores = with_value(LayerKind::scale, scores, 1);
  }
  if (style.causal) scores = view(LayerKind::causal_mask, scores);
  LayerId probabilities = view(LayerKind::softmax, scores);
  probabilities = at_chance(LayerKind::dropout, probabilities, style.dropout);
  return merge_heads(matmul(probabilities, v, false), style.heads);
}

LayerId NetworkBuilder::repeat_heads(LayerId x, std::int64_t heads, std::int64_t kv_heads) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::repeat_heads,
                 .groups = heads,
                 .count = static_cast<std::int32_t>(kv_heads),
                 .output = in.with(2, in[2] / kv_heads * heads)},
                "repeat_heads", {x});
}

LayerId NetworkBuilder::norm(LayerKind kind, LayerId x, std::string_view name, double epsilon) {
  const std::int64_t width = shape(x).back();
  return append({.kind = kind, .in_channels = width, .out_channels = width, .value = epsilon}, name, {x});
}

LayerId NetworkBuilder::unit_scale(LayerId x, std::string_view name) {
  return append({.kind = LayerKind::unit_scale, .out_channels = shape(x).back()}, name, {x});
}

LayerId NetworkBuilder::slice(LayerId x, std::int64_t width) {
  const Shape in = shape(x);
  return append({.kind = LayerKind::slice, .output = in.with(in.rank() - 1, width)}, "slice", {x});
}

LayerId NetworkBuilder::reshape(LayerId x, const Shape& shape) {
  return append({.kind = LayerKind::reshape, .output = shape}, "reshape", {x});
}

LayerId NetworkBuilder::experts(LayerId x, LayerId scores, std::string_view name, const ExpertStyle& style) {
  Layer layer{.kind = LayerKind::experts};
  layer.projection = true;
  layer.in_channels = shape(x).back();
  layer.out_channels = style.inner;
  layer.groups = style.experts;
  layer.count = static_cast<std::int32_t>(style.chosen);
  return append(std::move(layer), name, {x, scores});
}

}  // namespace perfpred
