// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace perfpred {

/// The first 12 hexadecimal digits of a file's SHA-256: they name the network in it. @throws InputError if it cannot be
/// read
[[nodiscard]] std::string file_hash(const std::string& path);

/// The same of a file that holds this text.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace perfpred
