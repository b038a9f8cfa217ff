// SPDX-License-Identifier: Apache-2.0
#include "torch/device/torch_errors.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include <new>
#include <string>

namespace perfpred {
namespace {

std::string line_of(const c10::Error& error) { return first_line_of(error.what_without_backtrace()); }

constexpr const char* no_engine = "unable to find an engine";
constexpr double next_to_none = 0.05;

/// Whether no call works on the current device any more. Libraries on it (cuBLAS, cuDNN) say only that they failed.
bool device_has_failed() {
  if (at::accelerator::deviceCount() == 0) return false;
  const c10::DeviceIndex device = at::accelerator::getDeviceIndex();
  if (!at::globalContext().getAcceleratorHooksInterface().hasPrimaryContext(device)) return false;  // never used
  try {
    at::accelerator::synchronizeDevice(device);
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

}  // namespace

std::string first_line_of(const std::string& message) { return message.substr(0, message.find('\n')); }

bool speaks_of_memory(const std::string& text, std::optional<double> free_share) {
  // As the CPU's allocator, CUDA's, cuBLAS and cuDNN say it.
  for (const char* words :
       {"not enough memory", "can't allocate memory", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return text.find(no_engine) != std::string::npos && free_share && *free_share < next_to_none;
}

bool speaks_of_memory(const std::string& text) {
  std::optional<double> free_share;
  if (text.find(no_engine) != std::string::npos && at::accelerator::deviceCount() > 0) {
    const auto [free, total] = at::accelerator::getMemoryInfo(at::accelerator::getDeviceIndex());
    free_share = static_cast<double>(free) / static_cast<double>(total);
  }
  return speaks_of_memory(text, free_share);
}

void rethrow_torch_error() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(line_of(error));
  } catch (const c10::Error& error) {
    bool memory = false;
    try {
      memory = speaks_of_memory(error.what_without_backtrace());
    } catch (const c10::Error& failed) {
      throw DeviceError(line_of(failed));
    }
    if (memory) throw OutOfMemory(line_of(error));
    const bool of_device = dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr;
    if (of_device || device_has_failed()) throw DeviceError(line_of(error));
    throw Error(line_of(error));
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("the machine's memory is used up");
  }
}

}  // namespace perfpred
