// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "aggregate/partial_aggregate.h"
#include "aggregate/run_scanner.h"
#include "text/csv.h"

namespace perfpred {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;  // stays in a core's cache
constexpr std::size_t longest_line = std::size_t{16} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Lookup in a map of strings by a view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// A regular file that is read at offsets.
class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
      const int error = errno;
      if (fd_ >= 0) ::close(fd_);
      throw InputError(fmt::format("{}: {}", path, std::strerror(error)));
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }

  [[nodiscard]] std::size_t size() const { return size_; }

  /// Appends up to `bytes` bytes from `offset`; fewer at the end of the file.
  void read(std::size_t offset, std::size_t bytes, std::string& to) const {
    std::size_t filled = to.size();
    to.resize(filled + bytes);
    while (filled < to.size()) {
      const auto got = ::pread(fd_, to.data() + filled, to.size() - filled, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw InputError(fmt::format("{}: {}", path_, std::strerror(errno)));
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
      offset += static_cast<std::size_t>(got);
    }
    to.resize(filled);
  }

 private:
  const std::string& path_;
  int fd_;
  std::size_t size_ = 0;
};

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

/// Where the rows begin, and the number of lines before.
struct Head {
  std::size_t bytes = 0;
  std::size_t lines = 0;
};

/// RunReader has found a header, so there is one: the first line that is not blank.
Head head_of(const File& file) {
  Head head;
  std::string text;
  bool found = false;
  while (!found) {
    const std::size_t before = text.size();
    file.read(before, chunk_bytes, text);
    const bool at_end = text.size() == before;
    if (head.bytes == 0 && text.compare(0, byte_order_mark.size(), byte_order_mark) == 0) {
      head.bytes = byte_order_mark.size();
    }
    while (!found) {
      const std::size_t feed = text.find('\n', head.bytes);
      if (feed == std::string::npos) break;
      const std::string_view line(text.data() + head.bytes, feed - head.bytes);
      found = !without_return(line).empty();
      head.bytes = feed + 1;
      ++head.lines;
    }
    if (!found && at_end) return {text.size(), head.lines + 1};
  }
  return head;
}

/// A row of the file as RunReader reads it.
Run run_of(const std::vector<std::string>& columns, std::string_view line, const std::string& where) {
  if (line.find('\0') != std::string_view::npos) {
    throw InputError(fmt::format("{}: holds a NUL byte; this is not a CSV file", where));
  }
  if (line.size() >= longest_line) throw InputError(fmt::format("{}: the line is longer than 16 MB", where));
  return run_from_fields(columns, split_csv_line(line, where), where);
}

class ParallelFile {
 public:
  ParallelFile(const std::string& path, std::vector<std::string> columns, Aggregator::Label label)
      : path_(path),
        columns_(std::move(columns)),
        file_(path),
        head_(head_of(file_)),
        lines_((file_.size() - std::min(head_.bytes, file_.size()) + chunk_bytes - 1) / chunk_bytes),
        result_(label) {}

  PartialAggregate aggregate(int threads) {
    const auto most = std::max<std::size_t>(lines_.size(), 1);
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(threads), most); ++i) {
        others.emplace_back([this] { work(); });
      }
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
    if (bad_line_) report_bad_line();
    return std::move(result_);
  }

 private:
  struct OwnedEntry {
    RejectedEntry entry;  // its group by the thread's own count
    std::string timestamp_utc;
  };

  struct BadLine {
    std::size_t chunk;
    std::size_t lines_before;  // in the chunk
    std::string text;
  };

  /// What one thread knows.
  struct Worker {
    explicit Worker(const std::vector<std::string>& columns) : scanner(columns) {}

    RunScanner scanner;
    RunGroups groups;
    std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> group_of_text;
    std::vector<std::size_t> shared_index;  // of this thread's groups among all; beyond its size: not known yet
    std::int64_t runs = 0;
    std::string buffer;
    std::vector<OwnedEntry> rejected;  // of the chunk in work
  };

  void work() {
    try {
      Worker worker(columns_);
      while (!stop_) {
        const std::size_t chunk = next_chunk_++;
        if (chunk >= lines_.size()) break;
        scan_chunk(worker, chunk);
        commit(worker, chunk);
      }
      const std::lock_guard lock(mutex_);
      for (const RunGroup& group : worker.groups.all()) result_.groups.merge(group);
      result_.runs += worker.runs;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      stop_ = true;
    }
  }

  /// The lines that begin in the chunk.
  void scan_chunk(Worker& worker, std::size_t chunk) {
    std::string& buffer = worker.buffer;
    buffer.clear();
    const std::size_t begin = head_.bytes + chunk * chunk_bytes;
    const std::size_t lead = chunk == 0 ? 0 : 1;  // tells whether a line begins where the chunk does
    file_.read(begin - lead, chunk_bytes + lead, buffer);
    const std::size_t chunk_end = buffer.size();
    std::size_t at = 0;
    if (lead == 1) {
      const std::size_t feed = buffer.find('\n');
      if (feed == std::string::npos) return;
      at = feed + 1;
    }
    if (at >= chunk_end) return;
    if (buffer.back() != '\n') read_rest_of_line(buffer, begin - lead);
    const bool nul = std::memchr(buffer.data(), '\0', buffer.size()) != nullptr;
    std::size_t lines = 0;
    while (at < chunk_end) {
      const auto* from = buffer.data() + at;
      const auto* feed = static_cast<const char*>(std::memchr(from, '\n', buffer.size() - at));
      const std::string_view whole(from, feed == nullptr ? buffer.size() - at : static_cast<std::size_t>(feed - from));
      const std::string_view line = without_return(whole);
      if (!line.empty() && !add_line(worker, line, nul)) {
        remember_bad_line({chunk, lines, std::string(line)});
        return;
      }
      ++lines;
      at += whole.size() + 1;
    }
    lines_[chunk] = lines;
  }

  void read_rest_of_line(std::string& buffer, std::size_t offset) const {
    constexpr std::size_t block = 1 << 12;
    const std::size_t limit = buffer.size() + longest_line;
    while (buffer.size() < limit) {
      const std::size_t before = buffer.size();
      file_.read(offset + before, block, buffer);
      if (buffer.size() == before || buffer.find('\n', before) != std::string::npos) return;
    }
  }

  /// @returns false if the line is not a run
  bool add_line(Worker& worker, std::string_view line, bool may_hold_nul) {
    ++worker.runs;
    const bool plain = !may_hold_nul && worker.scanner.scan(line);
    if (plain) {
      const auto found = worker.group_of_text.find(worker.scanner.workload_text());
      if (found != worker.group_of_text.end()) {
        try {
          add(worker, found->second, worker.scanner.figures(), worker.scanner.timestamp_utc());
        } catch (const InputError&) {
          return false;
        }
        return true;
      }
    }
    try {
      Run run = run_of(columns_, line, path_);
      const std::size_t group = worker.groups.index_of(run.workload, run.env);
      if (plain) worker.group_of_text.emplace(worker.scanner.workload_text(), group);
      add(worker, group,
          {run.timing, run.outcome, run.params, run.epoch_times, run.avg_time_sec, run.images_per_sec, run.test_acc,
           run.epoch_rel_sem},
          run.timestamp_utc);
    } catch (const InputError&) {
      return false;  // told again, with its line, when the lines before it are counted
    }
    return true;
  }

  void add(Worker& worker, std::size_t group, const RunFigures& figures, std::string_view timestamp_utc) const {
    if (const auto reason = worker.groups[group].add(figures, result_.label)) {
      worker.rejected.push_back({{group, *reason, figures.avg_time_sec, {}}, std::string(timestamp_utc)});
    }
  }

  /// Passes on a chunk's rejected runs when those of all chunks before it have been.
  void commit(Worker& worker, std::size_t chunk) {
    const std::lock_guard lock(mutex_);
    for (OwnedEntry& owned : worker.rejected) {
      while (worker.shared_index.size() <= owned.entry.group) {
        const auto& next = worker.groups.all()[worker.shared_index.size()];
        worker.shared_index.push_back(result_.groups.index_of(next.workload, next.env));
      }
      owned.entry.group = worker.shared_index[owned.entry.group];
    }
    waiting_.emplace(chunk, std::exchange(worker.rejected, {}));
    while (!waiting_.empty() && waiting_.begin()->first == committed_) {
      for (OwnedEntry& owned : waiting_.begin()->second) {
        owned.entry.timestamp_utc = owned.timestamp_utc;
        result_.rejected.add(owned.entry);
      }
      waiting_.erase(waiting_.begin());
      ++committed_;
    }
  }

  /// Chunks before the bad one are in work or done, so that the first bad line of the file is always the one told.
  void remember_bad_line(BadLine bad) {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (!bad_line_ || bad.chunk < bad_line_->chunk) bad_line_ = std::move(bad);
  }

  [[noreturn]] void report_bad_line() const {
    std::size_t number = head_.lines + bad_line_->lines_before + 1;
    for (std::size_t chunk = 0; chunk < bad_line_->chunk; ++chunk) number += lines_[chunk];
    const std::string where = fmt::format("{}:{}", path_, number);
    PartialAggregate alone(result_.label);
    const Run run = run_of(columns_, bad_line_->text, where);
    try {
      alone.add(run);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", where, error.what()));
    }
    throw Error(fmt::format("{}: changed while it was read", where));
  }

  const std::string& path_;
  const std::vector<std::string> columns_;
  const File file_;
  const Head head_;
  std::vector<std::size_t> lines_;  // of each chunk
  std::atomic<std::size_t> next_chunk_{0};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;  // for what follows
  PartialAggregate result_;
  std::map<std::size_t, std::vector<OwnedEntry>> waiting_;
  std::size_t committed_ = 0;
  std::optional<BadLine> bad_line_;
  std::exception_ptr failure_;
};

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

PartialAggregate aggregate_file(const std::string& path, Aggregator::Label label, int threads) {
  if (is_regular(path)) {
    std::vector<std::string> columns = RunReader(path).columns();
    if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return ParallelFile(path, std::move(columns), label).aggregate(threads);
  }
  PartialAggregate result(label);
  RunReader reader(path);
  while (const auto run = reader.next()) {
    try {
      result.add(*run);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", path, error.what()));
    }
  }
  return result;
}

}  // namespace perfpred
