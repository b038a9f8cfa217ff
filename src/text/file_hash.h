// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace perfpred {

/// The first 12 hexadecimal digits of a file's SHA-256: they name the network in it. @throws InputError if it cannot be
/// read
[[nodiscard]] std::string file_hash(const std::string& path);

}  // namespace perfpred
