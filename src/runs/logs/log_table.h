// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/csv.h"

namespace perfpred {

/// A CSV file that a callback of other software wrote: columns by their names without blanks at the ends.
class LogTable {
 public:
  explicit LogTable(const std::string& path) : csv_(path) {
    for (const std::string& name : csv_.header()) names_.emplace_back(trimmed(name));
  }

  [[nodiscard]] const std::vector<std::string>& columns() const { return names_; }

  /// Goes to the next row. A last row that its writer cut off counts as not written. @returns false at the end
  [[nodiscard]] bool next() {
    try {
      return csv_.next();
    } catch (const InputError&) {
      if (!csv_.cut_off()) throw;
      return false;
    }
  }

  [[nodiscard]] bool has(std::string_view column) const {
    return std::find(names_.begin(), names_.end(), column) != names_.end();
  }

  /// Of this row; empty where the table lacks the column.
  [[nodiscard]] std::string_view text(std::string_view column) const {
    const auto found = std::find(names_.begin(), names_.end(), column);
    return found == names_.end() ? "" : trimmed(csv_.fields()[static_cast<std::size_t>(found - names_.begin())]);
  }

  /// Of this row; empty where it or the table has none. @throws InputError at the place for another text
  [[nodiscard]] std::optional<double> number(std::string_view column) const {
    const std::string_view value = text(column);
    return value.empty() ? std::nullopt : std::optional(parse_finite(value, csv_.place(column)));
  }

  /// The column's number, which grows from row to row. @param last  of the rows before
  [[nodiscard]] double growing(std::string_view column, double last) const {
    const std::optional<double> value = number(column);
    if (value && *value > last) return *value;
    throw_bad_value(csv_.place(column), text(column),
                    fmt::format("above {} of the row before; a log holds one run", number_text(last)));
  }

  [[nodiscard]] ValuePlace place(std::string_view column) const { return csv_.place(column); }

 private:
  CsvReader csv_;
  std::vector<std::string> names_;
};

}  // namespace perfpred
