// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happens in a process of its own, which may have less memory or may be aborted.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#ifndef __has_feature
#define __has_feature(name) 0  // Clang's; GCC 12 has macros instead
#endif

namespace perfpred::testing {

/// A sanitizer reserves address space, and ends a process that lacks memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// The exit code of `body` in a process of its own; -1 if that was aborted.
inline int exit_code_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Limits this process to so many MiB of address space more than it has. @returns whether that was possible
inline bool leave_address_space(rlim_t mebibytes) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (mebibytes << 20U);
  return ::setrlimit(RLIMIT_AS, &limit) == 0;
}

}  // namespace perfpred::testing
