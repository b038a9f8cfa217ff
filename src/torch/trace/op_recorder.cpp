// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_recorder.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "step/executed_op.h"

namespace perfpred {
namespace {

thread_local OpRecorder* recording = nullptr;

Strided strided(const at::Tensor& tensor) {
  return {std::span(tensor.sizes().data(), tensor.sizes().size()),
          std::span(tensor.strides().data(), tensor.strides().size())};
}

/// Shapes and strides of tensors, some of which may be undefined.
std::vector<Strided> strided(std::span<const at::Tensor> tensors) {
  std::vector<Strided> all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.defined() ? strided(tensor) : Strided());
  return all;
}

/// The first of a kind is what data of this kind is made of.
constexpr auto types = std::to_array<std::pair<at::ScalarType, DataType>>({
    {at::kFloat, DataType::f32},
    {at::kDouble, DataType::f64},
    {at::kHalf, DataType::f16},
    {at::kBFloat16, DataType::bf16},
    {at::kLong, DataType::i64},
    {at::kInt, DataType::i32},
    {at::kShort, DataType::i16},
    {at::kFloat8_e4m3fn, DataType::f8},
    {at::kFloat8_e4m3fnuz, DataType::f8},
    {at::kFloat8_e5m2, DataType::f8},
    {at::kFloat8_e5m2fnuz, DataType::f8},
    {at::kComplexFloat, DataType::c64},
    {at::kComplexDouble, DataType::c128},
    {at::kByte, DataType::u8},
    {at::kChar, DataType::u8},
    {at::kBool, DataType::u8},
});

}  // namespace

DataType data_type(at::ScalarType type) {
  const auto* found = std::find_if(types.begin(), types.end(), [type](const auto& pair) { return pair.first == type; });
  if (found == types.end()) {
    throw InputError(fmt::format("tensors of type {} are not supported", c10::toString(type)));
  }
  return found->second;
}

at::ScalarType scalar_type(DataType type) {
  return std::find_if(types.begin(), types.end(), [type](const auto& pair) { return pair.second == type; })->first;
}

OpRecorder::~OpRecorder() { stop(); }

OpRecorder* OpRecorder::current() { return recording; }

void OpRecorder::start(Phase phase) {
  phase_ = phase;
  recording = this;
}

void OpRecorder::stop() {
  if (recording == this) recording = nullptr;
}

void OpRecorder::name_tensor(const at::Tensor& tensor, TensorRole role) {
  const TensorId id = id_of(tensor);
  graph_.set_role(graph_.tensors()[id].storage, role);
}

TensorId OpRecorder::id_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const Shape shape = strided(tensor).stored();
  const DataType type = data_type(tensor.scalar_type());
  const auto [known, is_new] = ids_.try_emplace(storage.unsafeGetStorageImpl(), no_tensor);
  if (is_new) {
    addresses_.push_back(storage.getWeakStorageImpl());
    const TensorRole role = phase_ <= Phase::loss ? TensorRole::activation : TensorRole::temporary;
    known->second = graph_.add_tensor(shape, type, role);
    return known->second;
  }
  const TensorId id = known->second;
  return graph_.shape(id) == shape && graph_.tensors()[id].type == type ? id : graph_.add_view(id, shape, type);
}

void OpRecorder::record(OpKind kind, std::string_view name, const OpRule* rule, std::span<const at::Tensor> inputs,
                        std::span<const at::Tensor> outputs, bool transposed, bool causal) {
  inputs_.clear();
  outputs_.clear();
  for (const at::Tensor& tensor : inputs) {
    const auto is_it = [&](const at::Tensor& other) { return other.is_same(tensor); };
    const auto* same = std::find_if(inputs.data(), &tensor, is_it);
    if (same != &tensor) {
      inputs_.push_back(inputs_[static_cast<std::size_t>(same - inputs.data())]);
      continue;
    }
    const std::size_t before = graph_.tensors().size();
    const TensorId id = id_of(tensor);
    inputs_.push_back(id);
    // A new tensor that an operator only reads was made before the step. New tensors of the optimizer are its state,
    // which it made in the first step and overwrites.
    const bool is_new = id == before && graph_.tensors()[id].storage == id;
    if (is_new && phase_ == Phase::optimizer) {
      graph_.set_role(id, TensorRole::optimizer_state);
    } else if (is_new && std::none_of(outputs.begin(), outputs.end(), is_it)) {
      graph_.set_role(id, TensorRole::buffer);
    }
  }
  for (const at::Tensor& tensor : outputs) outputs_.push_back(tensor.defined() ? id_of(tensor) : no_tensor);
  Op& op = graph_.add_op(kind, phase_, -1, inputs_, outputs_, transposed, causal);
  if (rule == nullptr && is_conv_or_matmul(kind))
    op.flops *= repetitions(kind, strided(inputs), strided(outputs), transposed);
  if (!name.empty()) {
    const auto [found, is_new] =
        names_.try_emplace(std::string(name), static_cast<std::int32_t>(graph_.op_names().size()));
    if (is_new) graph_.add_op_name(found->first);
    op.name = found->second;
  }
  if (rule != nullptr) count_by(*rule, graph_, op);
}

}  // namespace perfpred
