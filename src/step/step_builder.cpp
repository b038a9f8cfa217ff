// SPDX-License-Identifier: Apache-2.0
#include "step/step_builder.h"

#include <perfpred/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "step/layer_rules.h"

namespace perfpred {

/// ATen/native/ConvUtils.h, cudnn_conv_suggest_memory_format: results of doubles are never channels-last.
StepBuilder::StepBuilder(const Network& network, Optimizer optimizer, Precision precision, OptimizerImpl impl,
                         Layout layout)
    : network_(network), optimizer_(optimizer), impl_(impl), states_(network.layers.size()) {
  if (precision == Precision::fp64) parameter_type_ = DataType::f64;
  half_ = precision == Precision::fp16 ? DataType::f16 : DataType::bf16;
  mixed_ = precision == Precision::fp16 || precision == Precision::bf16;
  scaled_ = precision == Precision::fp16;
  if (precision != Precision::fp64) graph_.set_layout(layout);
  reserve();
  for (const Layer& layer : network.layers) graph_.add_layer(layer.name);
  declare_tensors();
}

/// Room for a typical step, so that nothing is moved while the graph grows.
void StepBuilder::reserve() {
  std::size_t parameters = 0;
  for (const Layer& layer : network_.layers) parameters += Network::parameters(layer).count;
  const std::size_t layers = states_.size();
  const std::size_t update_ops = optimizer_ == Optimizer::adadelta ? 11 : optimizer_ == Optimizer::rmsprop ? 5 : 0;
  const std::size_t update_tensors = optimizer_ >= Optimizer::adam ? 2 : 1;
  graph_.reserve(layers, layers * 4 + parameters * update_ops, layers * 5 + parameters * (2 + update_tensors));
  parameters_.reserve(parameters);
}

void StepBuilder::declare_tensors() {
  if (scaled_) {
    scale_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
    growth_ = graph_.add_tensor({}, DataType::i32, TensorRole::buffer);
    found_inf_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
  }
  parameters_of_layer_.assign(states_.size(), {-1, -1});
  buffers_.assign(states_.size(), {no_tensor, no_tensor, no_tensor});
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Layer& layer = network_.layers[i];
    const LayerParameters own = Network::parameters(layer);
    const std::size_t skip = layer.tied_to >= 0 ? 1 : 0;
    if (skip == 1) parameters_of_layer_[i][0] = parameters_of_layer_[static_cast<std::size_t>(layer.tied_to)][0];
    for (std::size_t p = 0; p < own.count; ++p) {
      if (p + skip < 2) parameters_of_layer_[i][p + skip] = static_cast<std::int32_t>(parameters_.size());
      parameters_.push_back(graph_.add_tensor(own[p], parameter_type_, TensorRole::parameter));
    }
    if (layer.kind == LayerKind::batch_norm) {
      for (std::size_t k = 0; k < 2; ++k) {
        buffers_[i][k] = graph_.add_tensor({layer.out_channels}, parameter_type_, TensorRole::buffer);
      }
      buffers_[i][2] = graph_.add_tensor({}, DataType::i64, TensorRole::buffer);
    } else if (layer.kind == LayerKind::relative_position) {
      const std::int64_t positions = layer.output[1];
      buffers_[i][0] = graph_.add_tensor({positions * positions}, DataType::i64, TensorRole::buffer);
    } else if (layer.kind == LayerKind::window_mask) {
      const Shape mask = {layer.stride[0] * layer.stride[1], 1, layer.output[1], layer.output[2]};
      buffers_[i][0] = graph_.add_tensor(mask, parameter_type_, TensorRole::buffer);
    } else if (layer.kind == LayerKind::causal_mask && mask_ == no_tensor) {
      mask_ = graph_.add_tensor({layer.output[1], layer.output[2]}, DataType::u8, TensorRole::buffer);
    } else if (layer.kind == LayerKind::rotary && rotations_[0] == no_tensor) {
      for (TensorId& table : rotations_) {
        table =
            graph_.add_tensor({layer.output[1], layer.output[2] / layer.groups}, parameter_type_, TensorRole::buffer);
      }
    }
  }
  gradients_.assign(parameters_.size(), no_tensor);
}

OpGraph StepBuilder::build() {
  const auto count = static_cast<std::int32_t>(states_.size());
  for (layer_ = 0; layer_ < count; ++layer_) {
    LayerState& s = state();
    s.needs_gradient = parameters_of_layer_[static_cast<std::size_t>(layer_)][0] >= 0;
    for (const std::int32_t i : network_.inputs(layer())) s.needs_gradient |= state_of(i).needs_gradient;
    rule_of(layer().kind).forward(*this, layer());
  }
  layer_ = -1;
  loss();
  for (layer_ = count - 1; layer_ >= 0; --layer_) {
    if (state().gradient == no_tensor) continue;
    rule_of(layer().kind).backward(*this, layer());
    release_grad(state().gradient);
  }
  layer_ = -1;
  if (std::find(gradients_.begin(), gradients_.end(), no_tensor) != gradients_.end()) {
    throw Error("network " + network_.name + " has a parameter that its loss does not depend on");
  }
  if (scaled_) unscale_gradients();
  phase_ = Phase::optimizer;
  add_optimizer_update(*this, optimizer_, impl_);
  if (scaled_) add_op(OpKind::update_scale, {scale_, growth_, found_inf_}, {scale_});
  return std::move(graph_);
}

// ---- Tensors and operators ----

TensorId StepBuilder::transposed(TensorId id) {
  const Shape from = shape(id);
  const std::size_t last = from.rank() - 1;
  return view(id, from.with(last - 1, from[last]).with(last, from[last - 1]));
}

void StepBuilder::add_op(OpKind kind, std::span<const TensorId> inputs, std::span<const TensorId> outputs,
                         bool causal) {
  graph_.add_op(kind, phase_, layer_, inputs, outputs, false, causal);
}

void StepBuilder::add_op(OpKind kind, std::initializer_list<TensorId> inputs, std::initializer_list<TensorId> outputs) {
  add_op(kind, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
}

void StepBuilder::add_other(std::string_view name, std::initializer_list<TensorId> inputs, TensorId output) {
  const auto names = graph_.op_names();
  const auto found = std::find(names.begin(), names.end(), name);
  const auto known = static_cast<std::int32_t>(found - names.begin());
  const std::int32_t index = found != names.end() ? known : graph_.add_op_name(std::string(name));
  graph_.add_op(OpKind::other, phase_, layer_, std::span(inputs.begin(), inputs.size()), {&output, 1}).name = index;
}

TensorId StepBuilder::apply(OpKind kind, std::initializer_list<TensorId> inputs) {
  const TensorId result = new_like(*inputs.begin());
  add_op(kind, inputs, {result});
  return result;
}

TensorId StepBuilder::apply(OpKind kind, std::initializer_list<TensorId> inputs, const Shape& shape) {
  const TensorId result = new_tensor(shape, type(*inputs.begin()));
  add_op(kind, inputs, {result});
  return result;
}

TensorId StepBuilder::sum_to(TensorId id, const Shape& shape) { return apply(OpKind::sum, {id}, shape); }

// ---- Autocast ----

TensorId StepBuilder::cast(TensorId id, DataType to) {
  if (type(id) == to) return id;
  const Shape same = shape(id);
  const TensorId copy = new_tensor(same, to);
  add_op(OpKind::copy, {id}, {copy});
  return copy;
}

TensorId StepBuilder::read_input(std::size_t i, DataType compute) {
  const TensorId id = cast(input(i), compute);
  if (i < state().inputs.size()) state().inputs[i] = id;
  return id;
}

void StepBuilder::read_weights(DataType compute) {
  const auto& own = parameters_of_layer_[static_cast<std::size_t>(layer_)];
  for (std::size_t p = 0; p < 2; ++p) {
    if (own[p] >= 0) state().weights[p] = cast(parameters_[static_cast<std::size_t>(own[p])], compute);
  }
}

void StepBuilder::read_all_weights(DataType compute, std::vector<TensorId>& read) {
  const auto first = static_cast<std::size_t>(parameters_of_layer_[static_cast<std::size_t>(layer_)][0]);
  const std::size_t count = Network::parameters(layer()).count;
  for (std::size_t p = first; p < first + count; ++p) read.push_back(cast(parameters_[p], compute));
}

// ---- Loss and autograd ----

StepBuilder::CrossEntropy StepBuilder::cross_entropy(std::int32_t layer) {
  TensorId logits = state_of(layer).output;
  CrossEntropy entropy{layer, shape(logits)};
  const Shape& given = entropy.logits;
  if (given.rank() != 2) logits = view(logits, {given.numel() / given.back(), given.back()});
  entropy.raw = apply(OpKind::log_softmax, {logits});  // in the logits' type, whatever autocast does elsewhere
  entropy.log_probabilities = cast(entropy.raw, parameter_type_);
  entropy.loss = new_tensor({}, parameter_type_);
  entropy.total_weight = new_tensor({}, parameter_type_);
  add_op(OpKind::nll_loss, {entropy.log_probabilities, labels_}, {entropy.loss, entropy.total_weight});
  return entropy;
}

/// @param gradient  of the loss
void StepBuilder::differentiate(const CrossEntropy& entropy, TensorId gradient) {
  const TensorId by_probability = new_like(entropy.log_probabilities);
  add_op(OpKind::nll_loss_backward, {gradient, entropy.log_probabilities, labels_, entropy.total_weight},
         {by_probability});
  TensorId by_logit = apply(OpKind::log_softmax_backward, {cast(by_probability, type(entropy.raw)), entropy.raw});
  if (entropy.logits.rank() != 2) by_logit = view(by_logit, entropy.logits);
  accumulate_layer_grad(entropy.layer, by_logit, false);
}

/// Mean cross entropy of the last layer's output, and of an auxiliary head's, and its gradient.
void StepBuilder::loss() {
  phase_ = Phase::loss;
  const CrossEntropy own = cross_entropy(static_cast<std::int32_t>(states_.size()) - 1);
  TensorId loss = own.loss;
  std::optional<CrossEntropy> auxiliary;
  if (network_.auxiliary) {
    auxiliary = cross_entropy(network_.auxiliary->last);
    loss = apply(OpKind::add, {loss, apply(OpKind::mul, {auxiliary->loss})});
  }

  phase_ = Phase::backward;
  const TensorId root = scaled_ ? apply(OpKind::mul, {loss, scale_}) : loss;
  TensorId one = new_tensor({}, parameter_type_);
  add_op(OpKind::fill, {root}, {one});
  if (scaled_) one = apply(OpKind::mul, {one, scale_});
  differentiate(own, one);
  if (auxiliary) differentiate(*auxiliary, apply(OpKind::mul, {one}));
}

/// A second gradient is added to the first: in place if the first owns its memory and no other layer still needs it,
/// else into a new tensor.
void StepBuilder::accumulate_layer_grad(std::int32_t layer, TensorId gradient, bool strided) {
  LayerState& to = state_of(layer);
  if (!to.needs_gradient) return;
  gradient = cast(gradient, type(to.output));
  if (to.gradient == no_tensor) {
    to.gradient = gradient;
    to.strided = strided;
  } else {  // the sum has the first one's strides
    const TensorId first = to.gradient;
    release_grad(first);
    to.gradient = can_overwrite(first) ? first : new_like(first);
    add_op(OpKind::add, {first, gradient}, {to.gradient});
  }
  retain_grad(to.gradient);
}

void StepBuilder::retain_grad(TensorId gradient) {
  const std::size_t storage = graph_.tensors()[gradient].storage;
  if (retained_.size() <= storage) retained_.resize(graph_.tensors().size() * 2);
  ++retained_[storage];
}

void StepBuilder::release_grad(TensorId gradient) { --retained_[graph_.tensors()[gradient].storage]; }

/// True if no layer needs the gradient's memory any more and the gradient covers all of it.
bool StepBuilder::can_overwrite(TensorId gradient) const {
  const TensorId storage = graph_.tensors()[gradient].storage;
  return retained_[storage] == 0 && graph_.bytes(gradient) == graph_.bytes(storage);
}

void StepBuilder::accumulate_parameter_grad(std::size_t which, TensorId gradient) {
  const auto& own = parameters_of_layer_[static_cast<std::size_t>(layer_)];
  const std::int32_t index = which < own.size() ? own[which] : own[0] + static_cast<std::int32_t>(which);
  TensorId& sum = gradients_[static_cast<std::size_t>(index)];
  gradient = cast(gradient, parameter_type_);
  if (sum == no_tensor) {
    sum = gradient;
  } else if (const TensorId first = sum; graph_.tensors()[first].storage == first) {
    add_op(OpKind::add, {first, gradient}, {first});
  } else {
    sum = new_like(first);
    add_op(OpKind::add, {first, gradient}, {sum});
    graph_.set_role(graph_.tensors()[first].storage, TensorRole::temporary);
  }
  graph_.set_role(graph_.tensors()[sum].storage, TensorRole::gradient);
}

void StepBuilder::add_backward_op(OpKind kind, std::initializer_list<TensorId> inputs, bool has_bias) {
  const LayerState& s = state();
  const TensorId of_input = input_needs_gradient(0) ? new_like(s.inputs[0]) : no_tensor;
  const TensorId of_weight = new_like(s.weights[0]);
  const TensorId of_bias = has_bias ? new_like(s.weights[1]) : no_tensor;
  add_op(kind, inputs, {of_input, of_weight, of_bias});
  if (of_input != no_tensor) accumulate_grad(0, of_input);
  accumulate_parameter_grad(0, of_weight);
  if (has_bias) accumulate_parameter_grad(1, of_bias);
}

/// Divides all gradients by the loss scale.
void StepBuilder::unscale_gradients() {
  add_op(OpKind::fill, {found_inf_}, {found_inf_});
  const TensorId inverse = new_like(scale_);
  add_other("reciprocal", {scale_}, inverse);
  std::vector<TensorId> written = gradients_;
  written.push_back(found_inf_);
  std::vector<TensorId> read = written;
  read.push_back(inverse);
  add_op(OpKind::unscale_gradients, read, written);
}

OpGraph training_step(const Network& network, Optimizer optimizer, Precision precision, OptimizerImpl impl,
                      Layout layout) {
  return StepBuilder(network, optimizer, precision, impl, layout).build();
}

}  // namespace perfpred
