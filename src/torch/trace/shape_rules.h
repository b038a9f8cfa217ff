// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <string_view>
#include <vector>

namespace perfpred {

/// Outputs of an operator from its arguments, without memory: for operators that LibTorch's C++ library cannot execute
/// on its meta device. An undefined tensor stands for an output that was not asked for.
using ShapeRule = std::vector<at::Tensor> (*)(c10::ArrayRef<c10::IValue> arguments);

/// The rule of an operator by its name without namespace; null if LibTorch can execute it on the meta device.
ShapeRule shape_rule(std::string_view name);

}  // namespace perfpred
