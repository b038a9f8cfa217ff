// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/stack.h>

#include <cstddef>

namespace perfpred {

/// Replaces a call of scaled_dot_product_attention by one of `_scaled_dot_product_efficient_attention`, whose
/// derivative is one operator, too. It stands for all of CUDA's fused kernels: the flash kernel and cuDNN's read, write
/// and keep the same tensors. Masks are made into biases as LibTorch does before it
/// (aten/src/ATen/native/transformers/attention.cpp).
/// @param stack  ends with the arguments, the first at `begin`; gets the result instead
/// @returns false, and changes nothing, where LibTorch has no fused kernel: operands that are not of rank 4 and one
///          floating-point type, a mask beside causality
bool call_fused_attention(torch::jit::Stack& stack, std::size_t begin);

}  // namespace perfpred
