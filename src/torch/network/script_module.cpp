// SPDX-License-Identifier: Apache-2.0
#include "torch/network/script_module.h"

#include <c10/util/Exception.h>
#include <perfpred/error.h>
#include <torch/csrc/jit/serialization/import.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

/// The first sentence of the reason.
std::string sentence(const std::string& message) {
  std::string text = reason_in(message);
  // A failed check names its place in LibTorch before its reason.
  constexpr std::string_view place_end = "] . ";
  if (const auto end = text.find(place_end); text.starts_with('[') && end != std::string::npos) {
    text.erase(0, end + place_end.size());
  }
  return text.substr(0, text.find(". "));
}

}  // namespace

std::string reason_in(const std::string& message) {
  constexpr std::string_view marker =
      "RuntimeError: ";  // stands before the reason at the end of the interpreter's report
  const std::size_t at = message.rfind(marker);
  return first_line_of(at == std::string::npos ? message : message.substr(at + marker.size()));
}

bool takes_targets(const torch::jit::Module& module) {
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  return arguments.size() == 3 && !arguments[2].default_value();  // the first is the module
}

torch::jit::Module load_script_module(const std::string& path, c10::Device device) {
  if (!std::ifstream(path)) throw InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  try {
    return torch::jit::load(path, device, /*load_debug_files=*/false);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    if (speaks_of_memory(message)) throw;
    if (message.find("maximum supported version") != std::string::npos) {
      throw InputError(fmt::format("{}: written by a newer PyTorch: {}", path, sentence(message)));
    }
    throw InputError(fmt::format("{}: not a TorchScript file: {}", path, sentence(message)));
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: not a TorchScript file: {}", path, sentence(error.what())));
  }
}

}  // namespace perfpred
