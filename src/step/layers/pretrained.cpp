// SPDX-License-Identifier: Apache-2.0
// What transformers writes out where PyTorch has an operator: modeling_llama.py, modeling_gemma.py, activations.py.
#include <array>
#include <vector>

#include "step/layer_rules.h"
#include "step/parts_needed.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

Shape rows_of(const Shape& shape) { return shape.with(shape.rank() - 1, 1); }

TensorId power(StepBuilder& step, TensorId x) {
  const TensorId result = step.new_like(x);
  step.add_other("pow", {x}, result);
  return result;
}

/// x32 / root of the mean of its squares; keeps x32 and the reciprocal of the root.
TensorId normalised(StepBuilder& step) {
  LayerState& s = step.state();
  const TensorId given = step.input(0);
  const TensorId x = s.inputs[0] = step.type(given) == DataType::f64 ? given : step.cast(given, DataType::f32);
  const TensorId mean = step.apply(OpKind::mean, {power(step, x)}, rows_of(step.shape(x)));
  const TensorId root = step.new_like(mean);
  step.add_other("rsqrt", {step.apply(OpKind::add, {mean})}, root);
  s.saved[0] = root;
  return step.apply(OpKind::mul, {x, root});
}

/// @param g  the gradient of what normalised() gives, in its type
void normalised_backward(StepBuilder& step, TensorId g) {
  const LayerState& s = step.state();
  const TensorId x = s.inputs[0], root = s.saved[0];
  const Shape rows = rows_of(step.shape(x));
  const TensorId of_root = step.sum_to(step.apply(OpKind::mul, {g, x}), rows);
  const TensorId direct = step.apply(OpKind::mul, {g, root});
  const TensorId of_mean = step.apply(OpKind::mul, {of_root, step.apply(OpKind::mul, {power(step, root)})});
  const TensorId spread = step.new_like(x);
  step.add_op(OpKind::div, {of_mean}, {spread});
  const TensorId doubled = step.apply(OpKind::mul, {power(step, x)});
  step.add_op(OpKind::add, {direct, step.apply(OpKind::mul, {spread, doubled})}, {direct});
  step.accumulate_grad(0, direct);
}

void llama_norm_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = s.saved[1] = step.cast(normalised(step), step.type(step.input(0)));
  step.read_weights(step.weight_type());
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), step.weight_type()));
  step.add_op(OpKind::mul, {s.weights[0], x}, {s.output});
}

void llama_norm_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  if (step.is_trained()) {
    const TensorId product = step.apply(OpKind::mul, {s.gradient, s.saved[1]});
    step.accumulate_parameter_grad(0, step.sum_to(product, step.shape(s.weights[0])));
  }
  if (!step.input_needs_gradient(0)) return;
  const TensorId g = step.cast(step.apply(OpKind::mul, {s.gradient, s.weights[0]}), step.type(s.saved[1]));
  normalised_backward(step, step.cast(g, step.type(s.inputs[0])));
}

void gemma_norm_forward(StepBuilder& step, const Layer&) {
  LayerState& s = step.state();
  s.saved[1] = normalised(step);
  step.read_weights(step.type(s.saved[1]));
  s.saved[2] = step.apply(OpKind::add, {s.weights[0]});
  s.output = step.cast(step.apply(OpKind::mul, {s.saved[1], s.saved[2]}), step.type(step.input(0)));
}

void gemma_norm_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId g = step.cast(s.gradient, step.type(s.saved[1]));
  if (step.is_trained()) {
    const TensorId product = step.apply(OpKind::mul, {g, s.saved[1]});
    step.accumulate_parameter_grad(0, step.sum_to(product, step.shape(s.weights[0])));
  }
  if (step.input_needs_gradient(0)) normalised_backward(step, step.apply(OpKind::mul, {g, s.saved[2]}));
}

/// 0.5 x (1 + tanh(c (x + d x^3))); autocast computes powers in single precision.
void gelu_new_forward(StepBuilder& step, const Layer&) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  const TensorId base = s.saved[0] = step.cast(x, step.parameter_type());
  const TensorId cube = step.apply(OpKind::mul, {power(step, base)});
  const TensorId sum = step.apply(OpKind::add, {cube, x});
  const TensorId curve = s.saved[1] = step.apply(OpKind::tanh, {step.apply(OpKind::mul, {sum})});
  const TensorId half = s.saved[2] = step.apply(OpKind::mul, {x});
  const TensorId factor = s.inputs[1] = step.apply(OpKind::add, {curve});
  s.output = step.new_like(factor);
  step.add_op(OpKind::mul, {half, factor}, {s.output});
}

void gelu_new_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId g = s.gradient;
  const TensorId of_half = step.cast(step.apply(OpKind::mul, {g, s.inputs[1]}), step.type(s.saved[2]));
  const TensorId of_curve = step.apply(OpKind::mul, {g, s.saved[2]});
  step.accumulate_grad(0, step.apply(OpKind::mul, {of_half}));
  const TensorId of_sum = step.apply(OpKind::mul, {step.apply(OpKind::tanh_backward, {of_curve, s.saved[1]})});
  step.accumulate_grad(0, of_sum);
  const TensorId square = step.apply(OpKind::mul, {power(step, s.saved[0])});
  step.accumulate_grad(0, step.apply(OpKind::mul, {step.apply(OpKind::mul, {of_sum}), square}));
}

void unit_slice_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId whole = step.new_tensor(step.shape(step.input(0)), step.type(s.gradient));
  step.add_op(OpKind::slice_backward, {s.gradient}, {whole});
  step.accumulate_grad(0, whole);
}

void repeat_heads_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.accumulate_grad(0, step.sum_to(s.gradient, step.shape(s.inputs[0])));
}

void token_and_mean_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.read_input();
  const Shape half = layer.output.with(1, layer.output[1] / 2);
  const TensorId mean = step.apply(OpKind::mean, {x}, half);
  step.state().output = step.apply(OpKind::cat, {step.view(x, half), mean}, layer.output);
}

void token_and_mean_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const Shape whole = step.shape(s.inputs[0]);
  const TensorId spread = step.new_tensor(whole, step.type(s.gradient));
  step.add_op(OpKind::div, {s.gradient}, {spread});
  step.accumulate_grad(0, spread);
  step.accumulate_grad(0, step.apply(OpKind::select_backward, {s.gradient}, whole));
}

/// Places in LayerState::operands.
struct ExpertTensor {
  static constexpr std::size_t order = 0, chances = 1, chosen = 2, rows = 3, both = 4, activated = 5, product = 6,
                               result = 7;
};

/// transformers' integrations/moe.py, grouped_mm_experts_forward(): positions sorted by expert, as many for each.
void experts_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input(0);
  const std::int64_t width = layer.in_channels, inner = layer.out_channels, count = layer.groups;
  const std::int64_t positions = step.shape(x).numel() / width, all = positions * layer.count;
  const std::int64_t each = parts_needed(all, count);
  const TensorId scores =
      step.cast(step.input(1), step.parameter_type() == DataType::f64 ? DataType::f64 : DataType::f32);
  s.operands.resize(ExpertTensor::result + 1);
  s.operands[ExpertTensor::chances] = step.apply(OpKind::softmax, {scores});
  const TensorId best = step.new_tensor({positions, layer.count}, step.type(scores));
  const TensorId which = step.new_tensor({positions, layer.count}, DataType::i64);
  step.add_update("topk", std::array{s.operands[ExpertTensor::chances]}, std::array{best, which});
  s.operands[ExpertTensor::chosen] = step.apply(OpKind::div, {best, step.sum_to(best, {positions, 1})});
  s.operands[ExpertTensor::order] = step.new_tensor({all}, DataType::i64);
  step.add_other("sort", {which}, s.operands[ExpertTensor::order]);
  const TensorId sorted = step.new_tensor({all, width}, step.type(x));
  step.add_other("index", {x, s.operands[ExpertTensor::order]}, sorted);
  s.operands[ExpertTensor::rows] = step.cast(sorted, step.product_type());
  step.read_weights(step.product_type());
  const DataType type = step.product_type();
  s.operands[ExpertTensor::both] = step.new_tensor({count, each, 2 * inner}, type);
  step.add_op(OpKind::bmm,
              {step.view(s.operands[ExpertTensor::rows], {count, each, width}), step.transposed(s.weights[0])},
              {s.operands[ExpertTensor::both]});
  const TensorId half = step.view(s.operands[ExpertTensor::both], {count, each, inner});
  s.operands[ExpertTensor::activated] = step.apply(OpKind::silu, {half});
  s.operands[ExpertTensor::product] = step.apply(OpKind::mul, {s.operands[ExpertTensor::activated], half});
  s.operands[ExpertTensor::result] = step.new_tensor({count, each, width}, type);
  step.add_op(OpKind::bmm, {s.operands[ExpertTensor::product], step.transposed(s.weights[1])},
              {s.operands[ExpertTensor::result]});
  const TensorId weighted =
      step.new_tensor({all, width}, step.wider(type, step.type(s.operands[ExpertTensor::chosen])));
  step.add_op(OpKind::mul,
              {step.view(s.operands[ExpertTensor::result], {all, width}), s.operands[ExpertTensor::chosen]},
              {weighted});
  const TensorId placed = step.new_like(weighted);
  step.add_other("index", {weighted, s.operands[ExpertTensor::order]}, placed);
  s.output = step.cast(step.sum_to(placed, layer.output), step.type(x));
}

void experts_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const std::int64_t width = layer.in_channels, inner = layer.out_channels, count = layer.groups;
  const std::int64_t each = step.shape(s.operands[ExpertTensor::both])[1],
                     all = step.shape(s.operands[ExpertTensor::order])[0];
  const DataType type = step.type(s.operands[ExpertTensor::both]);
  const DataType summed = step.wider(type, step.type(s.operands[ExpertTensor::chosen]));
  const TensorId sorted = step.new_tensor({all, width}, summed);
  step.add_other("index_put", {step.cast(s.gradient, summed), s.operands[ExpertTensor::order]}, sorted);
  const TensorId of_chosen = step.sum_to(step.apply(OpKind::mul, {sorted, s.operands[ExpertTensor::result]}), {all, 1});
  const TensorId weighted = step.cast(step.apply(OpKind::mul, {sorted, s.operands[ExpertTensor::chosen]}), type);
  const TensorId g = step.view(weighted, {count, each, width});
  step.unpack_weight(type);
  const TensorId of_product = step.new_like(s.operands[ExpertTensor::product]);
  step.add_op(OpKind::bmm, {g, s.weights[1]}, {of_product});
  if (step.is_trained(1)) {
    const TensorId of_down = step.new_like(s.weights[1]);
    step.add_op(OpKind::bmm, {step.transposed(g), s.operands[ExpertTensor::product]}, {of_down});
    step.accumulate_parameter_grad(1, of_down);
  }
  const TensorId half = step.view(s.operands[ExpertTensor::both], {count, each, inner});
  const TensorId of_up = step.apply(OpKind::mul, {of_product, s.operands[ExpertTensor::activated]});
  const TensorId of_gate = step.apply(OpKind::silu_backward, {step.apply(OpKind::mul, {of_product, half}), half});
  const TensorId of_both = step.new_like(s.operands[ExpertTensor::both]);
  step.add_op(OpKind::cat, {of_gate, of_up}, {of_both});
  if (step.is_trained(0)) {
    const TensorId of_gate_up = step.new_like(s.weights[0]);
    step.add_op(OpKind::bmm,
                {step.transposed(of_both), step.view(s.operands[ExpertTensor::rows], {count, each, width})},
                {of_gate_up});
    step.accumulate_parameter_grad(0, of_gate_up);
  }
  if (!step.input_needs_gradient(0)) return;
  const TensorId of_rows = step.new_like(s.operands[ExpertTensor::rows]);
  step.add_op(OpKind::bmm, {of_both, s.weights[0]}, {step.view(of_rows, {count, each, width})});
  const TensorId of_input = step.new_like(s.inputs[0]);
  step.add_other("index_put", {step.cast(of_rows, step.type(s.inputs[0])), s.operands[ExpertTensor::order]}, of_input);
  step.accumulate_grad(0, of_input);
  const TensorId of_chances = step.new_like(s.operands[ExpertTensor::chances]);
  step.add_other("scatter", {of_chosen}, of_chances);
  step.accumulate_grad(1, step.apply(OpKind::softmax_backward, {of_chances, s.operands[ExpertTensor::chances]}));
}

}  // namespace

std::span<const LayerRule> pretrained_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::llama_norm, llama_norm_forward, llama_norm_backward},
      {LayerKind::gemma_norm, gemma_norm_forward, gemma_norm_backward},
      {LayerKind::gelu_new, gelu_new_forward, gelu_new_backward},
      {LayerKind::slice, view_forward, unit_slice_backward},
      {LayerKind::reshape, view_forward, view_backward},
      {LayerKind::repeat_heads, copy_forward, repeat_heads_backward},
      {LayerKind::experts, experts_forward, experts_backward},
      {LayerKind::token_and_mean, token_and_mean_forward, token_and_mean_backward},
  });
  return rules;
}

}  // namespace perfpred
