// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace perfpred {

/// The first 12 hexadecimal digits of a text's SHA-256: they name the network that it describes.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace perfpred
