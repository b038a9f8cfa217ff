// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

#include "torch/exported/exported_program.h"

namespace perfpred {

/// A file of torch.export.save(). Names that are tied have one tensor.
struct ExportedFile {
  ExportedProgram program;
  /// By name: the state dictionary, and the constants, buffers that are not in the state dictionary among them.
  std::unordered_map<std::string, at::Tensor> weights, constants;
  /// False for a network that was exported on the meta device. Which of its names are tied is then not known.
  bool has_values = true;
};

enum class ExportedWeights : std::uint8_t { read, without_memory };

/// Reads a file on the CPU. Code in it is not executed.
/// @param weights  `without_memory`: parameters and buffers are on the meta device, and their bytes are not read
/// @throws InputError, `path: reason`, for a file that cannot be read, is cut off, damaged, or of another version
[[nodiscard]] ExportedFile read_exported_file(const std::string& path, ExportedWeights weights);

}  // namespace perfpred
