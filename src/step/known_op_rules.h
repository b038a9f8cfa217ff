// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace perfpred {

/// data/op_rules.txt, written into the library by cmake/EmbedText.cmake.
extern const std::string_view known_op_rules;

}  // namespace perfpred
