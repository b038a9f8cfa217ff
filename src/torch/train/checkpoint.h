// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <perfpred/export.h>

#include <string>
#include <utility>
#include <vector>

namespace perfpred {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A training program's state between two steps, in a file that Python's torch.load() reads too.
struct Checkpoint {
  std::string settings;  ///< JSON object: what the training depends on
  std::string progress;  ///< JSON object: how far it is
  NamedTensors tensors;
};

/// Written whole or not at all. @throws InputError if no file can be made there, Error if the disk refuses
PERFPRED_API void save_checkpoint(const Checkpoint& checkpoint, const std::string& path);

/// Removes what a killed training left in its folder while it wrote: files NAME.pt.XXXXXX, as AtomicFile calls them,
/// that have no end, of the names last, best, final and epoch_N.
PERFPRED_API void remove_torn_checkpoints(const std::string& folder);

/// @throws InputError if the file is missing or no checkpoint
[[nodiscard]] PERFPRED_API Checkpoint load_checkpoint(const std::string& path);

/// Weights by name: a checkpoint of this library's, or a state dictionary saved by Python's torch.save().
/// @throws InputError if the file is neither
[[nodiscard]] PERFPRED_API NamedTensors load_weights(const std::string& path);

/// Copies every tensor of `to` from the one of the same name. @throws InputError, `path: ...`, for one that is missing
/// or has another shape
PERFPRED_API void restore(const NamedTensors& to, const NamedTensors& from, const std::string& path);

/// The state of the random generators of the CPU and of the device.
[[nodiscard]] PERFPRED_API NamedTensors random_state(c10::Device device);
PERFPRED_API void restore_random_state(const NamedTensors& from, c10::Device device, const std::string& path);

}  // namespace perfpred
