// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/run_log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace perfpred {

RunLogWriter::RunLogWriter(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

RunLogWriter::RunLogWriter(RunLogWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), kept_(other.kept_) {}

RunLogWriter::~RunLogWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

void RunLogWriter::fail() const { throw Error(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno))); }

void RunLogWriter::line(std::string_view text) {
  if (fd_ < 0) return;
  std::string bytes(text);
  bytes += '\n';
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RunLogWriter::keep() {
  if (fd_ < 0) return;
  kept_ = true;
  if (::fsync(fd_) != 0) fail();
}

}  // namespace perfpred
