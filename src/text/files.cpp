// SPDX-License-Identifier: Apache-2.0
#include "text/files.h"

#include <perfpred/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace perfpred {
namespace {

constexpr std::size_t buffer_bytes = 1 << 20;

[[noreturn]] void fail(const std::string& path) {
  throw Error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

/// Waits for the lock of an open file. @returns false, with errno, if it has none, as on some network file systems
bool lock(int fd) {
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// Whether the name still means the open file.
bool has_name(int fd, const std::string& name) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(name.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Opens a new file beside `path`, with the permissions that open() gives it, and locks it: the lock says that its
/// writer lives. `name` becomes its name.
/// @returns -1, with errno, if that fails
int open_beside(const std::string& path, std::string& name) {
  static std::atomic<unsigned> counter{0};
  while (true) {
    name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), counter++);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return fd;
    if (fd < 0) continue;
    if (!lock(fd) || has_name(fd, name)) return fd;
    ::close(fd);  // it was taken for one that a killed writer left
  }
}

/// The process that made a file of open_beside(), from what follows the path in its name: `.PID-N.tmp`.
std::optional<pid_t> writer_of(std::string_view rest) {
  constexpr std::string_view end = ".tmp";
  if (!rest.starts_with('.') || !rest.ends_with(end)) return std::nullopt;
  rest = rest.substr(1, rest.size() - 1 - std::min(end.size(), rest.size() - 1));
  std::array<unsigned, 2> numbers{};
  for (unsigned& number : numbers) {
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc()) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    if (&number == &numbers[0] && !rest.starts_with('-')) return std::nullopt;
    if (&number == &numbers[0]) rest.remove_prefix(1);
  }
  if (!rest.empty() || numbers[0] == 0) return std::nullopt;
  return static_cast<pid_t>(numbers[0]);
}

/// Whether the file may be replaced. A file without any permission to write is meant to stay, also for root.
bool may_be_written(const std::string& path, const struct stat& status) {
  if ((status.st_mode & 0222U) != 0 && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return true;
  errno = EACCES;
  return false;
}

/// Waits until the disk has the names in a file's folder, where its file system can say so.
void synchronise_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // it may be written and not be read
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (failed) fail(folder);
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

void remove_leftovers(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string name = whole.filename().string();
  std::error_code unreadable;  // a folder that may be written and not be read: what is there stays
  for (const auto& entry : std::filesystem::directory_iterator(whole.parent_path(), unreadable)) {
    const std::string other = entry.path().filename().string();
    if (!other.starts_with(name)) continue;
    const auto writer = writer_of(std::string_view(other).substr(name.size()));
    if (!writer || (*writer != ::getpid() && (::kill(*writer, 0) == 0 || errno != ESRCH))) continue;
    const int fd = ::open(entry.path().c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, entry.path().string())) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

std::string file_behind(const std::string& path) {
  constexpr int max_links = 40;  // that Linux follows
  std::error_code error;         // of a name that cannot be looked up: whoever opens it says why
  std::filesystem::path file = std::filesystem::absolute(path, error);
  if (error) return path;
  for (int links = 0; std::filesystem::is_symlink(file, error); ++links) {
    if (links == max_links) throw InputError(fmt::format("{}: {}", path, std::strerror(ELOOP)));
    file = file.parent_path() / std::filesystem::read_symlink(file, error);
  }
  const auto whole = std::filesystem::weakly_canonical(file, error);
  return error ? file.string() : whole.string();
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw InputError(fmt::format("{}: is a folder, not a file", path_));
  if (const int number = descriptor_named(path_); number >= 0) {
    std::fflush(nullptr);  // what was printed before comes first
    fd_ = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  } else if (exists && !S_ISREG(status.st_mode)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else if (!exists || may_be_written(path_, status)) {
    target_ = file_behind(path_);
    remove_leftovers(target_);
    fd_ = open_beside(target_, temporary_);
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
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(path_);
    synchronise_folder(target_);
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

RegularFile::RegularFile(const std::string& path, int flags)
    : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (fd_ < 0) throw InputError(fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat found {};
  if (::fstat(fd_, &found) != 0 || !S_ISREG(found.st_mode)) {
    ::close(fd_);
    throw InputError("is no regular file");
  }
  size_ = static_cast<std::size_t>(found.st_size);
}

RegularFile::~RegularFile() { ::close(fd_); }

std::string RegularFile::text(std::size_t most) const {
  std::string text;
  read_at(fd_, 0, most, text, path_);
  return text;
}

void RegularFile::clear() {
  if (::ftruncate(fd_, 0) != 0) throw Error(fmt::format("{}: cannot be emptied: {}", path_, std::strerror(errno)));
}

int open_locked(const std::string& path, int flags) {
  while (true) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd < 0) throw InputError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
    if (!lock(fd)) {
      const int error = errno;
      ::close(fd);
      throw Error(fmt::format("{}: cannot be locked: {}", path, std::strerror(error)));
    }
    if (has_name(fd, path)) return fd;
    ::close(fd);
  }
}

FileLock::FileLock(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) fd_ = open_locked(path, O_RDWR);
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
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
