// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the programs' JSON documents share.
#include <nlohmann/json.hpp>

#include <optional>

namespace perfpred::cli {

/// The value, or null where it is not known.
template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace perfpred::cli
