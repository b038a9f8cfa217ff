// SPDX-License-Identifier: Apache-2.0
#include "torch/network/layer_table.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "torch/network/layer_functions.h"

namespace perfpred {
namespace {

constexpr double norm_momentum = 0.1;       // PyTorch's default
constexpr double token_deviation = 0.02;    // GPT-2's
constexpr double first_layer_scale = 1e-6;  // Touvron et al. 2021, ConvNeXt

// ---- What takes more than an operator ----

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

constexpr auto behaviours =
    std::to_array<LayerBehaviour>(
        {
            {.kind = LayerKind::input, .run = [](Call c) { return c.samples; }},
            {.kind = LayerKind::conv2d,
             .run =
                 [](Call c) {
                   return at::conv2d(c.input(), c.own.weight, c.own.bias, c.layer.stride, c.layer.padding,
                                     at::IntArrayRef{1, 1}, c.layer.groups);
                 },
             .start = start_convolution},
            {.kind = LayerKind::batch_norm, .run = batch_norm, .add_buffers = batch_norm_buffers, .start = start_norm},
            {.kind = LayerKind::layer_norm,
             .run =
                 [](Call c) {
                   return at::layer_norm(c.input(), c.layer.out_channels, c.own.weight, c.own.bias, c.layer.value);
                 },
             .start = start_norm},
            {.kind = LayerKind::rms_norm,
             .run = [](Call c) { return at::rms_norm(c.input(), c.layer.out_channels, c.own.weight, c.layer.value); },
             .start = start_norm},
            {.kind = LayerKind::linear,
             .run = [](Call c) { return at::linear(c.input(), c.own.weight, c.own.bias); },
             .start = start_linear},
            {.kind = LayerKind::embedding,
             .run = [](Call c) { return at::embedding(c.own.weight, c.input()); },
             .start = start_token_weight},
            {.kind = LayerKind::position_ids,
             .run = [](Call c) { return c.own.weight; },
             .add_buffers =
                 [](const LayerPlace& p) {
                   p.own.weight = p.network.register_buffer("position_ids",
                                                            at::arange(p.layer.output[0], p.floats.dtype(at::kLong)));
                 }},
            {.kind = LayerKind::type_ids,
             .run = [](Call c) { return c.own.weight; },
             .add_buffers =
                 [](const LayerPlace& p) {
                   p.own.weight =
                       p.network.register_buffer("type_ids", at::zeros(p.layer.output[0], p.floats.dtype(at::kLong)));
                 }},
            {.kind = LayerKind::relu, .run = activation<at::relu_, at::relu>},
            {.kind = LayerKind::relu6, .run = relu6},
            {.kind = LayerKind::hardswish, .run = activation<at::hardswish_, at::hardswish>},
            {.kind = LayerKind::hardsigmoid, .run = activation<at::hardsigmoid_, at::hardsigmoid>},
            {.kind = LayerKind::silu, .run = activation<at::silu_, at::silu>},
            {.kind = LayerKind::sigmoid, .run = activation<at::sigmoid_, at::sigmoid>},
            {.kind = LayerKind::tanh, .run = activation<at::tanh_, at::tanh>},
            {.kind = LayerKind::gelu, .run = gelu},
            {.kind = LayerKind::gelu_tanh, .run = gelu},
            {.kind = LayerKind::max_pool,
             .run =
                 [](Call c) {
                   return at::max_pool2d(c.input(), c.layer.kernel, c.layer.stride, c.layer.padding,
                                         at::IntArrayRef{1, 1}, c.layer.ceil_mode);
                 }},
            {.kind = LayerKind::avg_pool,
             .run =
                 [](Call c) {
                   return at::avg_pool2d(c.input(), c.layer.kernel, c.layer.stride, c.layer.padding, c.layer.ceil_mode);
                 }},
            {.kind = LayerKind::adaptive_avg_pool,
             .run = [](Call c) { return at::adaptive_avg_pool2d(c.input(), c.layer.kernel); }},
            {.kind = LayerKind::global_avg_pool,
             .run =
                 [](Call c) {
                   return at::mean(c.input(), at::IntArrayRef{-2, -1}, true);
                 }},
            {.kind = LayerKind::add, .run = add},
            {.kind = LayerKind::mul, .run = [](Call c) { return at::mul(c.input(), c.input(1)); }},
            {.kind = LayerKind::scale, .run = [](Call c) { return c.input() * c.layer.value; }},
            {.kind = LayerKind::dropout, .run = dropout},
            {.kind = LayerKind::stochastic_depth,
             .run = [](Call c) { return c.training ? stochastic_depth(c.input(), c.layer.value) : c.input(); }},
            {.kind = LayerKind::layer_scale,
             .run = [](Call c) { return c.own.weight * c.input(); },
             .start = [](FirstWeights&, const Layer&, LayerTensors& own) { own.weight.fill_(first_layer_scale); },
             .is_parameter = true},
            {.kind = LayerKind::concat, .run = concat},
            {.kind = LayerKind::chunk, .parts = chunk},
            {.kind = LayerKind::channel_shuffle,
             .run = [](Call c) { return shuffle_channels(c.input(), c.layer.groups); }},
            {.kind = LayerKind::flatten, .run = [](Call c) { return c.input().flatten(1); }},
            {.kind = LayerKind::to_nhwc,
             .run =
                 [](Call c) {
                   return c.input().permute({0, 2, 3, 1});
                 }},
            {.kind = LayerKind::to_nchw,
             .run =
                 [](Call c) {
                   return c.input().permute({0, 3, 1, 2});
                 }},
            {.kind = LayerKind::to_tokens, .run = [](Call c) { return c.input().flatten(2).transpose(1, 2); }},
            {.kind = LayerKind::class_token,
             .run =
                 [](Call c) {
                   return at::cat({c.own.weight.expand({c.input().size(0), -1, -1}), c.input()}, 1);
                 },
             .start = [](FirstWeights&, const Layer&, LayerTensors& own) { own.weight.zero_(); },
             .is_parameter = true},
            {.kind = LayerKind::first_token, .run = [](Call c) { return c.input().select(1, 0); }},
            {.kind = LayerKind::position_embedding,
             .run = [](Call c) { return c.input() + c.own.weight; },
             .start = start_token_weight,
             .is_parameter = true},
            {.kind = LayerKind::split_heads, .run = [](Call c) { return split_heads(c.input(), c.layer.groups); }},
            {.kind = LayerKind::merge_heads, .run = [](Call c) { return merge_heads(c.input(), c.layer.groups); }},
            {.kind = LayerKind::matmul, .run = [](Call c) { return at::bmm(c.input(), c.input(1)); }},
            {.kind = LayerKind::matmul_transposed,
             .run = [](Call c) { return at::bmm(c.input(), c.input(1).transpose(1, 2)); }},
            {.kind = LayerKind::causal_mask,
             .run =
                 [](Call c) { return c.input().masked_fill(c.own.weight, -std::numeric_limits<double>::infinity()); },
             .add_buffers = causal_mask_buffer},
            {.kind = LayerKind::softmax, .run = [](Call c) { return at::softmax(c.input(), -1); }},
            {.kind = LayerKind::pad, .run = [](Call c) { return pad(c.layer, c.input()); }},
            {.kind = LayerKind::crop, .run = [](Call c) { return crop(c.layer, c.input()); }},
            {.kind = LayerKind::roll,
             .run =
                 [](Call c) {
                   return at::roll(c.input(), c.layer.padding, {1, 2});
                 }},
            {.kind = LayerKind::to_windows, .run = [](Call c) { return to_windows(c.layer, c.input()); }},
            {.kind = LayerKind::from_windows, .run = [](Call c) { return from_windows(c.layer, c.input()); }},
            {.kind = LayerKind::image_windows, .run = [](Call c) { return image_windows(c.layer, c.input()); }},
            {.kind = LayerKind::windows_image, .run = [](Call c) { return windows_image(c.layer, c.input()); }},
            {.kind = LayerKind::join_windows, .run = [](Call c) { return c.input().flatten(0, 1); }},
            {.kind = LayerKind::part_windows,
             .run =
                 [](Call c) {
                   return c.input().unflatten(0, {-1, c.layer.output[1]});
                 }},
            {.kind = LayerKind::merge_patches, .run = [](Call c) { return merge_patches(c.input()); }},
            {.kind = LayerKind::select_heads, .parts = [](Call c) { return select_heads(c.layer, c.input()); }},
            {.kind = LayerKind::relative_position,
             .run = [](Call c) { return relative_position(c.layer, c.input(), c.own.weight, c.own.buffer); },
             .add_buffers =
                 [](const LayerPlace& p) { p.own.buffer = distance_rows(p.layer, p.floats.dtype(at::kLong)); },
             .start = start_token_weight,
             .is_parameter = true},
            {.kind = LayerKind::window_mask,
             .run = [](Call c) { return window_mask(c.layer, c.input(), c.own.buffer); },
             .add_buffers = [](const LayerPlace& p) { p.own.buffer = roll_mask(p.layer, p.floats); }},
            {.kind = LayerKind::rotary,
             .run = [](Call c) { return rotary(c.layer, c.input(), c.own.mean, c.own.variance); },
             .add_buffers = rotary_buffers},
            {.kind = LayerKind::rnn,
             .run = [](Call c) { return recurrent(c.layer, c.input(), c.own.weights, c.training); },
             .start = start_rnn},
            {.kind = LayerKind::attention,
             .run = [](Call c) { return attention(c.layer, c.input(), c.input(1), c.input(2), c.training); }},
        });

static_assert([] {  // every kind, in order, with one way to compute it
  for (std::size_t i = 0; i < behaviours.size(); ++i) {
    const LayerBehaviour& row = behaviours[i];
    if (row.kind != static_cast<LayerKind>(i) || (row.run == nullptr) == (row.parts == nullptr)) return false;
  }
  return behaviours.size() == layer_kinds;
}());

}  // namespace

const LayerBehaviour& behaviour_of(LayerKind kind) { return behaviours.at(static_cast<std::size_t>(kind)); }

}  // namespace perfpred
