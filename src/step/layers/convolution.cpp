// SPDX-License-Identifier: Apache-2.0
#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

void convolution_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input(0, step.compute_type());
  step.read_weights(step.compute_type());
  s.output = step.new_tensor(layer.output, step.compute_type());
  if (layer.bias) {
    step.add_op(OpKind::convolution, {x, s.weights[0], s.weights[1]}, {s.output});
  } else {
    step.add_op(OpKind::convolution, {x, s.weights[0]}, {s.output});
  }
}

void convolution_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  step.add_backward_op(OpKind::convolution_backward, {s.gradient, s.inputs[0], s.weights[0]}, layer.bias);
}

void batch_norm_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  step.read_weights(step.parameter_type());
  const auto [mean, variance, batches] = step.buffers();
  step.add_op(OpKind::add, {batches}, {batches});
  s.output = step.new_like(x);
  s.saved[0] = step.new_tensor({layer.out_channels}, step.parameter_type());
  s.saved[1] = step.new_tensor({layer.out_channels}, step.parameter_type());
  step.add_op(OpKind::batch_norm, {x, s.weights[0], s.weights[1], mean, variance}, {s.output, s.saved[0], s.saved[1]});
}

void batch_norm_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const auto [mean, variance, batches] = step.buffers();
  step.add_backward_op(OpKind::batch_norm_backward,
                       {s.gradient, s.inputs[0], s.weights[0], mean, variance, s.saved[0], s.saved[1]});
}

void max_pool_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();
  s.output = step.new_tensor(layer.output, step.type(x));
  s.saved[0] = step.new_tensor(layer.output, DataType::i64);
  step.add_op(OpKind::max_pool2d, {x}, {s.output, s.saved[0]});
}

void max_pool_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId gx = step.new_like(s.inputs[0]);
  step.add_op(OpKind::max_pool2d_backward, {s.gradient, s.inputs[0], s.saved[0]}, {gx});
  step.accumulate_grad(0, gx);
}

template <OpKind kind>
void average_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.read_input();
  step.state().output = step.apply(kind, {x}, layer.output);
}

template <OpKind kind>
void average_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId gx = step.new_like(s.inputs[0]);
  step.add_op(kind, {s.gradient, s.inputs[0]}, {gx});
  step.accumulate_grad(0, gx);
}

/// The mean keeps only the input's shape. Its gradient has the strides of one channel after the other, where linear
/// layers over channels need one pixel after the other.
void global_average_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const Shape from = step.shape(s.inputs[0]);
  step.accumulate_grad(0, step.apply(OpKind::div, {s.gradient}, from), true);
}

}  // namespace

std::span<const LayerRule> image_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::conv2d, convolution_forward, convolution_backward},
      {LayerKind::batch_norm, batch_norm_forward, batch_norm_backward},
      {LayerKind::max_pool, max_pool_forward, max_pool_backward},
      {LayerKind::avg_pool, average_forward<OpKind::avg_pool2d>, average_backward<OpKind::avg_pool2d_backward>},
      {LayerKind::adaptive_avg_pool, average_forward<OpKind::adaptive_avg_pool2d>,
       average_backward<OpKind::adaptive_avg_pool2d_backward>},
      {LayerKind::global_avg_pool, average_forward<OpKind::mean>, global_average_backward},
  });
  return rules;
}

}  // namespace perfpred
