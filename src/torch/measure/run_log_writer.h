// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace perfpred {

/// Writes the log of a run, a line at a time, so that what was measured survives a crash. Without keep() it is removed:
/// a run that was stopped leaves none.
class RunLogWriter {
 public:
  RunLogWriter() = default;  ///< writes nothing
  /// Makes a new file `stem`.jsonl, or `stem`_2.jsonl, ... where another run has that name.
  /// @throws InputError if it cannot be made
  explicit RunLogWriter(const std::string& stem);
  ~RunLogWriter();
  RunLogWriter(const RunLogWriter&) = delete;
  RunLogWriter& operator=(const RunLogWriter&) = delete;
  RunLogWriter(RunLogWriter&& other) noexcept;

  void line(std::string_view text);  ///< @throws Error if the disk refuses
  void keep();                       ///< @throws Error if the disk refuses

 private:
  std::string path_;
  int fd_ = -1;
  bool kept_ = false;
};

}  // namespace perfpred
