// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a program as a user's shell does and keeps what it said. Needs PERFPRED_BIN_DIR, the folder of the programs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "../temporary_folder.h"

namespace perfpred::testing {

struct Finished {
  int exit_code = -1;  ///< 128 + signal if a signal ended it
  std::string out;     ///< standard output
  std::string err;     ///< standard error
};

/// Where `perfpred-<name>` was built; empty if this build leaves it out.
inline std::string program(const std::string& name) {
  std::string path = std::string(PERFPRED_BIN_DIR) + "/perfpred-" + name;
  return std::filesystem::exists(path) ? path : std::string();
}

/// Runs `command` (program and arguments), feeding it `input`. Standard output goes to the file `out_path` if given
/// (/dev/full, say) and is captured otherwise.
inline Finished spawn(const std::vector<std::string>& command, const std::string& input = {},
                      const std::string& out_path = {}) {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", input);
  const std::string out = out_path.empty() ? folder.file("out") : out_path;
  const std::string err = folder.file("err");
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const auto redirect = [](const std::string& path, int flags, int to) {
      const int fd = ::open(path.c_str(), flags, 0600);
      if (fd < 0 || ::dup2(fd, to) < 0) ::_exit(126);
      ::close(fd);
    };
    redirect(in, O_RDONLY, 0);
    redirect(out, O_WRONLY | O_CREAT, 1);
    redirect(err, O_WRONLY | O_CREAT, 2);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error("waitpid failed");
  }
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (out_path.empty()) finished.out = slurp(out);
  finished.err = slurp(err);
  return finished;
}

/// The document of a program that did what was asked.
inline nlohmann::json json_of(const Finished& finished) {
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  nlohmann::json document = nlohmann::json::parse(finished.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << finished.out;
  return document;
}

/// What a command answers with --json.
inline nlohmann::json answer(std::vector<std::string> command) {
  command.emplace_back("--json");
  return json_of(spawn(command));
}

/// The program refused: this exit code, nothing on standard output, one line `perfpred-<name>: ...` that says `what`.
inline void expect_refusal(const Finished& finished, int exit_code, const std::string& what) {
  EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  EXPECT_EQ(finished.err.rfind("perfpred-", 0), 0U) << finished.err;
  EXPECT_NE(finished.err.find(what), std::string::npos) << finished.err << "  should say: " << what;
}

}  // namespace perfpred::testing
