// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/stack.h>

#include <cstddef>
#include <string_view>

namespace perfpred {

/// Whether an operator, `aten::lstm` for example, is a recurrent network of all layers and positions.
[[nodiscard]] bool is_recurrent_network(std::string_view name);

/// Replaces the arguments of a recurrent network from `begin` on by its results, which cuDNN's operator gives:
/// aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_impl().
/// @return false, and the arguments stay, where cuDNN is not taken: tensors of integers
bool call_cudnn_rnn(std::string_view name, torch::jit::Stack& stack, std::size_t begin);

}  // namespace perfpred
