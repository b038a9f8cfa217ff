// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/run_log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "text/files.h"

namespace perfpred {

RunLogWriter::RunLogWriter(const std::string& stem) : path_(stem + ".jsonl") {
  const auto open = [this] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666); };
  fd_ = open();
  for (int number = 2; fd_ < 0 && errno == EEXIST; ++number) {
    path_ = fmt::format("{}_{}.jsonl", stem, number);
    fd_ = open();
  }
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

RunLogWriter::RunLogWriter(RunLogWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), kept_(other.kept_) {}

RunLogWriter::~RunLogWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

void RunLogWriter::line(std::string_view text) {
  if (fd_ < 0) return;
  std::string bytes(text);
  bytes += '\n';
  write_all(fd_, bytes, path_);
}

void RunLogWriter::keep() {
  if (fd_ < 0) return;
  kept_ = true;
  synchronise(fd_, path_);
}

}  // namespace perfpred
