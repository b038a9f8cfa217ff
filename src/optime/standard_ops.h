// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace perfpred {

/// data/standard_ops.json, written into the library by cmake/EmbedText.cmake.
extern const std::string_view standard_ops;

}  // namespace perfpred
