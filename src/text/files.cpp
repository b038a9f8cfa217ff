// SPDX-License-Identifier: Apache-2.0
#include "text/files.h"

#include <perfpred/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace perfpred {
namespace {

constexpr std::size_t buffer_bytes = 1 << 20;

/// A link is followed, so that what it points to is replaced and not the link.
std::string link_target(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

[[noreturn]] void fail(const std::string& path) {
  throw Error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

/// Opens a new file beside `path`, with the permissions that open() gives it; `name` becomes its name.
/// @returns -1, with errno, if that fails
int open_beside(const std::string& path, std::string& name) {
  static std::atomic<unsigned> counter{0};
  while (true) {
    name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), counter++);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

/// The number of an open file that the system has a name for, or -1. Opening the name anew would write from the start
/// of the file behind it.
int descriptor_named(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view name = path.substr(folder.size());
    int number = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) return number;
  }
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw InputError(fmt::format("{}: is a folder, not a file", path_));
  if (const int number = descriptor_named(path_); number >= 0) {
    std::fflush(nullptr);  // what was printed before comes first
    fd_ = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  } else if (exists && !S_ISREG(status.st_mode)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    path_ = link_target(path_);
    fd_ = open_beside(path_, temporary_);
    if (fd_ >= 0 && exists) ::fchmod(fd_, status.st_mode & 07777U);
  }
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view text) {
  if (buffer_.size() + text.size() < buffer_bytes) {
    buffer_ += text;
    return;
  }
  flush();
  write_all(fd_, text, path_);
}

void AtomicFile::flush() {
  write_all(fd_, buffer_, path_);
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (!temporary_.empty()) {
    synchronise(fd_, path_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_);
  }
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail(path_);
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void read_at(int fd, std::size_t offset, std::size_t size, std::string& to, const std::string& path) {
  std::size_t filled = to.size();
  to.resize(filled + size);
  while (filled < to.size()) {
    const auto got = ::pread(fd, to.data() + filled, to.size() - filled, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    offset += static_cast<std::size_t>(got);
  }
  to.resize(filled);
}

void synchronise(int fd, const std::string& path) {
  if (::fsync(fd) != 0) fail(path);
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw InputError(fmt::format("{}: cannot be made: {}", path, error.message()));
}

std::string read_file(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::array<char, 1 << 16> buffer{};
  while (true) {
    const auto got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    const int error = errno;
    if (got <= 0) ::close(fd);
    if (got < 0) throw InputError(fmt::format("{}: {}", path, std::strerror(error)));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace perfpred
