// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/device_error.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace perfpred {

/// To be called while handling an exception: throws it again as OutOfMemory, DeviceError or Error with one line if it
/// came from LibTorch, else as it is.
[[noreturn]] void rethrow_torch_error();

/// Whether an error's text says that memory ran out: not all of these errors have an exception of their own.
/// @param free_share  free memory of the device / all of it, where known. cuDNN swallows the out-of-memory error of
/// every algorithm that it tries and then finds "no engine"; with next to no free memory that means the memory.
[[nodiscard]] bool speaks_of_memory(const std::string& text, std::optional<double> free_share);

/// The same, asking the current GPU for its free memory if the text leaves a doubt.
[[nodiscard]] bool speaks_of_memory(const std::string& text);

/// A message without the lines after the first.
[[nodiscard]] std::string first_line_of(const std::string& message);

/// Runs code that calls LibTorch.
template <class Function>
auto guard_torch(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    rethrow_torch_error();
  }
}

/// Calls `use(*owned)` and then frees `owned`. After a DeviceError it calls owned->abandon(), which ends its threads,
/// and never frees it: LibTorch frees pinned memory with CUDA calls, which throw in a destructor once the device has
/// failed, and that would end the process.
template <class T, class Function>
auto use_until_device_fails(std::unique_ptr<T> owned, Function&& use) {
  try {
    return guard_torch([&] { return std::forward<Function>(use)(*owned); });
  } catch (const OutOfMemory&) {  // a DeviceError, too, but the device works
    throw;
  } catch (const DeviceError&) {
    owned.release()->abandon();
    throw;
  }
}

}  // namespace perfpred
