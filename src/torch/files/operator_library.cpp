// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <perfpred/error.h>
#include <perfpred/torch/trace.h>

#include <fmt/format.h>

#include "torch/device/torch_errors.h"

namespace perfpred {

void load_operators(const std::string& path) {
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;  // not from the system's folders
  try {
    // Never unloaded: LibTorch keeps pointers into it.
    if (dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      throw InputError(fmt::format("{}: cannot be loaded: {}", path, first_line_of(dlerror())));
    }
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {  // from the library's registrations
    throw InputError(fmt::format("{}: cannot be loaded: {}", path, first_line_of(error.what())));
  }
}

}  // namespace perfpred
