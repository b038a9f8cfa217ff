// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

#include "torch/device/named_tensors.h"

namespace perfpred {

/// Begins the names of the network's tensors in a checkpoint.
inline constexpr std::string_view network_prefix = "network.";

/// A training's state between two steps.
struct Checkpoint {
  std::string settings;  ///< JSON object: all that the next steps depend on
  std::string progress;  ///< JSON object: how far it is
  NamedTensors tensors;
};

/// Writes a file that Python's torch.load() reads too, whole or not at all.
/// @throws InputError if the file cannot be created, Error if the disk refuses
void save_checkpoint(const Checkpoint& checkpoint, const std::string& path);

/// Writes a state dictionary: Python's torch.load(weights_only=True) gives it, and load_state_dict() takes it.
/// @throws as save_checkpoint() does
void save_weights(const NamedTensors& weights, const std::string& path);

/// The files of a training in its folder, by their names: last.pt, best.pt, final.pt and epoch_N.pt, ascending.
[[nodiscard]] std::vector<std::string> training_files(const std::string& folder);

/// Removes the half-written checkpoints that a killed training left in its folder: files NAME.PID-N.tmp, as AtomicFile
/// names them, where NAME is one of training_files(), as remove_leftovers() does.
void remove_torn_checkpoints(const std::string& folder);

/// @throws InputError if the file is missing or is not a checkpoint
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path);

/// Weights by name, from a checkpoint of this library, a state dictionary saved by Python's torch.save(), or a file
/// named `*.safetensors`. Their memory is the file's, see MappedFile.
/// @throws InputError for other files and damaged ones
[[nodiscard]] NamedTensors load_weights(const std::string& path);

/// Copies into each tensor of `to` the tensor of the same name.
/// @throws InputError, `path: reason`, if one is missing or has another shape
void restore(const NamedTensors& to, const NamedTensors& from, const std::string& path);

/// The state of the random generators of the CPU and of the device.
[[nodiscard]] NamedTensors random_state(c10::Device device);
void restore_random_state(const NamedTensors& from, c10::Device device, const std::string& path);

}  // namespace perfpred
