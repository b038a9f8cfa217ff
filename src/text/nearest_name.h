// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// Letters to insert, delete, replace or swap with their neighbour to get from one text to the other.
[[nodiscard]] PERFPRED_API std::size_t edit_distance(std::string_view a, std::string_view b);

/// Finds what somebody who mistyped a name may have meant.
class PERFPRED_API NearestName {
 public:
  explicit NearestName(std::string typed);
  void offer(std::string_view spelling, std::string_view name);  ///< the name that this spelling stands for
  [[nodiscard]] const std::optional<std::string>& found() const { return name_; }

 private:
  std::string typed_;
  std::size_t limit_;  // a distance must be below it: far-off names are no help
  std::optional<std::string> name_;
};

}  // namespace perfpred
