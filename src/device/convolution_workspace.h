// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>

namespace perfpred {

/// Bytes that LibTorch holds on a CPU while it executes an operator, beside the tensors that are alive before it: for a
/// convolution, its results and the copies that oneDNN makes of its operands; 0 for others, whose results the caller
/// counts.
/// @param threads  of the CPU, >= 1
[[nodiscard]] std::int64_t convolution_workspace(const OpGraph& step, const Op& op, int threads);

}  // namespace perfpred
