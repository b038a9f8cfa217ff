#pragma once
#include <perfpred/export.h>

#include <utility>

namespace perfpred {

/// To be called while handling an exception: throws it again as OutOfMemory, DeviceError or Error with one line if it
/// came from LibTorch, else as it is.
[[noreturn]] PERFPRED_API void rethrow_torch_error();

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
