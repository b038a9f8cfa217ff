// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "torch/files/checkpoint.h"

namespace perfpred {

/// The tensors of a file in Hugging Face's safetensors format (https://github.com/huggingface/safetensors, "Format"):
/// the size of a JSON object, the object with the type, shape and place of each tensor, and the tensors' bytes.
/// @throws InputError, `path: reason`, for a file that is damaged or has numbers of another type than LibTorch's usual
/// ones (8-bit floating types, for example)
[[nodiscard]] NamedTensors read_safetensors(const std::string& path);

}  // namespace perfpred
