// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>

namespace perfpred {

/// The vector registers of a CPU for which oneDNN has kernels of their own. `avx2_most`: where weight gradients of 1x1
/// windows are summed up by several threads, as AVX2's kernels do if their blocks part badly among the threads.
enum class VectorUnits { avx2, avx2_most, avx512 };

/// Bytes that LibTorch holds on a CPU while it executes an operator, beside the tensors that are alive before it: for a
/// convolution, its results, the copies that oneDNN makes of its operands, and the scratch memory of its threads; 0 for
/// others, whose results the caller counts.
/// @param threads  of the CPU, >= 1
[[nodiscard]] std::int64_t convolution_workspace(const OpGraph& step, const Op& op, int threads, VectorUnits units);

/// Bytes that cuDNN takes for a convolution or its backward beside its operands; 0 for other operators, and where it is
/// not known. Windows of 3x3 without stride are convolved by Winograd's algorithm in fp32, whose transformed images and
/// results lie in memory; matrix units convolve channels-last copies of images that are not.
/// @param matrix_units  fp32 operands are convolved in TF32
[[nodiscard]] std::int64_t cudnn_workspace(const OpGraph& step, const Op& op, bool matrix_units);

}  // namespace perfpred
