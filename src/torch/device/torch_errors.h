// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <string>
#include <utility>

namespace perfpred {

/// To be called while handling an exception: throws it again as OutOfMemory, DeviceError or Error with one line if it
/// came from LibTorch, else as it is.
[[noreturn]] PERFPRED_API void rethrow_torch_error();

/// Whether an error's text says that memory ran out: not all of them have an exception of their own.
[[nodiscard]] PERFPRED_API bool speaks_of_memory(const std::string& text);

/// Runs code that calls LibTorch.
template <class Function>
auto guard_torch(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    rethrow_torch_error();
  }
}

}  // namespace perfpred
