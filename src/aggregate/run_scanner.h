// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "aggregate/run_groups.h"

namespace perfpred {

/// Reads the plain rows of a runs.csv in a fraction of the time that RunReader takes: fields that are written as this
/// software and most others write them. Whatever else a row may hold is left to RunReader's parser.
class RunScanner {
 public:
  explicit RunScanner(const std::vector<std::string>& columns);

  /// @returns false if the row is not plain; nothing is known about it then. A row that is plain and names a workload
  /// that exists is one that RunReader accepts.
  [[nodiscard]] bool scan(std::string_view line);

  // Of the row scanned last. Views are valid as long as the line.
  [[nodiscard]] std::string_view workload_text() const {
    return workload_text_;
  }  ///< the same text: the same workload and env
  [[nodiscard]] std::string_view timestamp_utc() const { return timestamp_; }
  [[nodiscard]] RunFigures figures();

 private:
  enum class Role : std::uint8_t {
    text,
    workload,
    timestamp,
    epochs,
    params,
    epoch_times,
    avg_time_sec,
    images_per_sec,
    test_acc,
    epoch_rel_sem,
    number,
    timing,
    outcome
  };

  static Role role_of(std::string_view column);
  bool scan_epoch_times(const char*& at, const char* end);

  std::vector<Role> roles_;
  std::string workload_text_;
  std::string_view timestamp_;
  std::vector<double> epoch_times_;
  RunFigures figures_;
};

}  // namespace perfpred
