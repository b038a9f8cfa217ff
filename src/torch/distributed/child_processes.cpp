// SPDX-License-Identifier: Apache-2.0
#include "torch/distributed/child_processes.h"

#include <fcntl.h>
#include <perfpred/error.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

namespace perfpred {
namespace {

constexpr std::chrono::milliseconds between_looks(10);
constexpr std::chrono::seconds grace(3);  // LibTorch frees its memory, and CUDA its context

/// The environment of this process with `set` in place of what it has of these names.
std::vector<std::string> environment_with(const std::vector<std::string>& set) {
  std::vector<std::string> all = set;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    if (std::ranges::none_of(set, [&](const std::string& other) { return other.starts_with(name); }))
      all.emplace_back(variable);
  }
  return all;
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status))
                             : fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

void ChildProcesses::start(char** arguments, const std::vector<std::string>& set) {
  std::vector<std::string> environment = environment_with(set);
  std::vector<char*> variables;  // made here: between fork() and exec() nothing may allocate
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Error(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it ended before prctl()
    const int nowhere = ::open("/dev/null", O_WRONLY);
    if (nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) ::_exit(1);
    ::execve("/proc/self/exe", arguments, variables.data());
    ::_exit(127);
  }
  children_.push_back({child, std::nullopt});
}

void ChildProcesses::look() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    int status = 0;
    if (child.end || ::waitpid(child.process, &status, WNOHANG) != child.process) continue;
    child.end = fmt::format("rank {}: {}", i + 1, how_it_ended(status));
  }
}

std::optional<std::string> ChildProcesses::first_end() {
  look();
  const auto ended = std::ranges::find_if(children_, [](const Child& child) { return child.end.has_value(); });
  return ended == children_.end() ? std::nullopt : ended->end;
}

ChildProcesses::~ChildProcesses() {
  const auto runs = [](const Child& child) { return !child.end; };
  const auto until = std::chrono::steady_clock::now() + grace;
  for (look(); std::ranges::any_of(children_, runs) && std::chrono::steady_clock::now() < until; look())
    std::this_thread::sleep_for(between_looks);
  for (const Child& child : children_) {
    if (!runs(child)) continue;
    ::kill(child.process, SIGKILL);
    int status = 0;
    while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace perfpred
