// SPDX-License-Identifier: Apache-2.0
#pragma once
// How train and observe show rejected rows: all of them as JSON, one line on the screen.
#include <perfpred/time_regressor.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace perfpred::cli {

inline nlohmann::json to_json(const std::vector<RejectedRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RejectedRow& row : rows) list.push_back({{"key", row.key}, {"reason", row.reason}});
  return list;
}

/// `3 rejected: 2 outlier, 1 other_device`: a reason counts up to its first colon.
inline std::string summary(const std::vector<RejectedRow>& rows) {
  std::map<std::string, std::size_t> counts;
  for (const RejectedRow& row : rows) ++counts[row.reason.substr(0, row.reason.find(": "))];
  std::string text = fmt::format("{} rejected", rows.size());
  for (const char* separator = ": "; const auto& [reason, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, reason);
    separator = ", ";
  }
  return text;
}

}  // namespace perfpred::cli
