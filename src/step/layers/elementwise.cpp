// SPDX-License-Identifier: Apache-2.0
#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

template <OpKind kind>
void pointwise_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.read_input();
  const TensorId y = step.state().output = layer.in_place ? step.view(x, layer.output) : step.new_like(x);
  step.add_op(kind, {x}, {y});
}

/// Activations whose derivative follows from their input.
template <OpKind kind>
void backward_from_input(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.accumulate_grad(0, step.apply(kind, {s.gradient, s.inputs[0]}));
}

/// Activations whose derivative follows from their output.
template <OpKind kind>
void backward_from_output(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  step.accumulate_grad(0, step.apply(kind, {s.gradient, s.output}));
}

void scale_backward(StepBuilder& step, const Layer&) {
  step.accumulate_grad(0, step.apply(OpKind::mul, {step.state().gradient}));
}

void add_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = s.inputs[0] = step.input(0);
  const TensorId y = s.inputs[1] = step.input(1);
  const DataType wider = step.wider(step.type(x), step.type(y));
  const bool in_place = layer.in_place && step.type(x) == wider;
  s.output = in_place ? step.view(x, layer.output) : step.new_tensor(layer.output, wider);
  step.add_op(OpKind::add, {x, y}, {s.output});
}

void add_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  step.accumulate_grad(0, s.gradient, s.strided);
  if (!step.input_needs_gradient(1)) return;
  const Shape second = step.shape(s.inputs[1]);
  if (second == layer.output) {
    step.accumulate_grad(1, s.gradient, s.strided);
  } else {
    step.accumulate_grad(1, step.sum_to(s.gradient, second));
  }
}

void mul_forward(StepBuilder& step, const Layer&) {
  const TensorId x = step.read_input(0);
  const TensorId y = step.read_input(1);
  step.state().output = step.apply(OpKind::mul, {x, y});
}

void mul_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const Shape second = step.shape(s.inputs[1]);
  const TensorId gx = step.apply(OpKind::mul, {s.gradient, s.inputs[1]});
  const TensorId product = step.apply(OpKind::mul, {s.gradient, s.inputs[0]});
  step.accumulate_grad(0, gx);
  step.accumulate_grad(1, second == layer.output ? product : step.sum_to(product, second));
}

template <bool adapter>
void cast_forward(StepBuilder& step, const Layer&) {
  step.state().output = step.cast(step.input(0), adapter ? step.trained_type() : DataType::f32);
}

/// Types are those of autograd's results: accumulate_grad() casts.
void cast_backward(StepBuilder& step, const Layer&) {
  step.accumulate_grad(0, step.state().gradient, step.state().strided);
}

void unit_scale_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  step.read_weights(step.weight_type());
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), step.weight_type()));
  step.add_op(OpKind::mul, {x, s.weights[0]}, {s.output});
}

void unit_scale_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const TensorId gx = step.new_tensor(layer.output, step.type(s.gradient));
  step.add_op(OpKind::mul, {s.gradient, s.weights[0]}, {gx});
  if (step.is_trained()) {
    const Shape units = step.shape(s.weights[0]);
    step.accumulate_parameter_grad(0, step.sum_to(step.apply(OpKind::mul, {s.gradient, s.inputs[0]}), units));
  }
  step.accumulate_grad(0, gx);
}

/// peft's tuners/lora/dora.py: the norms of the rows of W + B A, which have no gradient; B A as the product of the
/// identity with both.
void weight_norm_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const DataType type = step.trained_type();
  const Shape square = {layer.in_channels, layer.in_channels}, whole = {layer.in_channels, layer.out_channels};
  const TensorId identity = step.new_tensor(square, type);
  step.add_op(OpKind::fill, {}, {identity});
  const TensorId a = step.transposed(step.later_state(-4).weights[0]),
                 b = step.transposed(step.later_state(-3).weights[0]);
  const TensorId inner = step.new_tensor({layer.in_channels, layer.index}, type), added = step.new_tensor(whole, type);
  step.add_op(OpKind::mm, {identity, a}, {inner});
  step.add_op(OpKind::mm, {inner, b}, {added});
  const TensorId sum = step.apply(OpKind::add, {step.apply(OpKind::mul, {added}), added});
  const TensorId norms = step.new_tensor({layer.out_channels}, type);
  step.add_other("linalg_vector_norm", {sum}, norms);
  step.read_weights(type);
  s.saved[0] = step.apply(OpKind::div, {s.weights[0], norms});
  const TensorId x = step.read_input();
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), type));
  step.add_op(OpKind::mul, {x, s.saved[0]}, {s.output});
}

void weight_norm_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const TensorId gx = step.new_tensor(layer.output, step.type(s.gradient));
  step.add_op(OpKind::mul, {s.gradient, s.saved[0]}, {gx});
  const Shape units = step.shape(s.saved[0]);
  const TensorId of_factor = step.sum_to(step.apply(OpKind::mul, {s.gradient, s.inputs[0]}), units);
  step.accumulate_parameter_grad(0, step.apply(OpKind::div, {of_factor}));
  step.accumulate_grad(0, gx);
}

/// Also stochastic depth, which draws one number a sample. Networks of transformers have PyTorch's kernel for GPUs, as
/// perfpred.capture records it.
void dropout_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  const bool samples = layer.kind == LayerKind::stochastic_depth;
  if (!samples && step.network().own_loss) {
    s.output = step.new_tensor(layer.output, step.type(x));
    s.saved[0] = step.new_tensor(layer.output, DataType::u8);
    return step.add_op(OpKind::native_dropout, {x}, {s.output, s.saved[0]});
  }
  s.saved[0] = step.new_tensor(samples ? Shape{layer.output[0], 1, 1, 1} : layer.output, step.type(x));
  step.add_op(OpKind::bernoulli, {s.saved[0]}, {s.saved[0]});
  step.add_op(OpKind::div, {s.saved[0]}, {s.saved[0]});
  s.output = step.apply(OpKind::mul, {x, s.saved[0]});
}

void dropout_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const bool in_one = step.type(s.saved[0]) == DataType::u8;
  step.accumulate_grad(0, step.apply(in_one ? OpKind::native_dropout_backward : OpKind::mul, {s.gradient, s.saved[0]}),
                       s.strided);
}

void layer_scale_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  step.read_weights(step.weight_type());
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), step.weight_type()));
  step.add_op(OpKind::mul, {s.weights[0], x}, {s.output});
}

void layer_scale_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const Shape channels = step.shape(s.weights[0]);
  const TensorId product = step.apply(OpKind::mul, {s.gradient, s.inputs[0]});
  const TensorId gw = step.sum_to(product, channels);
  const TensorId gx = step.apply(OpKind::mul, {s.gradient, s.weights[0]});
  step.accumulate_parameter_grad(0, gw);
  step.accumulate_grad(0, gx, s.strided);
}

void position_embedding_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  step.read_weights(step.weight_type());
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), step.weight_type()));
  step.add_op(OpKind::add, {x, s.weights[0]}, {s.output});
}

void position_embedding_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId g = s.gradient;
  const Shape table = step.shape(s.weights[0]);
  step.accumulate_grad(0, g);
  const bool one_sample = step.shape(g) == table;  // the gradient is kept for the input, too, so it is copied
  step.accumulate_parameter_grad(0, one_sample ? step.apply(OpKind::copy, {g}) : step.sum_to(g, table));
}

}  // namespace

std::span<const LayerRule> elementwise_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::relu, pointwise_forward<OpKind::relu>, backward_from_output<OpKind::threshold_backward>},
      {LayerKind::relu6, pointwise_forward<OpKind::hardtanh>, backward_from_input<OpKind::hardtanh_backward>},
      {LayerKind::hardswish, pointwise_forward<OpKind::hardswish>, backward_from_input<OpKind::hardswish_backward>},
      {LayerKind::hardsigmoid, pointwise_forward<OpKind::hardsigmoid>,
       backward_from_input<OpKind::hardsigmoid_backward>},
      {LayerKind::silu, pointwise_forward<OpKind::silu>, backward_from_input<OpKind::silu_backward>},
      {LayerKind::sigmoid, pointwise_forward<OpKind::sigmoid>, backward_from_output<OpKind::sigmoid_backward>},
      {LayerKind::tanh, pointwise_forward<OpKind::tanh>, backward_from_output<OpKind::tanh_backward>},
      {LayerKind::gelu, pointwise_forward<OpKind::gelu>, backward_from_input<OpKind::gelu_backward>},
      {LayerKind::gelu_tanh, pointwise_forward<OpKind::gelu>, backward_from_input<OpKind::gelu_backward>},
      {LayerKind::scale, pointwise_forward<OpKind::mul>, scale_backward},
      {LayerKind::to_float, cast_forward<false>, cast_backward},
      {LayerKind::to_adapter, cast_forward<true>, cast_backward},
      {LayerKind::unit_scale, unit_scale_forward, unit_scale_backward},
      {LayerKind::weight_norm, weight_norm_forward, weight_norm_backward},
      {LayerKind::add, add_forward, add_backward},
      {LayerKind::mul, mul_forward, mul_backward},
      {LayerKind::dropout, dropout_forward, dropout_backward},
      {LayerKind::stochastic_depth, dropout_forward, dropout_backward},
      {LayerKind::layer_scale, layer_scale_forward, layer_scale_backward},
      {LayerKind::position_embedding, position_embedding_forward, position_embedding_backward},
  });
  return rules;
}

}  // namespace perfpred
