// SPDX-License-Identifier: Apache-2.0
#include "torch/device/torch_errors.h"

#include <c10/util/Exception.h>
#include <perfpred/error.h>

#include <new>
#include <string>

namespace perfpred {
namespace {

std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

}  // namespace

bool speaks_of_memory(const std::string& text) {
  // As the CPU's allocator, CUDA's, cuBLAS and cuDNN say it.
  for (const char* words :
       {"not enough memory", "can't allocate memory", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

void rethrow_torch_error() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(first_line(error));
  } catch (const c10::AcceleratorError& error) {
    if (speaks_of_memory(error.what_without_backtrace())) throw OutOfMemory(first_line(error));
    throw DeviceError(first_line(error));
  } catch (const c10::Error& error) {
    if (speaks_of_memory(error.what_without_backtrace())) throw OutOfMemory(first_line(error));
    throw Error(first_line(error));
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("the machine's memory is used up");
  }
}

}  // namespace perfpred
