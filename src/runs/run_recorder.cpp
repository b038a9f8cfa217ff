// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/run_recorder.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "runs/run_row.h"
#include "text/csv.h"
#include "text/files.h"

namespace perfpred {
namespace {

constexpr std::size_t block = 1 << 16;

/// The columns of a file, as read_runs() reads its header.
/// @param head  of the file, up to the end of its header
std::vector<std::string> columns_of(std::string_view head, const std::string& path) {
  std::vector<std::string> columns = CsvReader::from_text(path, head).header();
  std::replace(columns.begin(), columns.end(), std::string("tf_version"), std::string("framework"));
  require_recorded_columns(columns, path + ":1");
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
      if (regular_) synchronise(fd_, path_);
    } catch (...) {
      // Removes an incomplete row. If even this fails, the next recorder moves it aside.
      if (regular_) (void)!::ftruncate(fd_, static_cast<off_t>(before));
      throw;
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& path) {
    throw Error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }

  void open() {
    struct stat status {};
    regular_ = ::stat(path_.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
    if (regular_) {
      fd_ = open_locked(path_, O_RDWR | O_CREAT | O_APPEND);
      return;
    }
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }

  [[nodiscard]] std::size_t size() const {
    struct stat status {};
    if (!regular_) return 0;
    if (::fstat(fd_, &status) != 0) fail(path_);
    return static_cast<std::size_t>(status.st_size);
  }

  [[nodiscard]] std::string read(std::size_t begin, std::size_t end) const {
    std::string text;
    read_at(fd_, begin, end - begin, text, path_);
    return text;
  }

  void prepare() {
    if (!regular_) {
      columns_ = run_columns();
      return;
    }
    const std::size_t end = size();
    std::string head;  // the lines up to the header, or all there is
    while (head.size() < std::min(end, max_line_bytes)) {
      head += read(head.size(), std::min(end, head.size() + block));
      const std::size_t size = size_up_to_header(head);
      if (size == 0) continue;
      columns_ = columns_of(std::string_view(head).substr(0, size), path_);
      const std::size_t whole = size_of_whole_lines(end);
      const std::string wider = with_missing_columns(whole);
      if (whole < end) move_aside(whole, end);
      if (!wider.empty()) replace(wider);
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
      prepare();
    }
  }

  /// The file with the columns that an older program did not write: their names behind the header, empty fields behind
  /// the rows. @returns an empty text if no column is missing
  [[nodiscard]] std::string with_missing_columns(std::size_t whole) const {
    std::string names, fields, text;
    for (const std::string& name : run_columns()) {
      if (std::find(columns_.begin(), columns_.end(), name) != columns_.end()) continue;
      names += ',' + name;
      fields += ',';
    }
    if (names.empty()) return {};
    const std::string narrow = read(0, whole);
    LineReader lines(path_, narrow);
    while (const char* line = lines.next()) {
      if (*line != '\0') text += line + (text.empty() ? names : fields) + '\n';
    }
    return text;
  }

  /// Puts a new file under the name, and goes on with that.
  void replace(const std::string& text) {
    write_file(path_, text);
    ::close(std::exchange(fd_, -1));
    open();
    prepare();
  }

  [[nodiscard]] std::size_t size_of_whole_lines(std::size_t end) const {
    while (end > 0) {
      const std::size_t from = end > block ? end - block : 0;
      const std::size_t feed = read(from, end).rfind('\n');
      if (feed != std::string::npos) return from + feed + 1;
      end = from;
    }
    return 0;
  }

  void move_aside(std::size_t begin, std::size_t end) {
    const std::string sidecar = path_ + ".torn";
    const int fd = ::open(sidecar.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) fail(sidecar);
    try {
      write_all(fd, read(begin, end) + "\n", sidecar);
      synchronise(fd, sidecar);
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
    if (::ftruncate(fd_, static_cast<off_t>(begin)) != 0) fail(path_);
    synchronise(fd_, path_);
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
  const std::string line = csv_line(fields);
  if (line.size() > max_line_bytes) {
    throw InputError(
        fmt::format("{}: a new row of {} bytes is too long: a line has less than 16 MB", path_, line.size()));
  }
  file.append(line);
}

std::vector<Run> RunRecorder::runs() {
  const LockedFile file(path_, set_aside_);
  return file.regular() ? read_runs(path_) : std::vector<Run>();
}

}  // namespace perfpred
