// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>

#include <span>
#include <string_view>

namespace perfpred {

/// Computes a number from numbers, as Python does.
using SymbolicOperator = c10::IValue (*)(std::span<const c10::IValue> arguments);

/// The operator that a file of torch.export.save() calls "_operator.mul" or "torch.sym_max"; null if it is not known.
[[nodiscard]] SymbolicOperator symbolic_operator(std::string_view target);

}  // namespace perfpred
