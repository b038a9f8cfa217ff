// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

/// Operators whose gradient is the same operator on the result's gradient.
void moved_forward(StepBuilder& step, const Layer& layer, std::string_view name) {
  const TensorId x = step.read_input();
  const TensorId y = step.state().output = step.new_tensor(layer.output, step.type(x));
  step.add_other(name, {x}, y);
}

void moved_backward(StepBuilder& step, std::string_view name) {
  const LayerState& s = step.state();
  const Shape from = step.shape(s.inputs[0]);
  const TensorId gx = step.new_tensor(from, step.type(s.gradient));
  step.add_other(name, {s.gradient}, gx);
  step.accumulate_grad(0, gx);
}

void pad_forward(StepBuilder& step, const Layer& layer) { moved_forward(step, layer, "constant_pad_nd"); }
void pad_backward(StepBuilder& step, const Layer&) { moved_backward(step, "constant_pad_nd"); }
void roll_forward(StepBuilder& step, const Layer& layer) { moved_forward(step, layer, "roll"); }
void roll_backward(StepBuilder& step, const Layer&) { moved_backward(step, "roll"); }

/// The first rows of one sample lie in one piece.
void crop_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.input(0);
  const Shape in = step.shape(x);
  const bool in_one_piece = in[0] == 1 && in[2] == layer.output[2];
  const TensorId kept = step.view(x, layer.output);
  step.state().output = in_one_piece ? kept : step.apply(OpKind::copy, {kept});
}

/// Columns, then rows, each only where some were left out.
void crop_backward(StepBuilder& step, const Layer&) {
  TensorId g = step.state().gradient;
  const Shape from = step.shape(step.input(0));
  for (std::size_t axis = 2; axis > 0; --axis) {
    const Shape cropped = step.shape(g);
    if (cropped[axis] == from[axis]) continue;
    g = step.apply(OpKind::slice_backward, {g}, cropped.with(axis, from[axis]));
  }
  step.accumulate_grad(0, g);
}

/// Windows above each other lie in memory as the image does.
bool in_one_column(const Shape& image, const Layer& layer) { return image[2] == layer.kernel[1]; }

void to_windows_forward(StepBuilder& step, const Layer& layer) {
  const Shape image = step.shape(step.input(0));
  (in_one_column(image, layer) ? view_forward : copy_forward)(step, layer);
}

void to_windows_backward(StepBuilder& step, const Layer& layer) {
  const Shape image = step.shape(step.input(0));
  (in_one_column(image, layer) ? view_backward : copy_backward)(step, layer);
}

void from_windows_forward(StepBuilder& step, const Layer& layer) {
  (in_one_column(layer.output, layer) ? view_forward : copy_forward)(step, layer);
}

void from_windows_backward(StepBuilder& step, const Layer& layer) {
  (in_one_column(layer.output, layer) ? view_backward : copy_backward)(step, layer);
}

/// NxCxHxW: a single window is a view with one channel after the other.
bool is_one_window(const Shape& image, const Layer& layer) { return image[3] == layer.kernel[1]; }

void image_windows_forward(StepBuilder& step, const Layer& layer) {
  const Shape image = step.shape(step.input(0));
  (is_one_window(image, layer) ? view_forward : copy_forward)(step, layer);
}

void image_windows_backward(StepBuilder& step, const Layer& layer) {
  const TensorId g = step.state().gradient;
  const Shape image = step.shape(step.input(0));
  if (is_one_window(image, layer)) {
    step.accumulate_grad(0, step.view(g, image));
    return;
  }
  step.accumulate_grad(0, step.apply(OpKind::copy, {g}, image));
}

void windows_image_forward(StepBuilder& step, const Layer& layer) {
  (is_one_window(layer.output, layer) ? view_forward : copy_forward)(step, layer);
}

/// The gradient of positions that lie apart has windows and positions exchanged in memory.
void windows_image_backward(StepBuilder& step, const Layer& layer) {
  const TensorId g = step.state().gradient;
  const Shape windows = step.shape(step.input(0));
  if (is_one_window(layer.output, layer)) {
    step.accumulate_grad(0, step.view(g, windows), true);
    return;
  }
  step.accumulate_grad(0, step.apply(OpKind::copy, {g}, windows), layer.stride[0] > 1);
}

/// Four strided views, joined.
void merge_patches_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.read_input();
  const Shape quarter = layer.output.with(3, layer.output[3] / 4);
  std::array<TensorId, 4> parts{};
  for (TensorId& part : parts) part = step.view(x, quarter);
  const TensorId y = step.state().output = step.new_tensor(layer.output, step.type(x));
  step.add_op(OpKind::cat, parts, {&y, 1});
}

/// Each part's gradient, spread over columns, then over rows.
void merge_patches_backward(StepBuilder& step, const Layer& layer) {
  const TensorId g = step.state().gradient;
  const Shape from = step.shape(step.input(0));
  const Shape quarter = layer.output.with(3, layer.output[3] / 4);
  for (int part = 0; part < 4; ++part) {
    const TensorId rows = step.apply(OpKind::slice_backward, {step.view(g, quarter)}, quarter.with(2, from[2]));
    step.accumulate_grad(0, step.apply(OpKind::slice_backward, {rows}, from));
  }
}

/// The heads of one sample are strided views.
void select_heads_forward(StepBuilder& step, const Layer& layer) {
  const TensorId x = step.input(0);
  const bool one_sample = step.shape(x)[0] == 1;
  const TensorId part = step.view(x, layer.output);
  step.state().output = one_sample ? part : step.apply(OpKind::copy, {part});
}

/// Parts are consecutive layers, so the first one is reached last. The sum has the parts in front, and is copied.
void select_heads_backward(StepBuilder& step, const Layer& layer) {
  if (layer.index != 0) return;
  const Shape from = step.shape(step.input(0));
  TensorId sum = no_tensor;
  for (std::int32_t part = layer.count - 1; part >= 0; --part) {
    const TensorId g = step.later_state(part).gradient;
    const TensorId whole = step.apply(OpKind::select_backward, {g}, from);
    if (sum == no_tensor) {
      sum = whole;
    } else {
      step.add_op(OpKind::add, {sum, whole}, {sum});
    }
  }
  step.accumulate_grad(0, step.apply(OpKind::copy, {sum}));
}

/// Rows of the table with a position behind the other; then heads in front, in memory, too. @returns [1, groups, S, S]
TensorId bias_of_positions(StepBuilder& step, const Layer& layer) {
  step.read_weights(step.parameter_type());
  const std::int64_t positions = layer.output.back();
  const TensorId rows = step.new_tensor({positions * positions, layer.groups}, step.parameter_type());
  step.add_other("index", {step.state().weights[0], step.buffers()[0]}, rows);
  const TensorId bias = step.new_tensor({1, layer.groups, positions, positions}, step.parameter_type());
  step.add_op(OpKind::copy, {rows}, {bias});
  return bias;
}

void bias_of_positions_backward(StepBuilder& step, TensorId gradient) {
  const TensorId gw = step.new_like(step.state().weights[0]);
  step.add_op(OpKind::fill, {}, {gw});
  step.add_other("index_put", {gw, step.buffers()[0], gradient}, gw);
  step.accumulate_parameter_grad(0, gw);
}

void relative_position_forward(StepBuilder& step, const Layer& layer) {
  const TensorId scores = step.read_input();
  const TensorId bias = bias_of_positions(step, layer);
  const TensorId y = step.state().output = step.new_tensor(layer.output, step.parameter_type());
  step.add_op(OpKind::add, {scores, bias}, {y});
}

void relative_position_backward(StepBuilder& step, const Layer& layer) {
  TensorId g = step.state().gradient;
  step.accumulate_grad(0, g);
  const std::int64_t positions = layer.output[1];
  if (layer.output[0] != layer.groups) g = step.sum_to(g, {1, layer.groups, positions, positions});
  bias_of_positions_backward(step, g);
}

/// transformers' modeling_swin.py: the mask is made in each block that is rolled.
void window_bias_forward(StepBuilder& step, const Layer& layer) {
  const TensorId bias = bias_of_positions(step, layer);
  step.state().output = bias;
  if (layer.output[0] == 1) return;  // not rolled
  const std::int64_t windows = layer.stride[0] * layer.stride[1], positions = layer.output.back();
  TensorId mask = step.new_tensor({windows, positions, positions}, step.parameter_type());
  step.add_op(OpKind::fill, {}, {mask});
  mask = step.apply(OpKind::masked_fill, {mask});
  mask = step.apply(OpKind::copy, {mask}, {layer.output[0], 1, positions, positions});
  const TensorId y = step.state().output = step.new_tensor(layer.output, step.parameter_type());
  step.add_op(OpKind::add, {bias, mask}, {y});
}

void window_bias_backward(StepBuilder& step, const Layer& layer) {
  TensorId g = step.state().gradient;
  if (layer.output[0] > 1) g = step.sum_to(g, layer.output.with(0, 1));
  bias_of_positions_backward(step, step.apply(OpKind::copy, {g}));
}

void window_mask_forward(StepBuilder& step, const Layer&) {
  const TensorId scores = step.read_input();
  step.state().output = step.apply(OpKind::add, {scores, step.buffers()[0]});
}

void window_mask_backward(StepBuilder& step, const Layer&) { step.accumulate_grad(0, step.state().gradient); }

}  // namespace

std::span<const LayerRule> window_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::pad, pad_forward, pad_backward},
      {LayerKind::crop, crop_forward, crop_backward},
      {LayerKind::roll, roll_forward, roll_backward},
      {LayerKind::to_windows, to_windows_forward, to_windows_backward},
      {LayerKind::from_windows, from_windows_forward, from_windows_backward},
      {LayerKind::image_windows, image_windows_forward, image_windows_backward},
      {LayerKind::windows_image, windows_image_forward, windows_image_backward},
      {LayerKind::merge_patches, merge_patches_forward, merge_patches_backward},
      {LayerKind::select_heads, select_heads_forward, select_heads_backward},
      {LayerKind::relative_position, relative_position_forward, relative_position_backward},
      {LayerKind::window_mask, window_mask_forward, window_mask_backward},
      {LayerKind::window_bias, window_bias_forward, window_bias_backward},
  });
  return rules;
}

}  // namespace perfpred
