// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/run_recorder.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "text/csv.h"

namespace perfpred {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t block = 1 << 16;
constexpr std::size_t longest_line = std::size_t{16} << 20;

/// The file's columns, as the run's: `tf_version` is what the reference collection calls the framework.
std::vector<std::string> columns_of(std::string_view header, const std::string& path) {
  if (header.substr(0, byte_order_mark.size()) == byte_order_mark) header.remove_prefix(byte_order_mark.size());
  if (!header.empty() && header.back() == '\r') header.remove_suffix(1);
  std::vector<std::string> columns = split_csv_line(header, path + ":1");
  std::replace(columns.begin(), columns.end(), std::string("tf_version"), std::string("framework"));
  for (const std::string& name : run_columns()) {
    const auto times = std::count(columns.begin(), columns.end(), name);
    if (times == 0) throw InputError(fmt::format("{}:1: column \"{}\" is missing, so no run can be added", path, name));
    if (times > 1) throw InputError(fmt::format("{}:1: column \"{}\" appears twice", path, name));
  }
  return columns;
}

/// The file, open and locked; whole lines only, the first being a header.
class LockedFile {
 public:
  LockedFile(const std::string& path, std::vector<std::string>& set_aside) : path_(path), set_aside_(set_aside) {
    open();
    try {
      prepare();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() { ::close(fd_); }  // which gives the lock back

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] bool regular() const { return regular_; }
  [[nodiscard]] int duplicate() const { return ::fcntl(fd_, F_DUPFD_CLOEXEC, 0); }

  void append(std::string_view text) {
    const std::size_t before = size();
    try {
      write_all(fd_, text, path_);
      if (regular_ && ::fsync(fd_) != 0) fail(path_);
    } catch (...) {
      // What the disk took of a row that it did not take whole; if even this fails, the next open sets it aside.
      if (regular_) (void)!::ftruncate(fd_, static_cast<off_t>(before));
      throw;
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& path) {
    throw Error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }

  static void write_all(int fd, std::string_view text, const std::string& path) {
    while (!text.empty()) {
      const auto written = ::write(fd, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  /// Opens and locks what the name stands for once the lock is held: somebody may have replaced the file meanwhile.
  void open() {
    while (true) {
      struct stat status {};
      const bool special = ::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
      fd_ = ::open(path_.c_str(), special ? O_WRONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
      regular_ = !special;
      if (special) return;
      while (::flock(fd_, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        const int error = errno;
        ::close(fd_);
        throw Error(fmt::format("{}: cannot be locked: {}", path_, std::strerror(error)));
      }
      struct stat locked {};
      if (::fstat(fd_, &locked) == 0 && ::stat(path_.c_str(), &status) == 0 && locked.st_ino == status.st_ino &&
          locked.st_dev == status.st_dev) {
        return;
      }
      ::close(fd_);
    }
  }

  [[nodiscard]] std::size_t size() const {
    struct stat status {};
    if (!regular_) return 0;
    if (::fstat(fd_, &status) != 0) fail(path_);
    return static_cast<std::size_t>(status.st_size);
  }

  [[nodiscard]] std::string read(std::size_t begin, std::size_t end) const {
    std::string text(end - begin, '\0');
    std::size_t filled = 0;
    while (filled < text.size()) {
      const auto got = ::pread(fd_, text.data() + filled, text.size() - filled, static_cast<off_t>(begin + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw InputError(fmt::format("{}: {}", path_, std::strerror(errno)));
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    text.resize(filled);
    return text;
  }

  void prepare() {
    if (!regular_) {
      columns_ = run_columns();
      return;
    }
    const std::size_t end = size();
    std::string head;  // the first line, or all there is
    while (head.size() < std::min(end, longest_line)) {
      head += read(head.size(), std::min(end, head.size() + block));
      const std::size_t line_end = head.find('\n');
      if (line_end == std::string::npos) continue;
      columns_ = columns_of(std::string_view(head).substr(0, line_end), path_);
      set_torn_line_aside(end);
      return;
    }
    columns_ = run_columns();
    const std::string header = csv_line(columns_);
    if (header.compare(0, head.size(), head) == 0) {  // nothing yet, or a writer died in its first write
      if (!head.empty()) move_aside(0, end);
      append(header);
      synchronise_folder();
    } else {
      columns_ = columns_of(head, path_);
      append("\n");
    }
  }

  void set_torn_line_aside(std::size_t end) {
    std::size_t begin = end;  // of what lies behind the last line feed
    while (begin > 0) {
      const std::size_t from = begin > block ? begin - block : 0;
      const std::size_t feed = read(from, begin).rfind('\n');
      begin = feed == std::string::npos ? from : from + feed + 1;
      if (feed != std::string::npos) break;
    }
    if (begin < end) move_aside(begin, end);
  }

  void move_aside(std::size_t begin, std::size_t end) {
    const std::string sidecar = path_ + ".torn";
    const int fd = ::open(sidecar.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) fail(sidecar);
    try {
      write_all(fd, read(begin, end) + "\n", sidecar);
      if (::fsync(fd) != 0) fail(sidecar);
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
    if (::ftruncate(fd_, static_cast<off_t>(begin)) != 0 || ::fsync(fd_) != 0) fail(path_);
    set_aside_.push_back(fmt::format("{}: the last line was torn ({} bytes without a line feed); it is kept in {}",
                                     path_, end - begin, sidecar));
  }

  /// Else the file's name could be lost with the power although its rows are safe.
  void synchronise_folder() const {
    const auto folder = std::filesystem::path(path_).parent_path();
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail(folder.string());
    const bool synchronised = ::fsync(fd) == 0;
    ::close(fd);
    if (!synchronised) fail(folder.string());
  }

  const std::string& path_;
  std::vector<std::string>& set_aside_;
  std::vector<std::string> columns_;
  int fd_ = -1;
  bool regular_ = true;
};

}  // namespace

RunRecorder::RunRecorder(std::string path) : path_(std::move(path)) {
  LockedFile file(path_, set_aside_);
  if (file.regular()) return;
  file.append(csv_line(run_columns()));
  held_open_ = std::shared_ptr<void>(nullptr, [fd = file.duplicate()](void*) { ::close(fd); });
}

void RunRecorder::append(const Run& run) {
  const std::vector<std::string> ours = run_fields(run);
  (void)run_from_fields(run_columns(), ours, path_ + ": a new row");
  LockedFile file(path_, set_aside_);
  std::vector<std::string> fields;
  for (const std::string& name : file.columns()) {
    const auto found = std::find(run_columns().begin(), run_columns().end(), name);
    fields.push_back(found == run_columns().end() ? std::string()
                                                  : ours[static_cast<std::size_t>(found - run_columns().begin())]);
  }
  file.append(csv_line(fields));
}

std::vector<Run> RunRecorder::runs() {
  const LockedFile file(path_, set_aside_);
  return file.regular() ? read_runs(path_) : std::vector<Run>();
}

}  // namespace perfpred
