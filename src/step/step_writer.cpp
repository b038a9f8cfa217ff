// SPDX-License-Identifier: Apache-2.0
#include "step/step_writer.h"

#include <algorithm>
#include <string>

namespace perfpred {

TensorId StepWriter::transposed(TensorId id) {
  const Shape from = shape(id);
  const std::size_t last = from.rank() - 1;
  return view(id, from.with(last - 1, from[last]).with(last, from[last - 1]));
}

void StepWriter::add_op(OpKind kind, std::span<const TensorId> inputs, std::span<const TensorId> outputs, bool causal) {
  if (std::find(skipped_.begin(), skipped_.end(), kind) != skipped_.end()) return;
  graph_.add_op(kind, phase_, layer_, inputs, outputs, false, causal);
}

void StepWriter::add_op(OpKind kind, std::initializer_list<TensorId> inputs, std::initializer_list<TensorId> outputs) {
  add_op(kind, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
}

void StepWriter::add_other(std::string_view name, std::initializer_list<TensorId> inputs, TensorId output) {
  add_update(name, std::span(inputs.begin(), inputs.size()), {&output, 1});
}

Op& StepWriter::add_update(std::string_view name, std::span<const TensorId> inputs, std::span<const TensorId> outputs) {
  const auto names = graph_.op_names();
  const auto found = std::find(names.begin(), names.end(), name);
  const auto known = static_cast<std::int32_t>(found - names.begin());
  const std::int32_t index = found != names.end() ? known : graph_.add_op_name(std::string(name));
  Op& op = graph_.add_op(OpKind::other, phase_, layer_, inputs, outputs);
  op.name = index;
  return op;
}

TensorId StepWriter::apply(OpKind kind, std::initializer_list<TensorId> inputs) {
  const TensorId result = new_like(*inputs.begin());
  add_op(kind, inputs, {result});
  return result;
}

TensorId StepWriter::apply(OpKind kind, std::initializer_list<TensorId> inputs, const Shape& shape) {
  const TensorId result = new_tensor(shape, type(*inputs.begin()));
  add_op(kind, inputs, {result});
  return result;
}

TensorId StepWriter::cast(TensorId id, DataType to) {
  if (type(id) == to) return id;
  const Shape same = shape(id);
  const TensorId copy = new_tensor(same, to);
  add_op(OpKind::copy, {id}, {copy});
  return copy;
}

void StepWriter::declare_scaler() {
  scaled_ = true;
  scale_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
  growth_ = graph_.add_tensor({}, DataType::i32, TensorRole::buffer);
  found_inf_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
}

/// Divides all gradients by the loss scale.
void StepWriter::unscale_gradients() {
  add_op(OpKind::fill, {found_inf_}, {found_inf_});
  const TensorId inverse = new_like(scale_);
  add_other("reciprocal", {scale_}, inverse);
  std::vector<TensorId> written = gradients_;
  written.push_back(found_inf_);
  std::vector<TensorId> read = written;
  read.push_back(inverse);
  add_op(OpKind::unscale_gradients, read, written);
}

void StepWriter::update(Optimizer optimizer, OptimizerImpl impl) {
  if (scaled_) unscale_gradients();
  phase_ = Phase::optimizer;
  add_optimizer_update(*this, optimizer, impl);
  if (scaled_) add_op(OpKind::update_scale, {scale_, growth_, found_inf_}, {scale_});
}

}  // namespace perfpred
