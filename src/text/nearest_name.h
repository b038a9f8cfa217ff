// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace perfpred {

/// A text with its letters of ASCII in lower case, whatever the locale.
[[nodiscard]] std::string lower_case(std::string_view text);

/// The letters and digits of a name, in lower case: names that agree in them count as equal.
[[nodiscard]] std::string bare(std::string_view name);

/// Number of letters to insert, delete, replace or swap with a neighbour to turn one text into the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Finds the known name that is meant: the closest of those that begin with what was typed, else the closest to it.
class NearestName {
 public:
  explicit NearestName(std::string typed);
  void offer(std::string_view spelling, std::string_view name);  ///< a known name, by one of its spellings
  [[nodiscard]] const std::optional<std::string>& found() const { return name_; }

 private:
  std::string typed_;
  std::size_t limit_;  // only names at a smaller distance count, and those that begin with what was typed
  std::pair<bool, std::size_t> closest_ = {true, std::string::npos};  // whether it begins otherwise; the distance
  std::optional<std::string> name_;
};

}  // namespace perfpred
