// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <perfpred/error.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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

/// Reads a JSON file. @tparam Json nlohmann::json or nlohmann::ordered_json
/// @throws InputError if it cannot be read or is not JSON
template <class Json>
[[nodiscard]] Json read_json(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    throw InputError(fmt::format("{}: is not JSON (byte {})", path, error.byte));
  } catch (const typename Json::exception& error) {
    throw InputError(fmt::format("{}: {}", path, shown(json_complaint(error))));
  }
}

}  // namespace perfpred
