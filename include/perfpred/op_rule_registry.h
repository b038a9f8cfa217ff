// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/network.h>

#include <functional>
#include <span>
#include <string>

namespace perfpred {

/// Counts an operator from the shapes of its tensor inputs and outputs, which are in the order of its schema.
using OpCount = std::function<double(std::span<const Shape> inputs, std::span<const Shape> outputs)>;

/// Sets how to count an operator that has no rule, in step files and traces. Replaces an earlier registration.
/// @param name     with namespace, without overload: "mylib::attention"
/// @param bytes    null: those of its operands
/// @param product  whether it is computed as matrix products are, by the units that multiply matrices
/// @throws InputError if the name has no namespace or `flops` is null. Steps whose counts are not 0..1e18 are refused
PERFPRED_API void register_op(const std::string& name, OpCount flops, OpCount bytes = {}, bool product = false);

/// Registers the rules of a text file, one a line (docs/guides/counting.md):
/// `mylib::attention  product flops = 4 * in0 * in1[-2]  bytes = 2 * (in0 + in1 + in2 + out0)`
/// @throws InputError with file and line for what is not a rule; nothing is registered then
PERFPRED_API void register_ops(const std::string& path);

}  // namespace perfpred
