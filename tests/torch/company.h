// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace perfpred::testing {

/// Other processes that keep every core busy.
class Company {
 public:
  Company() {
    for (long i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        for (volatile bool busy = true; busy;) {
        }
      }
      if (child > 0) children_.push_back(child);
    }
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;
  ~Company() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  [[nodiscard]] bool empty() const { return children_.empty(); }

 private:
  std::vector<pid_t> children_;
};

}  // namespace perfpred::testing
