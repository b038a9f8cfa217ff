// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace perfpred {

/// Floats that oneDNN's recurrent layers lay out for a row of so many: a multiple of 64 bytes, and more where rows
/// would be multiples of 1 KiB apart (get_good_ld() in its src/cpu/rnn/rnn_utils.cpp).
[[nodiscard]] constexpr std::int64_t padded_row(std::int64_t width) {
  const std::int64_t padded = (width + 15) / 16 * 16;
  return padded % 256 == 0 ? padded + 16 : padded;
}

}  // namespace perfpred
