// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {

void view_forward(StepBuilder& step, const Layer& layer) {
  step.state().output = step.view(step.input(0), layer.output);
}

void view_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const Shape from = step.shape(step.input(0));
  step.accumulate_grad(0, step.view(s.gradient, from), s.strided);
}

void copy_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.read_input();
  step.state().output = step.apply(OpKind::copy, {x}, layer.output);
}

void copy_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const Shape from = step.shape(s.inputs[0]);
  if (s.strided) {  // the transposed gradient of attention's keys: its heads lie side by side already
    step.accumulate_grad(0, step.view(s.gradient, from), true);
    return;
  }
  step.accumulate_grad(0, step.apply(OpKind::copy, {s.gradient}, from));
}

namespace {

/// Channels lie side by side in channels-last memory, and apart in a row of features.
void flatten_forward(StepBuilder& step, const Layer& layer) {
  const Shape image = step.shape(step.input(0));
  const bool has_pixels = image[1] != layer.output[1];
  (step.channels_last() && has_pixels && image[1] > 1 ? copy_forward : view_forward)(step, layer);
}

/// Those of a box lie side by side in channels-last memory.
void to_tokens_forward(StepBuilder& step, const Layer& layer) {
  const bool has_pixels = layer.output[1] != layer.groups;
  (layer.groups > 1 && has_pixels && !step.channels_last() ? copy_forward : view_forward)(step, layer);
}

void concat_forward(StepBuilder& step, const Layer& layer) {
  std::vector<TensorId> parts;
  parts.reserve(layer.input_count);
  for (std::size_t i = 0; i < layer.input_count; ++i) parts.push_back(step.input(i));
  DataType widest = step.type(parts[0]);
  for (const TensorId part : parts) widest = step.type(part) == widest ? widest : step.parameter_type();
  const TensorId joined = step.state().output = step.new_tensor(layer.output, widest);
  step.add_op(OpKind::cat, parts, {&joined, 1});
}

void concat_backward(StepBuilder& step, const Layer& layer) {
  const TensorId g = step.state().gradient;
  for (std::size_t i = 0; i < layer.input_count; ++i) {
    const Shape part = step.shape(step.input(i));
    if (step.input_needs_gradient(i)) step.accumulate_grad(i, step.view(g, part));
  }
}

/// Parts are consecutive layers, so the first one is reached last; autograd joins all their gradients at once.
void chunk_backward(StepBuilder& step, const Layer& layer) {
  if (layer.index != 0) return;
  std::vector<TensorId> parts;
  for (std::int32_t part = 0; part < layer.count; ++part) parts.push_back(step.later_state(part).gradient);
  const TensorId gx = step.new_like(step.input(0));
  step.add_op(OpKind::cat, parts, {&gx, 1});
  step.accumulate_grad(0, gx);
}

/// The heads of one sample are a strided view.
void split_heads_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.input(0);
  if (step.shape(x)[0] != 1) {
    copy_forward(step, layer);
    return;
  }
  step.state().inputs[0] = x;
  step.state().output = step.view(x, layer.output);
}

void merge_heads_backward(StepBuilder& step, const Layer& layer) {
  const LayerState& s = step.state();
  const Shape from = step.shape(s.inputs[0]);
  if (from[0] == layer.groups) {  // one sample
    step.accumulate_grad(0, step.view(s.gradient, from));
  } else {
    copy_backward(step, layer);
  }
}

void class_token_forward(StepBuilder& step, const Layer& layer) {
  LayerState& s = step.state();
  const TensorId x = step.read_input();  // joining promotes the type by itself
  step.read_weights(step.weight_type());
  s.output = step.new_tensor(layer.output, step.wider(step.type(x), step.weight_type()));
  step.add_op(OpKind::cat, {s.weights[0], x}, {s.output});
}

void class_token_backward(StepBuilder& step, const Layer&) {
  const LayerState& s = step.state();
  const TensorId g = s.gradient;
  const Shape token = step.shape(s.weights[0]);
  const Shape rest = step.shape(s.inputs[0]);
  const TensorId of_token = step.view(g, token.with(0, rest[0]));
  step.accumulate_parameter_grad(0, rest[0] == 1 ? of_token : step.sum_to(of_token, token));
  step.accumulate_grad(0, step.view(g, rest));
}

void first_token_backward(StepBuilder& step, const Layer&) {
  const TensorId g = step.state().gradient;
  const Shape from = step.shape(step.input(0));
  step.accumulate_grad(0, step.apply(OpKind::select_backward, {g}, from));
}

}  // namespace

std::span<const LayerRule> rearrangement_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::to_nhwc, view_forward, view_backward},
      {LayerKind::to_nchw, view_forward, view_backward},
      {LayerKind::to_tokens, to_tokens_forward, view_backward},
      {LayerKind::join_windows, view_forward, view_backward},
      {LayerKind::part_windows, view_forward, view_backward},
      {LayerKind::flatten, flatten_forward, view_backward},
      {LayerKind::concat, concat_forward, concat_backward},
      {LayerKind::chunk, view_forward, chunk_backward},
      {LayerKind::channel_shuffle, copy_forward, copy_backward},
      {LayerKind::split_heads, split_heads_forward, copy_backward},
      {LayerKind::merge_heads, copy_forward, merge_heads_backward},
      {LayerKind::class_token, class_token_forward, class_token_backward},
      {LayerKind::first_token, view_forward, first_token_backward},
  });
  return rules;
}

}  // namespace perfpred
