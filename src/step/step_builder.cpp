// SPDX-License-Identifier: Apache-2.0
#include "step/step_builder.h"

#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "step/layer_rules.h"
#include "step/op_rules.h"
#include "step/parts_needed.h"
#include "text/parse.h"

namespace perfpred {

namespace {

DataType stored_type(const StepStyle& style) {
  if (style.weights == Weights::bf16) return DataType::bf16;
  if (style.weights == Weights::fp16) return DataType::f16;
  return style.precision == Precision::fp64 ? DataType::f64 : DataType::f32;
}

/// Of the weights of a layer that is packed, together.
Shape packed_shape(const Layer& layer) {
  if (layer.kind != LayerKind::experts) return {layer.out_channels, layer.in_channels};
  return {layer.groups * 3 * layer.out_channels, layer.in_channels};
}

/// An update reads and writes parameters, gradients and states at once.
constexpr double max_parameter_bytes = max_step_bytes / 16;

/// @throws InputError for a graph whose tensors are together larger than `most`
void check_held(const OpGraph& graph, const std::string& network, double most) {
  double held = 0;
  for (TensorId id = 0; id < graph.tensors().size(); ++id) {
    if (graph.tensors()[id].storage == id) held += static_cast<double>(graph.bytes(id));
  }
  if (held <= most) return;
  throw InputError(fmt::format("network {} holds {:.2g} bytes: too large for any device", shown(network), held));
}

/// @throws InputError for a step that moves more bytes than can be counted
void check_moved(const OpGraph& step, const std::string& network) {
  double moved = 0;
  for (const Op& op : step.ops())
    moved += static_cast<double>(step.times(op)) * static_cast<double>(op.bytes_read + op.bytes_written);
  if (moved <= max_step_bytes) return;
  throw InputError(
      fmt::format("a step of network {} moves {:.2g} bytes: too large for any device", shown(network), moved));
}

}  // namespace

/// ATen/native/ConvUtils.h, cudnn_conv_suggest_memory_format: results of doubles are never channels-last. A gradient
/// scaler does not take gradients in fp16 (torch/amp/grad_scaler.py). Adapters are in single precision under autocast,
/// as peft makes them (autocast_adapter_dtype); without it all is in the type of the weights.
StepBuilder::StepBuilder(const Network& network, const StepStyle& style)
    : network_(network), style_(style), states_(network.layers.size()) {
  const DataType stored = stored_type(style);
  half_ = style.precision == Precision::fp16 ? DataType::f16 : DataType::bf16;
  mixed_ = is_half(style.precision) && (network.adapted || size_of(stored) > 2);
  packs_ = style.weights >= Weights::nf4;
  trained_type_ = mixed_ ? DataType::f32 : stored;
  parameter_type_ = trained_type_;
  frozen_type_ = packs_ && mixed_ ? half_ : stored;
  if (style.precision != Precision::fp64) graph_.set_layout(style.layout);
  graph_.set_repeats(style.accumulate);
  reserve();
  for (const Layer& layer : network.layers) graph_.add_layer(layer.name);
  declare_tensors();
  check_held(graph_, network.name, max_parameter_bytes);
}

/// Room for a typical step, so that nothing is moved while the graph grows.
void StepBuilder::reserve() {
  std::size_t parameters = 0;
  for (const Layer& layer : network_.layers) parameters += Network::parameters(layer).count;
  const std::size_t layers = states_.size();
  const Optimizer optimizer = style_.optimizer;
  const std::size_t update_ops = optimizer == Optimizer::adadelta ? 11 : optimizer == Optimizer::rmsprop ? 5 : 0;
  const std::size_t update_tensors = optimizer >= Optimizer::adam ? 2 : 1;
  graph_.reserve(layers, layers * 4 + parameters * update_ops, layers * 5 + parameters * (2 + update_tensors));
  parameters_.reserve(parameters);
}

void StepBuilder::declare_tensors() {
  if (style_.precision == Precision::fp16 && trained_type_ == DataType::f32) declare_scaler();
  parameters_of_layer_.assign(states_.size(), {-1, -1});
  weights_of_layer_.assign(states_.size(), {no_tensor, no_tensor});
  buffers_.assign(states_.size(), {no_tensor, no_tensor, no_tensor});
  for (std::size_t i = 0; i < states_.size(); ++i) {
    declare_weights(i);
    declare_buffers(i);
  }
  gradients_.assign(parameters_.size(), no_tensor);
  if (style_.accumulate == 1) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    gradients_[i] = graph_.add_like(parameters_[i], TensorRole::gradient);
  }
}

void StepBuilder::declare_weights(std::size_t i) {
  const Layer& layer = network_.layers[i];
  const LayerParameters own = Network::parameters(layer);
  const std::size_t skip = layer.tied_to >= 0 ? 1 : 0;
  if (skip == 1) {
    const auto tied = static_cast<std::size_t>(layer.tied_to);
    parameters_of_layer_[i][0] = parameters_of_layer_[tied][0];
    weights_of_layer_[i][0] = weights_of_layer_[tied][0];
    if (parameters_of_layer_[i][0] >= 0) ++uses_[static_cast<std::size_t>(parameters_of_layer_[i][0])];
  }
  for (std::size_t p = 0; p < own.count; ++p) {
    if (is_packed(layer) && own[p].rank() > 1) {
      if (p == 0) declare_packed(i, packed_shape(layer));
      continue;
    }
    const TensorRole role = layer.frozen ? TensorRole::buffer : TensorRole::parameter;
    const TensorId tensor = graph_.add_tensor(own[p], layer.frozen ? frozen_type_ : trained_type_, role);
    if (p + skip < 2) weights_of_layer_[i].at(p + skip) = tensor;
    if (layer.frozen) continue;
    if (p + skip < 2) parameters_of_layer_[i].at(p + skip) = static_cast<std::int32_t>(parameters_.size());
    parameters_.push_back(tensor);
    uses_.push_back(1);
    is_hidden_matrix_.push_back(p == 0 && layer.kind == LayerKind::linear &&
                                static_cast<std::int32_t>(i) != network_.head);
  }
}

/// bitsandbytes: 4-bit numbers with a scale for each 64, which are 8-bit numbers with a scale for each 256 (double
/// quantisation, as in the paper); 8-bit numbers with a scale for each row. GPTQ (as AutoGPTQ and GPTQModel store it):
/// 4-bit numbers, for each 128 of a row a scale and a zero, and for each column its group.
void StepBuilder::declare_packed(std::size_t i, const Shape& weight) {
  constexpr std::int64_t nf4_block = 64, nf4_scales_block = 256, gptq_group = 128;
  const std::int64_t numbers = weight.numel();
  const auto buffer = [&](std::int64_t count, DataType type) {
    return graph_.add_tensor({count}, type, TensorRole::buffer);
  };
  if (style_.weights == Weights::nf4) {
    const std::int64_t scales = parts_needed(numbers, nf4_block);
    buffers_[i] = {buffer(parts_needed(numbers, 2), DataType::u8), buffer(scales, DataType::u8),
                   buffer(parts_needed(scales, nf4_scales_block), DataType::f32)};
  } else if (style_.weights == Weights::int8) {
    buffers_[i] = {buffer(numbers, DataType::u8), buffer(weight[0], DataType::f32), no_tensor};
  } else {
    const std::int64_t groups = parts_needed(weight[1], gptq_group) * weight[0];
    buffers_[i] = {buffer(parts_needed(numbers, 2), DataType::u8), buffer(parts_needed(5 * groups, 4), DataType::f16),
                   buffer(weight[1], DataType::i32)};
  }
}

void StepBuilder::declare_buffers(std::size_t i) {
  const Layer& layer = network_.layers[i];
  if (layer.kind == LayerKind::batch_norm) {
    for (std::size_t k = 0; k < 2; ++k) {
      buffers_[i].at(k) = graph_.add_tensor({layer.out_channels}, parameter_type_, TensorRole::buffer);
    }
    buffers_[i][2] = graph_.add_tensor({}, DataType::i64, TensorRole::buffer);
  } else if (layer.kind == LayerKind::relative_position || layer.kind == LayerKind::window_bias) {
    const std::int64_t positions = layer.output.back();
    buffers_[i][0] = graph_.add_tensor({positions * positions}, DataType::i64, TensorRole::buffer);
  } else if (layer.kind == LayerKind::window_mask) {
    const Shape mask = {layer.stride[0] * layer.stride[1], 1, layer.output[1], layer.output[2]};
    buffers_[i][0] = graph_.add_tensor(mask, parameter_type_, TensorRole::buffer);
  } else if (layer.kind == LayerKind::causal_mask && mask_ == no_tensor) {
    mask_ = graph_.add_tensor({layer.output[1], layer.output[2]}, DataType::u8, TensorRole::buffer);
  } else if (layer.kind == LayerKind::rotary && rotations_[0] == no_tensor) {
    const std::int64_t width = layer.in_channels > 0 ? layer.in_channels : layer.output[2] / layer.groups;
    const DataType type = layer.frozen ? frozen_type_ : trained_type_;  // of the embedding
    for (TensorId& table : rotations_) table = graph_.add_tensor({layer.output[1], width}, type, TensorRole::buffer);
  }
}

void StepBuilder::run_forward(std::int32_t layer) {
  layer_ = layer;
  LayerState& s = state();
  s.needs_gradient = is_trained(0) || is_trained(1);
  // peft's enable_input_require_grads(): checkpoints of blocks need an input with a gradient.
  const bool has_checkpoints = style_.checkpoint != 0 && style_.checkpoint != selective_checkpoint;
  if (network_.adapted && has_checkpoints && this->layer().kind == LayerKind::embedding) s.needs_gradient = true;
  for (const std::int32_t i : network_.inputs(this->layer())) s.needs_gradient |= state_of(i).needs_gradient;
  rule_of(this->layer().kind).forward(*this, this->layer());
}

OpGraph StepBuilder::build() {
  const auto count = static_cast<std::int32_t>(states_.size());
  const bool chunked = style_.loss == LossForm::chunked;
  for (std::int32_t layer = 0; layer < (chunked ? network_.head : count); ++layer) {
    if (network_.head >= 0 && layer > network_.head) phase_ = Phase::loss;
    run_forward(layer);
    if (layer == network_.head && network_.own_loss) {
      graph_.set_role(graph_.tensors()[state().output].storage, TensorRole::temporary);
    }
  }
  layer_ = -1;
  chunked ? chunked_loss() : loss();
  run_backward();
  if (std::find(gradients_.begin(), gradients_.end(), no_tensor) != gradients_.end()) {
    throw Error("network " + network_.name + " has a parameter that its loss does not depend on");
  }
  update(style_.optimizer, style_.impl);
  return std::move(graph_);
}

void StepBuilder::run_backward() {
  const std::int64_t every = std::max(style_.checkpoint, std::int64_t{1});
  const auto& blocks = style_.checkpoint == selective_checkpoint ? network_.attentions : network_.blocks;
  auto block = static_cast<std::int64_t>(blocks.size()) - 1;
  for (layer_ = static_cast<std::int32_t>(states_.size()) - 1; layer_ >= 0; --layer_) {
    if (block >= 0 && layer_ == blocks[static_cast<std::size_t>(block)].second) {
      const auto [first, last] = blocks[static_cast<std::size_t>(block)];
      if (style_.checkpoint != 0 && block % every == 0) compute_anew(first, last);
      --block;
    }
    if (state().gradient == no_tensor) continue;
    rule_of(layer().kind).backward(*this, layer());
    release_grad(state().gradient);
  }
  layer_ = -1;
}

/// torch.utils.checkpoint without reentrance: up to the last operator that keeps something, and of a product, whose
/// operands are kept, without it. What `op_checkpoint` keeps is read again in place of being computed.
void StepBuilder::compute_anew(std::int32_t first, std::int32_t last) {
  const auto keeps_nothing = [](LayerKind kind) {
    return kind == LayerKind::add || kind == LayerKind::scale || kind == LayerKind::to_float ||
           kind == LayerKind::to_adapter;
  };
  static constexpr std::array kept = {OpKind::mm, OpKind::addmm, OpKind::attention};
  constexpr std::span products = std::span(kept).first<2>();
  std::int64_t linear_layers = 0;
  std::int32_t stop = last;
  while (stop > first && keeps_nothing(network_.layers[static_cast<std::size_t>(stop)].kind)) --stop;
  for (std::int32_t layer = first; layer <= stop; ++layer) {
    const LayerKind kind = network_.layers[static_cast<std::size_t>(layer)].kind;
    const bool is_even = kind == LayerKind::linear && linear_layers++ % 2 == 0;
    const bool keeps = style_.checkpoint == op_checkpoint && (is_even || kind == LayerKind::attention);
    skipped_ = keeps ? std::span<const OpKind>(kept) : layer == stop ? products : std::span<const OpKind>();
    LayerState& s = state_of(layer);
    LayerState before = std::move(s);
    s = {};
    s.gradient = before.gradient;
    s.strided = before.strided;
    run_forward(layer);
    if (keeps) s.saved = before.saved;
    if (keeps || layer == stop) s.output = before.output;
  }
  skipped_ = {};
  layer_ = last;
}

/// transformers' masking_utils.py: from which words are padding, made once.
TensorId StepBuilder::pair_mask() {
  if (pair_mask_ != no_tensor) return pair_mask_;
  const Shape words = shape(state_of(0).output);
  const TensorId real = graph_.add_tensor(words, DataType::i64, TensorRole::input);
  pair_mask_ = new_tensor({words[0], 1, words[1], words[1]}, DataType::u8);
  add_other("bitwise_and", {real}, pair_mask_);
  return pair_mask_;
}

// ---- Autocast ----

TensorId StepBuilder::read_input(std::size_t i, DataType compute) {
  const TensorId id = cast(input(i), compute);
  if (i < state().inputs.size()) state().inputs[i] = id;
  return id;
}

DataType StepBuilder::weight_type() const {
  const Layer& own = layer();
  const bool frozen = own.tied_to >= 0 ? network_.layers[static_cast<std::size_t>(own.tied_to)].frozen : own.frozen;
  return frozen ? frozen_type_ : trained_type_;
}

void StepBuilder::read_weights(DataType compute) {
  const auto& own = weights_of_layer_[static_cast<std::size_t>(layer_)];
  for (std::size_t p = 0; p < 2; ++p) {
    if (own.at(p) != no_tensor) state().weights.at(p) = cast(own.at(p), compute);
  }
  unpack_weight(compute);
}

void StepBuilder::unpack_weight(DataType compute) {
  if (!is_packed(layer())) return;
  const LayerParameters own = Network::parameters(layer());
  std::vector<TensorId> weights, packed;
  for (std::size_t p = 0; p < own.count && own[p].rank() > 1; ++p) {
    weights.push_back(state().weights.at(p) = new_tensor(own[p], compute));
  }
  for (const TensorId part : buffers()) {
    if (part != no_tensor) packed.push_back(part);
  }
  if (skipped_.empty()) add_update("dequantize", packed, weights);
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
  const DataType given_type = type(entropy.raw);
  const DataType computed = given_type == DataType::f32 ? given_type : parameter_type_;
  entropy.log_probabilities = cast(entropy.raw, computed);
  entropy.loss = new_tensor({}, computed);
  entropy.total_weight = new_tensor({}, computed);
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

/// Mean cross entropy of the last layer's output, and of an auxiliary head's, and its gradient. Of a detector also the
/// smooth L1 distance of boxes from where they should be.
void StepBuilder::loss() {
  phase_ = Phase::loss;
  const CrossEntropy own = cross_entropy(static_cast<std::int32_t>(states_.size()) - 1);
  TensorId loss = own.loss;
  std::optional<CrossEntropy> auxiliary;
  if (network_.auxiliary) {
    auxiliary = cross_entropy(network_.auxiliary->last);
    loss = apply(OpKind::add, {loss, apply(OpKind::mul, {auxiliary->loss})});
  }
  TensorId boxes = no_tensor, wanted = no_tensor;
  if (network_.boxes >= 0) {
    boxes = cast(state_of(network_.boxes).output, parameter_type_);
    add_op(OpKind::fill, {}, {wanted = new_like(boxes)});
    const TensorId distance = new_like(loss);
    add_other("smooth_l1_loss", {boxes, wanted}, distance);
    loss = apply(OpKind::add, {loss, distance});
  }

  phase_ = Phase::backward;
  const TensorId root = scale_loss(loss);
  TensorId one = new_like(root);
  add_op(OpKind::fill, {root}, {one});
  one = scale_loss(one);
  differentiate(own, one);
  if (auxiliary) differentiate(*auxiliary, apply(OpKind::mul, {one}));
  if (boxes != no_tensor) {
    const TensorId by_box = new_like(boxes);
    add_other("smooth_l1_loss_backward", {one, boxes, wanted}, by_box);
    accumulate_layer_grad(network_.boxes, by_box, false);
  }
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
  const std::int32_t index = which < own.size() ? own.at(which) : own[0] + static_cast<std::int32_t>(which);
  if (index < 0) return;
  add_parameter_grad(static_cast<std::size_t>(index), cast(gradient, trained_type_));
}

/// Gradients of one step are those of the parameter's uses, summed; of several they are added to what there is.
void StepBuilder::add_parameter_grad(std::size_t index, TensorId gradient) {
  if (sums_.size() <= index) sums_.resize(parameters_.size(), no_tensor);
  TensorId& sum = sums_[index];
  if (sum == no_tensor) {
    sum = gradient;
  } else if (const TensorId first = sum; graph_.tensors()[first].storage == first) {
    add_op(OpKind::add, {first, gradient}, {first});
  } else {
    sum = new_like(first);
    add_op(OpKind::add, {first, gradient}, {sum});
    graph_.set_role(graph_.tensors()[first].storage, TensorRole::temporary);
  }
  if (style_.accumulate == 1) {
    graph_.set_role(graph_.tensors()[sum].storage, TensorRole::gradient);
    gradients_[index] = sum;
  } else if (--uses_[index] == 0) {
    add_op(OpKind::add, {gradients_[index], sum}, {gradients_[index]});
  }
}

void StepBuilder::add_backward_op(OpKind kind, std::initializer_list<TensorId> inputs, bool has_bias) {
  const LayerState& s = state();
  const TensorId of_input = input_needs_gradient(0) ? new_like(s.inputs[0]) : no_tensor;
  const TensorId of_weight = is_trained(0) ? new_like(s.weights[0]) : no_tensor;
  const TensorId of_bias = has_bias && is_trained(1) ? new_like(s.weights[1]) : no_tensor;
  add_op(kind, inputs, {of_input, of_weight, of_bias});
  if (of_input != no_tensor) accumulate_grad(0, of_input);
  if (of_weight != no_tensor) accumulate_parameter_grad(0, of_weight);
  if (of_bias != no_tensor) accumulate_parameter_grad(1, of_bias);
}

OpGraph training_step(const Network& network, const StepStyle& style) {
  OpGraph step = StepBuilder(network, style).build();
  check_held(step, network.name, max_step_bytes);
  check_moved(step, network.name);
  return step;
}

}  // namespace perfpred
