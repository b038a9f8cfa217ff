// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "aggregate/aggregate_state.h"
#include "runs/run_row.h"
#include "statistics/parallel.h"
#include "text/csv.h"
#include "text/files.h"

namespace perfpred {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;  // stays in a core's cache
constexpr std::size_t chunks_of_part = 4;                  // are added up one after the other, by one thread

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
  void read(std::size_t offset, std::size_t bytes, std::string& to) const { read_at(fd_, offset, bytes, to, path_); }

 private:
  const std::string& path_;
  int fd_;
  std::size_t size_ = 0;
};

/// Aggregates rows of one table.
class TableAggregator {
 public:
  TableAggregator(const CsvReader& csv, Aggregator::Label label, const RunSet& earlier)
      : state_(label), parser_(csv.header(), csv.path() + ":1"), earlier_(earlier) {}

  /// @throws InputError at the place if the row is not a run that can be summed
  void add(std::span<const std::string_view> row, const ValuePlace& place) {
    const Run& run = parser_.parse(row, place);
    if (parser_.group() >= group_of_.size()) group_of_.resize(parser_.group() + 1);
    auto& group = group_of_[parser_.group()];
    if (!group) group = state_.groups.index_of(run.workload, run.env);
    try {
      state_.add(run, *group, earlier_);
    } catch (const InputError& error) {
      throw InputError(place.prefix() + error.what());
    }
  }

  /// What was added since this was called last.
  AggregateState take() {
    group_of_.assign(group_of_.size(), std::nullopt);
    return std::exchange(state_, AggregateState(state_.label));
  }

  std::string buffer;                    // of one chunk
  std::vector<std::string_view> fields;  // of one line

 private:
  AggregateState state_;
  RunParser parser_;
  std::vector<std::optional<std::size_t>> group_of_;  // index of a group of the parser among those of the aggregate
  const RunSet& earlier_;
};

/// The lines up to and including the header, or all there is. @throws InputError, without a place, if they are too long
std::string head_of(const File& file) {
  std::string text;
  for (std::size_t before = 0;; before = text.size()) {
    file.read(before, chunk_bytes, text);
    const std::size_t size = size_up_to_header(text);
    if (size != 0) text.resize(size);
    if (size != 0 || text.size() == before) return text;
    if (text.size() > max_line_bytes) throw InputError("no header");
  }
}

/// Adds up parts in their order, whoever brings them in whichever: sums are the same bits by however many threads.
class InOrder {
 public:
  explicit InOrder(Aggregator::Label label) : sum_(label) {}

  void add(std::size_t number, AggregateState part) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(number, std::move(part));
    for (auto next = waiting_.begin(); next != waiting_.end() && next->first == done_; next = waiting_.begin()) {
      sum_.merge(next->second);
      waiting_.erase(next);
      ++done_;
    }
  }

  /// When all parts are there.
  AggregateState take() { return std::move(sum_); }

 private:
  std::mutex mutex_;
  AggregateState sum_;
  std::map<std::size_t, AggregateState> waiting_;
  std::size_t done_ = 0;
};

/// Reads the rest of the last line, whose beginning the buffer has. @param offset  of the buffer in the file
void read_to_line_end(const File& file, std::size_t offset, std::string& buffer) {
  const std::size_t end = buffer.size();
  while (buffer.back() != '\n') {
    const std::size_t before = buffer.size();
    file.read(offset + before, std::size_t{1} << 12, buffer);
    const std::size_t feed = buffer.find('\n', before);
    if (feed != std::string::npos) buffer.resize(feed + 1);
    if (buffer.size() == before) buffer += '\n';
    if (buffer.size() > end + max_line_bytes) throw InputError("a line is too long");
  }
}

/// Adds the lines that begin in the chunk of bytes from `begin`.
/// @param whole  whether a line begins at `begin` for certain
/// @throws InputError, without a place, if one of them is not a run
void add_chunk(const File& file, std::size_t begin, bool whole, const std::string& path, TableAggregator& table) {
  std::string& buffer = table.buffer;
  buffer.clear();
  const std::size_t offset = whole ? begin : begin - 1;  // a line begins behind a line feed
  file.read(offset, begin + chunk_bytes - offset, buffer);
  const std::size_t end = buffer.size();
  std::size_t at = whole ? 0 : buffer.find('\n') + 1;  // 0: this line is longer than the chunk
  if (at >= end || (!whole && at == 0)) return;
  read_to_line_end(file, offset, buffer);
  if (std::memchr(buffer.data(), '\0', buffer.size()) != nullptr) throw InputError("a NUL byte");
  while (at < end) {
    char* line = buffer.data() + at;
    char* feed = static_cast<char*>(std::memchr(line, '\n', buffer.size() - at));
    at += static_cast<std::size_t>(feed - line) + 1;
    *feed = '\0';
    if (feed != line && feed[-1] == '\r') feed[-1] = '\0';
    if (*line == '\0') continue;
    if (static_cast<std::size_t>(feed - line) >= max_line_bytes || !split_csv_fields(line, table.fields)) {
      throw InputError("not a line of a CSV file");
    }
    table.add(table.fields, {path, 0, {}});
  }
}

AggregateState aggregate_chunks(const std::string& path, Aggregator::Label label, int threads, const RunSet& earlier) {
  const File file(path);
  const std::string head = head_of(file);
  const CsvReader csv = CsvReader::from_text(path, head);
  const std::size_t chunks = (file.size() - std::min(head.size(), file.size()) + chunk_bytes - 1) / chunk_bytes;
  const std::size_t parts = (chunks + chunks_of_part - 1) / chunks_of_part;
  std::vector<TableAggregator> tables;
  for (std::size_t i = 0; i < thread_count(parts, threads); ++i) tables.emplace_back(csv, label, earlier);
  InOrder sum(label);
  parallel_for(parts, threads, [&](std::size_t part, std::size_t thread) {
    const std::size_t end = std::min(chunks, (part + 1) * chunks_of_part);
    for (std::size_t chunk = part * chunks_of_part; chunk < end; ++chunk)
      add_chunk(file, head.size() + chunk * chunk_bytes, chunk == 0, path, tables[thread]);
    sum.add(part, tables[thread].take());
  });
  return sum.take();
}

AggregateState aggregate_rows(const std::string& path, Aggregator::Label label, const RunSet& earlier,
                              std::optional<std::string>& cut_off) {
  CsvReader csv(path);
  TableAggregator table(csv, label, earlier);
  try {
    while (csv.next()) table.add(csv.fields(), csv.place({}));
  } catch (const InputError& error) {
    if (!csv.cut_off()) throw;
    cut_off = error.what();
  }
  return table.take();
}

}  // namespace

AggregateState aggregate_file(const std::string& path, Aggregator::Label label, int threads, const RunSet& earlier,
                              std::optional<std::string>& cut_off) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    try {
      return aggregate_chunks(path, label, threads, earlier);
    } catch (const InputError&) {
      // Something in the file is wrong: reading it again, line by line, tells where.
    }
  }
  return aggregate_rows(path, label, earlier, cut_off);
}

}  // namespace perfpred
