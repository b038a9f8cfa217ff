// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

Shape turned_part(const Layer& layer) {
  const std::int64_t turned = layer.in_channels * layer.groups;
  return turned == 0 || turned == layer.output[2] ? layer.output : layer.output.with(2, turned);
}

/// x cos + (-x2, x1) sin, x1 and x2 the halves of a head, which are views; of a part of each head, to which the rest is
/// joined.
void rotary_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId given = step.read_input();
  const auto [cosines, sines] = step.rotations();
  const Shape turned_shape = turned_part(layer), half = turned_shape.with(2, turned_shape[2] / 2);
  const TensorId x = turned_shape == layer.output ? given : step.view(given, turned_shape);
  const DataType type = step.wider(step.type(x), step.type(cosines));
  const TensorId straight = step.new_tensor(turned_shape, type);
  step.add_op(OpKind::mul, {x, cosines}, {straight});
  const TensorId negated = step.new_tensor(half, step.type(x));
  step.add_other("neg", {step.view(x, half)}, negated);
  const TensorId turned = step.new_tensor(turned_shape, step.type(x));
  step.add_op(OpKind::cat, {negated, step.view(x, half)}, {turned});
  const TensorId crossed = step.new_tensor(turned_shape, type);
  step.add_op(OpKind::mul, {turned, sines}, {crossed});
  s.output = step.apply(OpKind::add, {straight, crossed});
  if (x == given) return;
  const TensorId rest = step.view(given, layer.output.with(2, layer.output[2] - turned_shape[2]));
  s.output = step.apply(OpKind::cat, {s.output, rest}, layer.output);
}

void rotary_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const auto [cosines, sines] = step.rotations();
  const DataType type = step.type(s.inputs[0]);
  const Shape turned_shape = turned_part(layer), half = turned_shape.with(2, turned_shape[2] / 2);
  const bool whole = turned_shape == layer.output;
  const TensorId g = whole ? s.gradient : step.view(s.gradient, turned_shape);
  const TensorId turned = step.cast(step.apply(OpKind::mul, {g, sines}), type);
  const TensorId negated = step.new_tensor(half, type);
  step.add_other("neg", {step.view(turned, half)}, negated);
  std::array<TensorId, 2> parts = {negated, step.view(turned, half)};
  for (TensorId& part : parts) {
    const TensorId padded = step.new_tensor(turned_shape, type);
    step.add_op(OpKind::slice_backward, {part}, {padded});
    part = padded;
    if (whole) step.accumulate_grad(0, part);
  }
  const TensorId straight = step.apply(OpKind::mul, {g, cosines});
  if (whole) return step.accumulate_grad(0, straight);
  for (const TensorId part : {parts[1], step.cast(straight, type)})
    step.add_op(OpKind::add, {parts[0], part}, {parts[0]});
  const Shape rest = layer.output.with(2, layer.output[2] - turned_shape[2]);
  for (const TensorId part : {parts[0], step.view(s.gradient, rest)}) {
    const TensorId padded = step.new_tensor(layer.output, type);
    step.add_op(OpKind::slice_backward, {part}, {padded});
    step.accumulate_grad(0, padded);
  }
}

/// What the backward pass needs beside operands and outputs: activated gates, the LSTM's cell state, the part of a
/// GRU's third gate that its first one multiplies; between layers their outputs, and again what dropout leaves of them.
std::int64_t kept_elements(const Layer& layer) {
  const std::int64_t of_layer = layer.cell == RnnCell::lstm ? 5 : layer.cell == RnnCell::gru ? 4 : 0;
  const std::int64_t between = layer.value > 0 ? 2 : 1;
  return Shape::product(std::array{layer.output.numel(), layer.count * of_layer + (layer.count - 1) * between});
}

/// First states of zeros, the operator with the positions in front, and its result with the samples in front, which is
/// a copy unless there is only one position or sample.
void rnn_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const Shape in = step.shape(step.input(0));
  const Shape states = {layer.count * layer.groups, in[0], layer.out_channels};
  std::vector<TensorId> first;
  for (int i = 0; i < (layer.cell == RnnCell::lstm ? 2 : 1); ++i) {
    first.push_back(step.new_tensor(states, step.type(step.input(0))));
    step.add_op(OpKind::fill, {}, {first.back()});
  }
  const DataType compute = step.compute_type();
  s.operands.push_back(step.read_input(0, compute));
  for (TensorId& state : first) state = step.cast(state, compute);
  step.read_all_weights(compute, s.operands);
  s.operands.insert(s.operands.end(), first.begin(), first.end());
  s.saved[0] = step.new_tensor(layer.output, compute);
  s.saved[1] = step.new_tensor({kept_elements(layer)}, compute);
  const TensorId last_state = step.new_tensor(states, compute);
  const TensorId last_cell = layer.cell == RnnCell::lstm ? step.new_tensor(states, compute) : no_tensor;
  step.add_op(OpKind::rnn, s.operands, std::array{s.saved[0], last_state, last_cell, s.saved[1]});
  s.output = in[0] == 1 || in[1] == 1 ? s.saved[0] : step.apply(OpKind::copy, {s.saved[0]});
}

void rnn_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  std::vector<TensorId> read = s.operands;
  for (const TensorId id : {s.saved[0], s.gradient, s.saved[1]}) read.push_back(id);
  const TensorId gx = step.input_needs_gradient(0) ? step.new_like(s.inputs[0]) : no_tensor;
  std::vector<TensorId> gradients = {gx, no_tensor, no_tensor};
  const std::size_t count = Network::parameters(layer).count;
  for (std::size_t i = 0; i < count; ++i) gradients.push_back(step.new_like(s.operands[1 + i]));
  step.add_op(OpKind::rnn_backward, read, gradients);
  if (gx != no_tensor) step.accumulate_grad(0, gx);
  for (std::size_t i = 0; i < count; ++i) step.accumulate_parameter_grad(i, gradients[3 + i]);
}

}  // namespace

std::span<const LayerRule> sequence_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::rotary, rotary_forward, rotary_backward},
      {LayerKind::rnn, rnn_forward, rnn_backward},
  });
  return rules;
}

}  // namespace perfpred
