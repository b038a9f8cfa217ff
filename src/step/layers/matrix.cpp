// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

/// The input's rows are flattened into one matrix.
void linear_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  step.read_weights(step.product_type());
  TensorId x = step.read_input(0, step.product_type());
  const Shape in = step.shape(x);
  const bool folded = in.rank() != 2;
  if (folded) x = s.inputs[0] = step.view(x, {in.numel() / in.back(), in.back()});
  const TensorId weight = step.transposed(s.weights[0]);
  const Shape rows = step.shape(x);
  const TensorId y = step.new_tensor({rows[0], layer.out_channels}, step.product_type());
  if (layer.bias) {
    step.add_op(OpKind::addmm, {s.weights[1], x, weight}, {y});
  } else {
    step.add_op(OpKind::mm, {x, weight}, {y});
  }
  s.output = folded ? step.view(y, layer.output) : y;
}

void linear_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const TensorId x = s.inputs[0];
  TensorId g = s.gradient;
  const Shape rows = step.shape(x);
  const Shape given = step.shape(g);
  if (s.strided && given[0] > 1) g = step.apply(OpKind::copy, {g});
  if (given.rank() != 2) g = step.view(g, {rows[0], layer.out_channels});
  if (step.input_needs_gradient(0)) {
    step.unpack_weight(step.type(s.weights[0]));
    TensorId gx = step.new_tensor(rows, step.type(g));
    step.add_op(OpKind::mm, {g, s.weights[0]}, {gx});
    if (given.rank() != 2) gx = step.view(gx, given.with(given.rank() - 1, layer.in_channels));
    step.accumulate_grad(0, gx);
  }
  if (step.is_trained(0)) {
    const TensorId gw = step.new_tensor({layer.out_channels, layer.in_channels}, step.type(g));
    step.add_op(OpKind::mm, {step.transposed(g), x}, {gw});
    // A view, which a second gradient is not added to in place.
    step.accumulate_parameter_grad(0, layer.tied_to >= 0 ? step.view(gw, {layer.out_channels, layer.in_channels}) : gw);
  }
  if (layer.bias && step.is_trained(1)) step.accumulate_parameter_grad(1, step.sum_to(g, {layer.out_channels}));
}

void embedding_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  step.read_weights(step.weight_type());
  s.inputs[0] = step.input(0);
  s.output = step.new_tensor(layer.output, step.weight_type());
  step.add_op(OpKind::embedding, {s.weights[0], s.inputs[0]}, {s.output});
}

void embedding_backward(StepBuilder& step, const Layer&) {
  if (!step.is_trained()) return;
  const LayerState& s = step.state();
  const TensorId gw = step.new_like(s.weights[0]);
  step.add_op(OpKind::embedding_backward, {s.gradient, s.inputs[0]}, {gw});
  step.accumulate_parameter_grad(0, gw);
}

void layer_norm_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input(0, step.parameter_type());
  step.read_weights(step.parameter_type());
  s.output = step.new_like(x);
  const Shape statistics = layer.output.with(layer.output.rank() - 1, 1);
  s.saved[0] = step.new_tensor(statistics, step.parameter_type());
  s.saved[1] = step.new_tensor(statistics, step.parameter_type());
  step.add_op(OpKind::layer_norm, {x, s.weights[0], s.weights[1]}, {s.output, s.saved[0], s.saved[1]});
}

void layer_norm_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.add_backward_op(OpKind::layer_norm_backward,
                       {s.gradient, s.inputs[0], s.saved[0], s.saved[1], s.weights[0], s.weights[1]});
}

void rms_norm_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input(0, step.parameter_type());
  step.read_weights(step.parameter_type());
  s.output = step.new_like(x);
  s.saved[0] = step.new_tensor(layer.output.with(layer.output.rank() - 1, 1), step.parameter_type());
  step.add_op(OpKind::rms_norm, {x, s.weights[0]}, {s.output, s.saved[0]});
}

void rms_norm_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.add_backward_op(OpKind::rms_norm_backward, {s.gradient, s.inputs[0], s.saved[0], s.weights[0]}, false);
}

template <bool transposed>
void matmul_forward(StepBuilder& step, const Layer& layer) {
  const TensorId a = step.read_input(0, step.compute_type());
  TensorId b = step.read_input(1, step.compute_type());
  if constexpr (transposed) b = step.transposed(b);
  const TensorId y = step.state().output = step.new_tensor(layer.output, step.compute_type());
  step.add_op(OpKind::bmm, {a, b}, {y});
}

void matmul_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId ga = step.new_like(s.inputs[0]);
  const TensorId gb = step.new_like(s.inputs[1]);
  step.add_op(OpKind::bmm, {s.gradient, step.transposed(s.inputs[1])}, {ga});
  step.add_op(OpKind::bmm, {step.transposed(s.inputs[0]), s.gradient}, {gb});
  step.accumulate_grad(0, ga);
  step.accumulate_grad(1, gb);
}

void matmul_transposed_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId ga = step.new_like(s.inputs[0]);
  const TensorId gb = step.new_like(step.transposed(s.inputs[1]));
  step.add_op(OpKind::bmm, {s.gradient, s.inputs[1]}, {ga});
  step.add_op(OpKind::bmm, {step.transposed(s.inputs[0]), s.gradient}, {gb});
  step.accumulate_grad(0, ga);
  step.accumulate_grad(1, step.transposed(gb), true);
}

void causal_mask_forward(StepBuilder& step, const Layer&) {
  const TensorId x = step.read_input();
  step.state().output = step.apply(OpKind::masked_fill, {x, step.causal_mask()});
}

void causal_mask_backward(StepBuilder& step, const Layer&) {
  step.accumulate_grad(0, step.apply(OpKind::masked_fill, {step.state().gradient, step.causal_mask()}));
}

void softmax_forward(StepBuilder& step, const Layer&) {
  const TensorId x = step.read_input(0, step.parameter_type());
  step.state().output = step.apply(OpKind::softmax, {x});
}

void softmax_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.accumulate_grad(0, step.apply(OpKind::softmax_backward, {s.gradient, s.output}));
}

/// Heads are views. A mask becomes what is added to scores. Autograd keeps q, k, v, the result, its log-sum-exp and the
/// two numbers that dropout drew from.
void attention_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorId x = step.read_input(i, step.compute_type());
    const Shape in = step.shape(x);
    const std::int64_t heads = i == 0 ? layer.groups : layer.count;
    s.inputs[i] = step.view(x, {in[0], heads, in[1], in[2] / heads});
  }
  const Shape queries = step.shape(s.inputs[0]);
  s.saved[0] = step.new_tensor(queries, step.compute_type());
  s.saved[1] = step.new_tensor({queries[0], queries[1], queries[2]}, step.parameter_type());
  std::vector<TensorId> results = {s.saved[0], s.saved[1]};
  if (layer.value > 0) results.push_back(s.saved[2] = step.new_tensor({2}, DataType::i64));
  std::vector<TensorId> read(s.inputs.begin(), s.inputs.end());
  if (layer.index == 1) {
    s.operands = {step.new_tensor(step.shape(step.pair_mask()), step.compute_type())};
    step.add_other("where", {step.pair_mask()}, s.operands[0]);
    read.push_back(s.operands[0]);
  } else if (layer.index == 2) {
    s.operands = {step.read_input(3, step.compute_type())};
    read.push_back(s.operands[0]);
  }
  step.add_op(OpKind::attention, read, results, layer.causal);
  s.output = step.view(s.saved[0], layer.output);
}

void attention_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const auto& [q, k, v] = s.inputs;
  const Shape queries = step.shape(q);
  std::vector<TensorId> read = {step.view(s.gradient, queries), q, k, v, s.saved[0], s.saved[1]};
  if (s.saved[2] != no_tensor) read.push_back(s.saved[2]);
  read.insert(read.end(), s.operands.begin(), s.operands.end());
  std::vector<TensorId> gradients;
  for (const TensorId input : s.inputs) gradients.push_back(step.new_like(input));
  if (layer.index == 2) gradients.push_back(step.new_like(s.operands[0]));
  step.add_op(OpKind::attention_backward, read, gradients, layer.causal);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Shape given = step.shape(step.input(i));
    step.accumulate_grad(i, step.view(gradients[i], given));
  }
}

}  // namespace

std::span<const LayerRule> matrix_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::linear, linear_forward, linear_backward},
      {LayerKind::embedding, embedding_forward, embedding_backward},
      {LayerKind::layer_norm, layer_norm_forward, layer_norm_backward},
      {LayerKind::rms_norm, rms_norm_forward, rms_norm_backward},
      {LayerKind::matmul, matmul_forward<false>, matmul_backward},
      {LayerKind::matmul_transposed, matmul_forward<true>, matmul_transposed_backward},
      {LayerKind::causal_mask, causal_mask_forward, causal_mask_backward},
      {LayerKind::softmax, softmax_forward, softmax_backward},
      {LayerKind::attention, attention_forward, attention_backward},
  });
  return rules;
}

}  // namespace perfpred
