// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>

#include <string>

namespace perfpred::testing {

/// What a call says of the input that it refuses; empty if it takes it.
template <class Refusal = InputError, class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Refusal& error) {
    return error.what();
  }
  return "";
}

}  // namespace perfpred::testing
