// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "torch/trace/op_table.h"

namespace perfpred {

/// Visits the defined tensors of an argument: one, or those of a list.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

enum class Scalars : std::uint8_t { keep, remove };

/// Replaces tensors with memory by tensors on the meta device of the same shapes and strides.
/// @param scalars  tensors of rank 0 may stay on the CPU beside others on the meta device
void remove_memory(c10::IValue& value, Scalars scalars);

/// Computes the shapes of an operator's outputs, which replace the arguments on the stack: by a rule of shape_rules.h,
/// by LibTorch on the meta device, or, where there is neither, by LibTorch on zeros on the CPU.
/// @param begin   place of the first argument
/// @param inputs  the tensors among the arguments
void call_on_meta(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack& stack, std::size_t begin,
                  std::span<const at::Tensor> inputs);

}  // namespace perfpred
