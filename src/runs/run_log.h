// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>

#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// One epoch in the log of a run; fractions and mean losses, empty where not measured.
struct LoggedEpoch {
  int epoch = 1;   ///< from 1
  double sec = 0;  ///< time of its training steps
  std::optional<double> train_loss, train_acc, val_loss, val_acc;

  friend bool operator==(const LoggedEpoch&, const LoggedEpoch&) = default;
};

/// The log of one run: a JSON line with its workload and options, one for each epoch, last the row of runs.csv.
struct RunLog {
  std::vector<LoggedEpoch> epochs;
  std::optional<Run> run;  ///< empty if the run was cut off before its row

  friend bool operator==(const RunLog&, const RunLog&) = default;
};

/// Lines of a log, without line feed. A row is an object with the columns of runs.csv as keys: numbers as numbers (null
/// if unknown), epoch_times_json as a list, the rest as text.
[[nodiscard]] std::string epoch_json(const LoggedEpoch& epoch);
[[nodiscard]] std::string run_json(const Run& run);  ///< @copydoc epoch_json

/// Reads a log. A last line that was cut off counts as not written.
/// @throws InputError (`file:line: ...`) if the file cannot be read or a whole line is not a JSON object, epoch or row
[[nodiscard]] RunLog read_run_log(const std::string& path);

}  // namespace perfpred
