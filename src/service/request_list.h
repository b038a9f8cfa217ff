// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace perfpred {

/// Whether a body is a JSON list, by its first byte.
[[nodiscard]] bool is_list(std::string_view body);

/// The elements of a JSON list as they stand there, each to be read by itself, so that one that is wrong leaves the
/// others, and the list is never in memory as a whole.
/// @throws InputError for what is no list, and for more than `most` elements
[[nodiscard]] std::vector<std::string_view> split_list(std::string_view body, std::size_t most);

/// Refuses a text whose values take much more memory than the text itself: a list of a million empty lists, say.
/// @throws InputError
void check_json_memory(std::string_view text);

/// Refuses a request that names a file to be opened: `step`, `config`, `lengths` or `prices` as a path.
/// @throws InputError that says what to send instead
void check_no_paths(const nlohmann::json& request);

}  // namespace perfpred
