// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <torch/csrc/jit/api/module.h>

#include <string>

namespace perfpred {

/// A module saved by torch.jit.save().
/// @throws InputError, `path: reason`, if the file cannot be read, is not TorchScript, or needs a newer LibTorch
[[nodiscard]] torch::jit::Module load_script_module(const std::string& path, c10::Device device);

/// Whether a module takes two arguments, samples and their targets, and returns the loss.
[[nodiscard]] bool takes_targets(const torch::jit::Module& module);

/// The reason in an error message of LibTorch or of TorchScript's interpreter, without the lines that say where in the
/// sources it was raised.
[[nodiscard]] std::string reason_in(const std::string& message);

}  // namespace perfpred
