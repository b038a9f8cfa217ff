// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <string_view>

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

/// Removes the half-written checkpoints that a killed training left in its folder: files NAME.pt.XXXXXX, as AtomicFile
/// names them, without an end record, where NAME is last, best, final or epoch_N.
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
