// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>
#include <perfpred/vocabulary.h>

#include <optional>

namespace perfpred {

/// What parameters, buffers and images are stored in.
[[nodiscard]] inline at::ScalarType storage_type(Precision precision) {
  return precision == Precision::fp64 ? at::kDouble : at::kFloat;
}

/// What automatic mixed precision computes in; nothing if the precision does not ask for it.
[[nodiscard]] inline std::optional<at::ScalarType> half_type(Precision precision) {
  if (precision == Precision::fp16) return at::kHalf;
  if (precision == Precision::bf16) return at::kBFloat16;
  return std::nullopt;
}

}  // namespace perfpred
