// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <perfpred/error.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/column.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {

/// The value, or null where it is not known. A number that is not finite is written as null, too.
template <class Value>
[[nodiscard]] nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// What an exception of the JSON library says, without the library's own code in front ("[json.exception.…] ").
inline std::string json_complaint(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

// The templates below are for nlohmann::json and nlohmann::ordered_json; json.cpp has both, since the library's reader
// and writer are what takes a compiler longest.

/// JSON as text. Bytes that are not UTF-8, as in the name of a driver, a kernel or a file, become replacement
/// characters instead of an exception.
/// @param indent  of each level; -1: one line
template <class Json>
[[nodiscard]] std::string dumped(const Json& json, int indent = -1);

inline constexpr int max_json_depth = 100;  ///< of the files and requests that are read

/// @throws InputError if lists and objects are nested deeper: the JSON library writes and copies them by recursion
void check_json_depth(std::string_view text);

/// Reads a JSON text.
/// @returns a discarded value if it is not JSON
/// @throws InputError as check_json_depth()
template <class Json>
[[nodiscard]] Json parse_json(std::string_view text);

/// Reads an object that people or their programs write.
/// @param what  the text should be, for messages: "a request is a JSON object"
/// @throws InputError that says where the text is wrong and why; for a name that an object has twice
[[nodiscard]] nlohmann::json parse_object(std::string_view text, std::string_view what);

/// Reads a JSON file.
/// @throws InputError, which names the file, if it cannot be read, is not JSON or is nested too deep
template <class Json>
[[nodiscard]] Json read_json(const std::string& path);

/// The same of the text of a file. @param place  names it in messages
template <class Json>
[[nodiscard]] Json read_json_text(std::string_view text, const std::string& place);

/// A row of a table as an object: texts, numbers and lists; null where a number or a list is empty.
template <class Row>
[[nodiscard]] nlohmann::ordered_json row_json(const Columns<Row>& table, const Row& row) {
  using Json = nlohmann::ordered_json;
  Json object = Json::object();
  for (const Column<Row>& column : table) {
    const std::string text = column.get(row);
    Json& value = object[std::string(column.name)];
    value = column.is_text ? Json(text) : parse_json<Json>(text);
    if (value.is_discarded()) value = nullptr;
  }
  return object;
}

}  // namespace perfpred
