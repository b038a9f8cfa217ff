// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include <string_view>

namespace perfpred {

/// Reads an object that people or their programs write.
/// @param what  the text should be, for messages: "a request is a JSON object"
/// @throws InputError that says where the text is wrong and why; for a name that an object has twice
[[nodiscard]] nlohmann::json parse_object(std::string_view text, std::string_view what);

}  // namespace perfpred
