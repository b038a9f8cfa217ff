// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>

#include <memory>
#include <string>
#include <vector>

namespace perfpred {

/// Appends runs to a runs.csv so that none is lost: a row is one write, synchronised before append() returns. Several
/// recorders, also in several processes, may share a file (advisory lock). A writer that dies at any byte leaves at
/// most an unfinished last line; the next recorder that opens or appends moves that line, byte for byte, to the end of
/// `<path>.torn` and reports it in set_aside().
class PERFPRED_API RunRecorder {
 public:
  /// Creates the file with its header if it is missing or empty. If its header lacks optional columns of runs.csv, as
  /// in files of older versions, they are added to the header, and empty fields to the rows. The header and the rows go
  /// directly to a path that exists and is not a regular file (a pipe, /dev/stdout).
  /// @throws InputError if the file cannot be opened, or its header lacks a mandatory column or has a column twice
  /// @throws Error if the disk refuses
  explicit RunRecorder(std::string path);

  /// Adds one row, in the order of the file's own columns. Unknown columns stay empty; line breaks in texts become
  /// blanks. If it throws, the file is unchanged.
  /// @throws InputError if the run is not one that read_runs() would accept, or the file is no longer a runs.csv
  /// @throws Error if the disk refuses
  void append(const Run& run);

  /// All runs in the file, read while no other recorder writes. @throws InputError as read_runs() does
  [[nodiscard]] std::vector<Run> runs();

  /// One line for each torn line that this recorder has moved aside.
  [[nodiscard]] const std::vector<std::string>& set_aside() const { return set_aside_; }

 private:
  std::string path_;
  std::vector<std::string> set_aside_;
  std::shared_ptr<void> held_open_;  // a pipe, which would end for its reader between two rows
};

}  // namespace perfpred
