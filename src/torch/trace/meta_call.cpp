// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/meta_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "step/op_traits.h"

namespace perfpred {
namespace {

using c10::IValue;

/// A meta tensor of the same shape and strides. Tensors that share memory share it there, too.
at::Tensor without_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta()) return tensor;
  using Held = std::pair<c10::weak_intrusive_ptr<c10::StorageImpl>, c10::Storage>;
  thread_local std::unordered_map<const c10::StorageImpl*, Held> stand_ins;
  const c10::Storage& storage = tensor.storage();
  auto made = at::Tensor(at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  const auto found = stand_ins.find(storage.unsafeGetStorageImpl());
  if (found != stand_ins.end() && !found->second.first.expired()) {
    made.set_(found->second.second, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  } else {
    Held held(c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()), made.storage());
    stand_ins.insert_or_assign(storage.unsafeGetStorageImpl(), std::move(held));
  }
  return made;
}

}  // namespace

void remove_memory(c10::IValue& value, Scalars scalars) {
  const auto has_memory = [&](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_meta() && (scalars == Scalars::remove || tensor.dim() > 0);
  };
  if (value.isTensor()) {
    if (has_memory(value.toTensor())) value = without_memory(value.toTensor());
  } else if (value.isTensorList()) {
    auto list = value.toTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const at::Tensor tensor = list.get(i);
      if (has_memory(tensor)) list.set(i, without_memory(tensor));
    }
  } else if (value.isOptionalTensorList()) {
    auto list = value.toOptionalTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::optional<at::Tensor> tensor = list.get(i);
      if (tensor && has_memory(*tensor)) list.set(i, without_memory(*tensor));
    }
  }
}

namespace {

/// Zeros of the same shape on the CPU.
at::Tensor stand_in(const at::Tensor& tensor) {
  return tensor.is_meta() ? at::zeros(tensor.sizes(), tensor.options().device(at::kCPU)) : tensor;
}

/// Executes the operator on zeros on the CPU and drops the memory of its outputs.
void call_on_stand_ins(const c10::OperatorHandle& op, torch::jit::Stack& stack, std::size_t begin) {
  for (std::size_t i = begin; i < stack.size(); ++i) {
    IValue& value = stack[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) value = stand_in(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(stand_in(tensor));
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor && tensor->defined() ? std::optional(stand_in(*tensor)) : tensor);
      }
      value = list;
    } else if (value.isDevice()) {
      value = c10::Device(at::kCPU);
    }
  }
  op.callBoxed(stack);
  for (std::size_t i = begin; i < stack.size(); ++i) remove_memory(stack[i], Scalars::remove);
}

/// Whether the output of an elementwise operator obviously has the shape of its first input. True of most operators of
/// a step; LibTorch would take microseconds to find that out.
bool shapes_are_plain(const OpInfo& info, std::span<const at::Tensor> inputs) {
  if (!info.pointwise || inputs.empty() || !inputs[0].is_floating_point()) return false;
  const bool arithmetic = traits_of(info.kind).family == OpFamily::arithmetic;
  if (!info.in_place && !(arithmetic && inputs[0].is_non_overlapping_and_dense())) return false;
  return std::all_of(inputs.begin() + 1, inputs.end(), [&](const at::Tensor& other) {
    return other.scalar_type() == inputs[0].scalar_type() && other.sizes() == inputs[0].sizes() &&
           (info.in_place || other.strides() == inputs[0].strides());
  });
}

}  // namespace

void call_on_meta(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack& stack, std::size_t begin,
                  std::span<const at::Tensor> inputs) {
  if (info.shapes != nullptr) {
    std::vector<at::Tensor> outputs;
    const c10::ArrayRef<c10::IValue> arguments(stack.data() + begin, stack.size() - begin);
    if (info.in_place) {
      outputs.push_back(arguments[0].toTensor());
    } else {
      outputs = info.shapes(arguments);
    }
    stack.resize(begin);
    const auto& returns = op.schema().returns();
    const bool list = !returns.empty() && returns.back().type()->kind() == c10::TypeKind::ListType;
    const std::size_t alone = list ? returns.size() - 1 : outputs.size();
    for (std::size_t i = 0; i < alone; ++i) stack.emplace_back(std::move(outputs[i]));
    if (list) {
      stack.emplace_back(std::vector<at::Tensor>(outputs.begin() + static_cast<std::ptrdiff_t>(alone), outputs.end()));
    }
    return;
  }
  if (shapes_are_plain(info, inputs)) {
    at::Tensor output = info.in_place ? inputs[0]
                                      : at::Tensor(at::detail::empty_strided_meta(
                                            inputs[0].sizes(), inputs[0].strides(), inputs[0].scalar_type()));
    stack.resize(begin);
    stack.emplace_back(std::move(output));
    return;
  }
  if (!info.on_stand_ins) {
    const std::vector<c10::IValue> arguments(stack.begin() + static_cast<std::ptrdiff_t>(begin), stack.end());
    try {
      op.callBoxed(stack);
      return;
    } catch (const c10::NotImplementedError&) {
      info.on_stand_ins = true;
      stack.resize(begin);
      stack.insert(stack.end(), arguments.begin(), arguments.end());
    }
  }
  if (info.in_place) {
    stack.resize(begin + 1);
  } else {
    call_on_stand_ins(op, stack, begin);
  }
}

}  // namespace perfpred
