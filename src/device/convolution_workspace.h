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

/// Bytes that cuDNN takes for a convolution or its backward beside its operands; 0 for other operators, and where it is
/// not known. Windows of 3x3 without stride are convolved by Winograd's algorithm in fp32, whose transformed images and
/// results lie in memory; matrix units convolve channels-last copies of images that are not.
/// @param matrix_units  fp32 operands are convolved in TF32
[[nodiscard]] std::int64_t cudnn_workspace(const OpGraph& step, const Op& op, bool matrix_units);

}  // namespace perfpred
