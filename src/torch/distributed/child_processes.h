// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Processes of this program, which end with it: however it ends, the system kills them.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  /// Waits for them a little, then kills those that still run, and reaps all.
  ~ChildProcesses();

  /// Starts this program once more, with these arguments; what it prints on standard output is dropped.
  /// @param set  `NAME=value` in its environment, beside this process's own
  /// @throws Error if the system refuses
  void start(char** arguments, const std::vector<std::string>& set);

  /// What ended one of them: `rank 2: killed by signal 9`; nothing while all run. Their ranks follow that of this
  /// process, 0, in the order of their start.
  [[nodiscard]] std::optional<std::string> first_end();

 private:
  struct Child {
    pid_t process = -1;
    std::optional<std::string> end;
  };
  void look();  ///< which of them have ended

  std::vector<Child> children_;
};

}  // namespace perfpred
