// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// `auto` (the first GPU, else the CPU), `cpu`, `cuda`, `cuda:1`; a CUDA device has an index, and
/// becomes this thread's current one, which is asked for the cause of an error.
/// @throws InputError for any other text, DeviceError if the machine lacks the device
[[nodiscard]] c10::Device runtime_device(std::string_view text);

/// The same for one of several processes on this machine: a GPU of its own, or the CPU, which they share.
/// @param local_rank  of this process
/// @param processes   on this machine
/// @throws InputError for `cuda:1`, which is one device, DeviceError if there are fewer GPUs
[[nodiscard]] c10::Device runtime_device(std::string_view text, int local_rank, int processes);

/// What measured rows call it: the GPU's name by its driver, or the processor's model.
[[nodiscard]] std::string device_name(c10::Device device);

/// Sets the number of threads that LibTorch computes with in this process, if the device is a CPU.
/// @param asked  by default as many as it computes with, shared evenly
/// @param processes  that share the machine
/// @returns the number, empty for a GPU
/// @throws InputError unless `asked` is from 1 to the processors that this process may use, and for a GPU empty
std::optional<int> use_cpu_threads(c10::Device device, std::optional<int> asked = {}, int processes = 1);

/// The number of threads that LibTorch computes with in this process: until it is set, as many as PyTorch would use.
[[nodiscard]] int cpu_threads();

}  // namespace perfpred
