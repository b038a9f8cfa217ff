// SPDX-License-Identifier: Apache-2.0
#include "torch/network/layer_table.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <perfpred/error.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace perfpred {
namespace {

constexpr double norm_momentum = 0.1;       // PyTorch's default
constexpr double token_deviation = 0.02;    // GPT-2's
constexpr double first_layer_scale = 1e-6;  // Touvron et al. 2021, ConvNeXt
constexpr double rotary_base = 10000;       // Su et al. 2021
constexpr double masked = -100;             // added to scores: torchvision's, Swin's

// ---- Parts of what layers compute ----

/// Whole samples are dropped, the others scaled so that the mean stays.
at::Tensor stochastic_depth(const at::Tensor& x, double probability) {
  const double kept = 1 - probability;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[0] = x.size(0);
  at::Tensor noise = at::empty(sizes, x.options()).bernoulli_(kept);
  if (kept > 0) noise.div_(kept);
  return x * noise;
}

at::Tensor shuffle_channels(const at::Tensor& x, std::int64_t groups) {
  const std::int64_t channels = x.size(1);
  return x.view({x.size(0), groups, channels / groups, x.size(2), x.size(3)})
      .transpose(1, 2)
      .contiguous()
      .view({x.size(0), channels, x.size(2), x.size(3)});
}

at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t width = x.size(2) / heads;
  return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2).reshape({x.size(0) * heads, x.size(1), width});
}

at::Tensor merge_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t samples = x.size(0) / heads;
  return x.view({samples, heads, x.size(1), x.size(2)})
      .transpose(1, 2)
      .reshape({samples, x.size(1), heads * x.size(2)});
}

/// q, k and v are NxSxC; heads lie side by side in C.
at::Tensor attention(const Layer& layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool training) {
  const auto heads = [](const at::Tensor& x, std::int64_t count) {
    return x.unflatten(2, {count, x.size(2) / count}).transpose(1, 2);
  };
  const double dropout = training ? layer.value : 0;
  return at::scaled_dot_product_attention(heads(q, layer.groups), heads(k, layer.count), heads(v, layer.count), {},
                                          dropout, layer.causal, std::nullopt, layer.count != layer.groups)
      .transpose(1, 2)
      .flatten(2);
}

/// Cosine and sine of each angle: the position over a power of the base, the same for both halves of a head.
std::pair<at::Tensor, at::Tensor> rotations(std::int64_t positions, std::int64_t width,
                                            const at::TensorOptions& options) {
  const auto on_host = at::TensorOptions().dtype(at::kDouble).device(options.device().is_meta() ? at::kMeta : at::kCPU);
  const at::Tensor exponents = at::arange(0, width, 2, on_host) / static_cast<double>(width);
  const at::Tensor angles = at::outer(at::arange(positions, on_host), at::pow(rotary_base, -exponents)).repeat({1, 2});
  return {at::cos(angles).to(options), at::sin(angles).to(options)};
}

at::Tensor rotary(const Layer& layer, const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const at::Tensor heads = x.unflatten(2, {layer.groups, x.size(2) / layer.groups});
  const std::int64_t half = heads.size(3) / 2;
  const at::Tensor first = heads.slice(3, 0, half), second = heads.slice(3, half);
  return (heads * cosines.unsqueeze(1) + at::cat({-second, first}, 3) * sines.unsqueeze(1)).flatten(2);
}

/// The outputs of all positions of an rnn, in contiguous memory; cuDNN and oneDNN give them with the positions in
/// front.
at::Tensor recurrent(const Layer& layer, const at::Tensor& x, const std::vector<at::Tensor>& weights, bool training) {
  const bool both = layer.groups == 2;
  const std::int64_t layers = layer.count;
  const auto first = [&] { return at::zeros({layers * layer.groups, x.size(0), layer.out_channels}, x.options()); };
  at::Tensor outputs;
  switch (layer.cell) {
    case RnnCell::lstm: {
      const at::Tensor state = first(), cell = first();
      outputs = std::get<0>(at::lstm(x, {state, cell}, weights, true, layers, layer.value, training, both, true));
      break;
    }
    case RnnCell::gru:
      outputs = std::get<0>(at::gru(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
    case RnnCell::tanh:
      outputs = std::get<0>(at::rnn_tanh(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
    case RnnCell::relu:
      outputs = std::get<0>(at::rnn_relu(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
  }
  return outputs.contiguous();
}

at::Tensor pad(const Layer& layer, const at::Tensor& x) {
  return at::constant_pad_nd(x, {0, 0, 0, layer.output[2] - x.size(2), 0, layer.output[1] - x.size(1)});
}

at::Tensor crop(const Layer& layer, const at::Tensor& x) {
  at::Tensor left = x;
  for (const std::int64_t axis : {1, 2}) {
    const std::int64_t kept = layer.output[static_cast<std::size_t>(axis)];
    if (kept < x.size(axis)) left = left.slice(axis, 0, kept);
  }
  return left.contiguous();
}

at::Tensor merge_patches(const at::Tensor& x) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t column : {0, 1}) {
    for (const std::int64_t row : {0, 1}) {
      parts.push_back(x.slice(1, row, std::nullopt, 2).slice(2, column, std::nullopt, 2));
    }
  }
  return at::cat(parts, -1);
}

at::Tensor to_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const std::int64_t samples = x.size(0), rows = x.size(1) / height, columns = x.size(2) / width;
  return x.view({samples, rows, height, columns, width, x.size(3)})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({samples * rows * columns, height * width, x.size(3)});
}

at::Tensor from_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const Shape& image = layer.output;
  const std::int64_t rows = image[1] / height, columns = image[2] / width, samples = x.size(0) / (rows * columns);
  return x.view({samples, rows, columns, height, width, image[3]})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({samples, image[1], image[2], image[3]});
}

at::Tensor image_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const std::int64_t samples = x.size(0), channels = x.size(1), rows = x.size(2) / height, columns = x.size(3) / width;
  if (layer.stride[0] == 1) {
    return x.reshape({samples, channels, rows, height, columns, width})
        .permute({0, 2, 4, 3, 5, 1})
        .reshape({samples, rows * columns, height * width, channels});
  }
  return x.reshape({samples, channels, height, rows, width, columns})
      .permute({0, 2, 4, 3, 5, 1})
      .reshape({samples, height * width, rows * columns, channels})
      .transpose(1, 2);
}

at::Tensor windows_image(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const Shape& image = layer.output;
  const std::int64_t samples = x.size(0), rows = image[2] / height, columns = image[3] / width;
  const bool grid = layer.stride[0] > 1;
  const at::Tensor parted = grid ? x.transpose(1, 2).reshape({samples, height, width, rows, columns, image[1]})
                                 : x.reshape({samples, rows, columns, height, width, image[1]});
  return parted.permute({0, 5, 1, 3, 2, 4}).reshape({samples, image[1], image[2], image[3]});
}

/// All parts of select_heads.
std::vector<at::Tensor> select_heads(const Layer& layer, const at::Tensor& x) {
  const std::int64_t width = x.size(2) / layer.count / layer.groups;
  const at::Tensor apart = x.view({x.size(0), x.size(1), layer.count, layer.groups, width}).permute({2, 0, 3, 1, 4});
  std::vector<at::Tensor> parts;
  for (std::int64_t part = 0; part < layer.count; ++part) {
    parts.push_back(apart.select(0, part).reshape({x.size(0) * layer.groups, x.size(1), width}));
  }
  return parts;
}

/// The buffer of relative_position: for each two positions of a window the row of their distance.
at::Tensor distance_rows(const Layer& layer, const at::TensorOptions& integers) {
  const auto [height, width] = layer.kernel;
  const auto between = [&](const at::Tensor& along) {
    const at::Tensor places = along.expand(layer.kernel).flatten();
    return places.unsqueeze(1) - places.unsqueeze(0);
  };
  const at::Tensor down = between(at::arange(height, integers).unsqueeze(1)) + (height - 1);
  const at::Tensor right = between(at::arange(width, integers).unsqueeze(0)) + (width - 1);
  return (down * (2 * width - 1) + right).flatten();
}

at::Tensor relative_position(const Layer& layer, const at::Tensor& scores, const at::Tensor& table,
                             const at::Tensor& rows) {
  const std::int64_t positions = scores.size(1);
  c10::List<std::optional<at::Tensor>> chosen;
  chosen.push_back(rows);
  const at::Tensor bias = at::index(table, chosen).view({positions, positions, layer.groups}).permute({2, 0, 1});
  return (scores.unflatten(0, {-1, layer.groups}) + bias.contiguous().unsqueeze(0)).flatten(0, 1);
}

/// The buffer of window_mask.
at::Tensor roll_mask(const Layer& layer, const at::TensorOptions& floats) {
  // Parts of an axis that were neighbours before the roll: up to the last window, the rest, and what came in.
  const auto parts = [&](std::size_t axis) {
    const std::int64_t size = layer.kernel.at(axis), length = size * layer.stride.at(axis);
    const std::int64_t shift = layer.padding.at(axis);
    const at::Tensor places = at::arange(length, floats);
    if (shift == 0) return at::zeros_like(places);
    return places.ge(length - size).to(floats) + places.ge(length - shift).to(floats);
  };
  const auto [height, width] = layer.kernel;
  const auto [rows, columns] = layer.stride;
  const at::Tensor parts_of_windows = (parts(0).unsqueeze(1) * 3 + parts(1).unsqueeze(0))
                                          .view({rows, height, columns, width})
                                          .permute({0, 2, 1, 3})
                                          .reshape({rows * columns, 1, height * width});
  return parts_of_windows.unsqueeze(2).ne(parts_of_windows.unsqueeze(3)).to(floats) * masked;
}

at::Tensor window_mask(const Layer& layer, const at::Tensor& scores, const at::Tensor& mask) {
  return (scores.unflatten(0, {-1, mask.size(0), layer.groups}) + mask).flatten(0, 2);
}

// ---- What a call does, where that takes more than an operator ----

at::Tensor batch_norm(const LayerCall& call) {
  LayerTensors& own = call.own;
  if (call.training) own.steps += 1;
  return at::batch_norm(call.input(), own.weight, own.bias, own.mean, own.variance, call.training, norm_momentum,
                        call.layer.value, at::globalContext().userEnabledCuDNN());
}

at::Tensor dropout(const LayerCall& call) {
  at::Tensor x = call.input();
  return call.layer.in_place ? at::dropout_(x, call.layer.value, call.training)
                             : at::dropout(x, call.layer.value, call.training);
}

at::Tensor add(const LayerCall& call) {
  return call.layer.in_place ? at::Tensor(call.input()).add_(call.input(1)) : at::add(call.input(), call.input(1));
}

at::Tensor concat(const LayerCall& call) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) parts.push_back(call.input(i));
  return at::cat(parts, 1);
}

std::vector<at::Tensor> chunk(const LayerCall& call) {
  return call.input().chunk(call.layer.count, call.input().dim() == 4 ? 1 : -1);
}

/// An activation, by the operators of both forms.
template <at::Tensor& (*in_place)(at::Tensor&), at::Tensor (*fresh)(const at::Tensor&)>
at::Tensor activation(const LayerCall& call) {
  at::Tensor x = call.input();
  return call.layer.in_place ? in_place(x) : fresh(x);
}

at::Tensor relu6(const LayerCall& call) {
  at::Tensor x = call.input();
  return call.layer.in_place ? at::hardtanh_(x, 0, 6) : at::hardtanh(x, 0, 6);
}

at::Tensor gelu(const LayerCall& call) {
  at::Tensor x = call.input();
  const char* approximation = call.layer.kind == LayerKind::gelu ? "none" : "tanh";
  return call.layer.in_place ? at::gelu_(x, approximation) : at::gelu(x, approximation);
}

// ---- Buffers ----

void batch_norm_buffers(const LayerPlace& place) {
  LayerTensors& own = place.own;
  own.mean = place.module->register_buffer("running_mean", at::zeros(place.layer.out_channels, place.floats));
  own.variance = place.module->register_buffer("running_var", at::ones(place.layer.out_channels, place.floats));
  own.steps = place.module->register_buffer("num_batches_tracked", at::zeros({}, place.floats.dtype(at::kLong)));
}

/// The network's buffer of this name, made by the first layer that asks for it.
template <class Make>
at::Tensor shared_buffer(const LayerPlace& place, const std::string& name, const Make& make) {
  const auto buffers = place.network.named_buffers(false);
  const at::Tensor* known = buffers.find(name);
  return known != nullptr ? *known : place.network.register_buffer(name, make());
}

void rotary_buffers(const LayerPlace& place) {
  const auto both = [&] {
    return rotations(place.layer.output[1], place.layer.output[2] / place.layer.groups, place.floats);
  };
  place.own.mean = shared_buffer(place, "rotary_cos", [&] { return both().first; });
  place.own.variance = shared_buffer(place, "rotary_sin", [&] { return both().second; });
}

void causal_mask_buffer(const LayerPlace& place) {
  place.own.weight = shared_buffer(place, "causal_mask", [&] {
    const std::int64_t length = place.layer.output.back();
    return at::ones({length, length}, place.floats.dtype(at::kBool)).triu_(1);
  });
}

// ---- First values ----

double one_by_root(std::int64_t count) { return 1 / std::sqrt(static_cast<double>(count)); }

void start_convolution(FirstWeights& first, const Layer& layer, LayerTensors& own) {
  const auto fan_out = static_cast<double>(layer.out_channels * layer.kernel[0] * layer.kernel[1]);
  first.normal(own.weight, std::sqrt(2.0 / fan_out));
  if (own.bias.defined()) own.bias.zero_();
}

void start_linear(FirstWeights& first, const Layer& layer, LayerTensors& own) {
  if (first.tokens()) {
    if (layer.tied_to < 0) first.normal(own.weight, token_deviation);
    if (own.bias.defined()) own.bias.zero_();
    return;
  }
  first.uniform(own.weight, one_by_root(layer.in_channels));
  if (own.bias.defined()) first.uniform(own.bias, one_by_root(layer.in_channels));
}

void start_norm(FirstWeights&, const Layer&, LayerTensors& own) {
  own.weight.fill_(1);
  if (own.bias.defined()) own.bias.zero_();
}

void start_rnn(FirstWeights& first, const Layer& layer, LayerTensors& own) {
  for (at::Tensor& weight : own.weights) first.uniform(weight, one_by_root(layer.out_channels));
}

void start_token_weight(FirstWeights& first, const Layer&, LayerTensors& own) {
  first.normal(own.weight, token_deviation);
}

// ---- One row a kind ----

using Call = const LayerCall&;

constexpr auto behaviours = std::to_array<LayerBehaviour>({
    // kind, run, start, add_buffers, is_parameter, parts
    {LayerKind::input, [](Call c) { return c.samples; }},
    {LayerKind::conv2d,
     [](Call c) {
       return at::conv2d(c.input(), c.own.weight, c.own.bias, c.layer.stride, c.layer.padding, at::IntArrayRef{1, 1},
                         c.layer.groups);
     },
     start_convolution},
    {LayerKind::batch_norm, batch_norm, start_norm, batch_norm_buffers},
    {LayerKind::layer_norm,
     [](Call c) { return at::layer_norm(c.input(), c.layer.out_channels, c.own.weight, c.own.bias, c.layer.value); },
     start_norm},
    {LayerKind::rms_norm,
     [](Call c) { return at::rms_norm(c.input(), c.layer.out_channels, c.own.weight, c.layer.value); }, start_norm},
    {LayerKind::linear, [](Call c) { return at::linear(c.input(), c.own.weight, c.own.bias); }, start_linear},
    {LayerKind::embedding, [](Call c) { return at::embedding(c.own.weight, c.input()); }, start_token_weight},
    {LayerKind::position_ids, [](Call c) { return c.own.weight; }, nullptr,
     [](const LayerPlace& p) {
       p.own.weight =
           p.network.register_buffer("position_ids", at::arange(p.layer.output[0], p.floats.dtype(at::kLong)));
     }},
    {LayerKind::type_ids, [](Call c) { return c.own.weight; }, nullptr,
     [](const LayerPlace& p) {
       p.own.weight = p.network.register_buffer("type_ids", at::zeros(p.layer.output[0], p.floats.dtype(at::kLong)));
     }},
    {LayerKind::relu, activation<at::relu_, at::relu>},
    {LayerKind::relu6, relu6},
    {LayerKind::hardswish, activation<at::hardswish_, at::hardswish>},
    {LayerKind::hardsigmoid, activation<at::hardsigmoid_, at::hardsigmoid>},
    {LayerKind::silu, activation<at::silu_, at::silu>},
    {LayerKind::sigmoid, activation<at::sigmoid_, at::sigmoid>},
    {LayerKind::tanh, activation<at::tanh_, at::tanh>},
    {LayerKind::gelu, gelu},
    {LayerKind::gelu_tanh, gelu},
    {LayerKind::max_pool,
     [](Call c) {
       return at::max_pool2d(c.input(), c.layer.kernel, c.layer.stride, c.layer.padding, at::IntArrayRef{1, 1},
                             c.layer.ceil_mode);
     }},
    {LayerKind::avg_pool,
     [](Call c) {
       return at::avg_pool2d(c.input(), c.layer.kernel, c.layer.stride, c.layer.padding, c.layer.ceil_mode);
     }},
    {LayerKind::adaptive_avg_pool, [](Call c) { return at::adaptive_avg_pool2d(c.input(), c.layer.kernel); }},
    {LayerKind::global_avg_pool,
     [](Call c) {
       return at::mean(c.input(), at::IntArrayRef{-2, -1}, true);
     }},
    {LayerKind::add, add},
    {LayerKind::mul, [](Call c) { return at::mul(c.input(), c.input(1)); }},
    {LayerKind::scale, [](Call c) { return c.input() * c.layer.value; }},
    {LayerKind::dropout, dropout},
    {LayerKind::stochastic_depth,
     [](Call c) { return c.training ? stochastic_depth(c.input(), c.layer.value) : c.input(); }},
    {LayerKind::layer_scale, [](Call c) { return c.own.weight * c.input(); },
     [](FirstWeights&, const Layer&, LayerTensors& own) { own.weight.fill_(first_layer_scale); }, nullptr, true},
    {LayerKind::concat, concat},
    {LayerKind::chunk, nullptr, nullptr, nullptr, false, chunk},
    {LayerKind::channel_shuffle, [](Call c) { return shuffle_channels(c.input(), c.layer.groups); }},
    {LayerKind::flatten, [](Call c) { return c.input().flatten(1); }},
    {LayerKind::to_nhwc, [](Call c) { return c.input().permute({0, 2, 3, 1}); }},
    {LayerKind::to_nchw, [](Call c) { return c.input().permute({0, 3, 1, 2}); }},
    {LayerKind::to_tokens,
     [](Call c) {
       if (c.layer.groups == 1) return c.input().flatten(2).transpose(1, 2);
       return c.input().permute({0, 2, 3, 1}).reshape({c.input().size(0), c.layer.output[1], c.layer.output[2]});
     }},
    {LayerKind::class_token,
     [](Call c) {
       return at::cat({c.own.weight.expand({c.input().size(0), -1, -1}), c.input()}, 1);
     },
     [](FirstWeights&, const Layer&, LayerTensors& own) { own.weight.zero_(); }, nullptr, true},
    {LayerKind::first_token, [](Call c) { return c.input().select(1, 0); }},
    {LayerKind::position_embedding, [](Call c) { return c.input() + c.own.weight; }, start_token_weight, nullptr, true},
    {LayerKind::split_heads, [](Call c) { return split_heads(c.input(), c.layer.groups); }},
    {LayerKind::merge_heads, [](Call c) { return merge_heads(c.input(), c.layer.groups); }},
    {LayerKind::matmul, [](Call c) { return at::bmm(c.input(), c.input(1)); }},
    {LayerKind::matmul_transposed, [](Call c) { return at::bmm(c.input(), c.input(1).transpose(1, 2)); }},
    {LayerKind::causal_mask,
     [](Call c) { return c.input().masked_fill(c.own.weight, -std::numeric_limits<double>::infinity()); }, nullptr,
     causal_mask_buffer},
    {LayerKind::softmax, [](Call c) { return at::softmax(c.input(), -1); }},
    {LayerKind::pad, [](Call c) { return pad(c.layer, c.input()); }},
    {LayerKind::crop, [](Call c) { return crop(c.layer, c.input()); }},
    {LayerKind::roll, [](Call c) { return at::roll(c.input(), c.layer.padding, {1, 2}); }},
    {LayerKind::to_windows, [](Call c) { return to_windows(c.layer, c.input()); }},
    {LayerKind::from_windows, [](Call c) { return from_windows(c.layer, c.input()); }},
    {LayerKind::image_windows, [](Call c) { return image_windows(c.layer, c.input()); }},
    {LayerKind::windows_image, [](Call c) { return windows_image(c.layer, c.input()); }},
    {LayerKind::join_windows, [](Call c) { return c.input().flatten(0, 1); }},
    {LayerKind::part_windows, [](Call c) { return c.input().unflatten(0, {-1, c.layer.output[1]}); }},
    {LayerKind::merge_patches, [](Call c) { return merge_patches(c.input()); }},
    {LayerKind::select_heads, nullptr, nullptr, nullptr, false,
     [](Call c) { return select_heads(c.layer, c.input()); }},
    {LayerKind::relative_position,
     [](Call c) { return relative_position(c.layer, c.input(), c.own.weight, c.own.buffer); }, start_token_weight,
     [](const LayerPlace& p) { p.own.buffer = distance_rows(p.layer, p.floats.dtype(at::kLong)); }, true},
    {LayerKind::window_mask, [](Call c) { return window_mask(c.layer, c.input(), c.own.buffer); }, nullptr,
     [](const LayerPlace& p) { p.own.buffer = roll_mask(p.layer, p.floats); }},
    {LayerKind::rotary, [](Call c) { return rotary(c.layer, c.input(), c.own.mean, c.own.variance); }, nullptr,
     rotary_buffers},
    {LayerKind::rnn, [](Call c) { return recurrent(c.layer, c.input(), c.own.weights, c.training); }, start_rnn},
    {LayerKind::attention, [](Call c) { return attention(c.layer, c.input(), c.input(1), c.input(2), c.training); }},
});

static_assert([] {  // every kind, in order, with one way to compute it
  for (std::size_t i = 0; i < behaviours.size(); ++i) {
    const LayerBehaviour& row = behaviours[i];
    if (row.kind != static_cast<LayerKind>(i) || (row.run == nullptr) == (row.parts == nullptr)) return false;
  }
  return behaviours.size() == executed_layer_kinds;
}());

}  // namespace

const LayerBehaviour& behaviour_of(LayerKind kind) {
  if (static_cast<std::size_t>(kind) < behaviours.size()) return behaviours.at(static_cast<std::size_t>(kind));
  throw InputError(fmt::format("layers \"{}\" can be predicted, not trained", to_string(kind)));
}

}  // namespace perfpred
