// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace perfpred {

/// The text in a file that xz packed. @throws InputError, which names the file, if it cannot be read, is no such file,
/// is cut off or damaged, or holds more than 1 GB
[[nodiscard]] std::string read_xz(const std::string& path);

}  // namespace perfpred
