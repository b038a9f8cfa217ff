// SPDX-License-Identifier: Apache-2.0
#pragma once
// How programs show rejected rows on the screen.
#include <perfpred/time_regressor.h>

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "aggregate/usable_rows.h"

namespace perfpred::cli {

/// `3 rejected: 2 outlier, 1 other_device`, from the number of rows by reason.
inline std::string summary(const std::map<std::string, std::size_t>& counts) {
  std::size_t total = 0;
  std::string reasons;
  for (const auto& [reason, count] : counts) {
    total += count;
    reasons += fmt::format("{}{} {}", reasons.empty() ? ": " : ", ", count, reason);
  }
  return fmt::format("{} rejected{}", total, reasons);
}
/// The same for rows; a reason counts up to its first colon.
inline std::string summary(const std::vector<RejectedRun>& rows) {
  std::map<std::string, std::size_t> counts;
  for (const RejectedRun& row : rows) ++counts[row.reason.substr(0, row.reason.find(": "))];
  return summary(counts);
}

/// The rows of a runs_agg.csv that have a training step; tells of the others on stderr. @param left_out  gets these
inline std::vector<AggregateRow> usable_rows(const std::string& path, std::vector<RejectedRun>& left_out) {
  std::vector<AggregateRow> rows = read_usable_rows(path, left_out);
  for (const RejectedRun& row : left_out)
    fmt::print(stderr, "{}: warning: a row is left out: {}\n", program_invocation_short_name, row.reason);
  return rows;
}

}  // namespace perfpred::cli
