// SPDX-License-Identifier: Apache-2.0
#include "text/csv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>

// One reader at a time feeds one consumer here: a second thread would only cost start-up time.
#define CSV_IO_NO_THREAD
#include PERFPRED_FCCP_HEADER

namespace perfpred {
namespace {

/// All but tabs, which stand in for blanks.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

using QuotePolicy = io::double_quote_escape<',', '"'>;

/// What the line reader reads from. It looks at the byte behind a last line without line feed, where an older line feed
/// may stand: a source ends every text with a line feed.
class Source : public io::ByteSourceBase {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}

  /// Whether the end has been read and had no line feed. Shared, as the line reader destroys a source that has ended.
  [[nodiscard]] std::shared_ptr<const bool> added_line_feed() const { return added_line_feed_; }

  int read(char* buffer, int size) final {
    int filled = static_cast<int>(fill(buffer, static_cast<std::size_t>(size)));
    if (filled < size && (filled > 0 ? buffer[filled - 1] : last_) != '\n') {
      buffer[filled++] = '\n';
      *added_line_feed_ = true;
    }
    if (filled > 0) last_ = buffer[filled - 1];
    if (const std::string_view begin(buffer, std::min<std::size_t>(2, static_cast<std::size_t>(filled)));
        is_first_ && (begin == "\xff\xfe" || begin == "\xfe\xff")) {
      throw InputError(path_ + ": is UTF-16, as PowerShell writes it; UTF-8 is expected (iconv -f UTF-16 -t UTF-8)");
    }
    is_first_ = false;
    if (const void* nul = std::memchr(buffer, '\0', static_cast<std::size_t>(filled))) {
      lines_ += std::count<const char*>(buffer, static_cast<const char*>(nul), '\n');
      throw InputError(fmt::format("{}:{}: holds a NUL byte; this is not a CSV file", path_, lines_ + 1));
    }
    lines_ += std::count(buffer, buffer + filled, '\n');
    return filled;
  }

 protected:
  [[nodiscard]] virtual std::size_t fill(char* buffer, std::size_t size) = 0;  ///< less than size only at the end
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ptrdiff_t lines_ = 0;
  char last_ = '\n';
  bool is_first_ = true;
  std::shared_ptr<bool> added_line_feed_ = std::make_shared<bool>(false);
};

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path) : Source(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(fd_);
      throw InputError(fmt::format("{}: is a folder, not a file", path));
    }
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(fd_); }

 private:
  std::size_t fill(char* buffer, std::size_t size) override {
    std::size_t filled = 0;
    while (filled < size) {
      const auto got = ::read(fd_, buffer + filled, size - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw InputError(fmt::format("{}: {}", path(), std::strerror(errno)));
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return filled;
  }

  int fd_;
};

class TextSource final : public Source {
 public:
  TextSource(const std::string& name, std::string_view text) : Source(name), rest_(text) {}

 private:
  std::size_t fill(char* buffer, std::size_t size) override {
    const std::size_t copied = rest_.copy(buffer, size);
    rest_.remove_prefix(copied);
    return copied;
  }

  std::string_view rest_;
};

}  // namespace

struct LineReader::Impl {
  Impl(const std::string& name, std::unique_ptr<Source> from)
      : path(name),
        added_line_feed(from->added_line_feed()),
        lines(name, std::unique_ptr<io::ByteSourceBase>(std::move(from))) {}

  std::string path;
  std::shared_ptr<const bool> added_line_feed;
  io::LineReader lines;
};

LineReader::LineReader(const std::string& path)
    : impl_(std::make_unique<Impl>(path, std::make_unique<FileSource>(path))) {}
LineReader::LineReader(const std::string& name, std::string_view text)
    : impl_(std::make_unique<Impl>(name, std::make_unique<TextSource>(name, text))) {}
LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

char* LineReader::next() {
  try {
    return impl_->lines.next_line();
  } catch (const io::error::line_length_limit_exceeded&) {
    throw InputError(fmt::format("{}:{}: the line is longer than 16 MB", path(), line()));
  }
}

std::size_t LineReader::line() const { return impl_->lines.get_file_line(); }
const std::string& LineReader::path() const { return impl_->path; }

bool LineReader::cut_off() { return *impl_->added_line_feed && next() == nullptr; }

bool split_csv_fields(char* line, std::vector<std::string_view>& fields) {
  fields.clear();
  char* field = line;
  for (char* at = line;; ++at) {
    const char c = *at;
    if (c > ',' && c != 0x7f) continue;  // most characters; the others' codes are smaller, those of UTF-8 negative
    if (c == '"') {
      try {
        at += QuotePolicy::find_next_column_end(field) - at;
      } catch (const io::error::escaped_string_not_closed&) {
        return false;
      }
      std::replace_if(field, at, is_control, '?');
      char *begin = field, *end = at;
      const bool last = *at == '\0';
      QuotePolicy::unescape(begin, end);  // may write a NUL before the end
      fields.emplace_back(begin, static_cast<std::size_t>(end - begin));
      if (last) return true;
      field = at + 1;
    } else if (c == ',' || c == '\0') {
      fields.emplace_back(field, static_cast<std::size_t>(at - field));
      if (c == '\0') return true;
      field = at + 1;
    } else if (is_control(c)) {
      *at = '?';  // which a terminal would obey
    }
  }
}

std::size_t size_up_to_header(std::string_view text) {
  std::size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  for (std::size_t feed = text.find('\n', begin); feed != std::string_view::npos; feed = text.find('\n', begin)) {
    const std::string_view line = text.substr(begin, feed - begin);
    begin = feed + 1;
    if (!line.empty() && line != "\r") return begin;
  }
  return 0;
}

struct CsvReader::Impl {
  explicit Impl(LineReader reader) : lines(std::move(reader)) {}

  [[nodiscard]] std::string here() const { return fmt::format("{}:{}: ", lines.path(), lines.line()); }

  /// The next line that is not blank, split; false at the end.
  bool next_fields() {
    char* line = nullptr;
    do {
      line = lines.next();
      if (line == nullptr) return false;
    } while (*line == '\0');
    if (!split_csv_fields(line, fields)) throw InputError(here() + "a quote is not closed");
    return true;
  }

  LineReader lines;
  std::vector<std::string> header;
  std::vector<std::string_view> fields;
};

CsvReader::CsvReader(const std::string& path) : CsvReader(std::make_unique<Impl>(LineReader(path))) {}

CsvReader CsvReader::from_text(const std::string& name, std::string_view text) {
  return CsvReader(std::make_unique<Impl>(LineReader(name, text)));
}

CsvReader::CsvReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  if (!impl_->next_fields()) throw InputError(path() + ": is empty; a header line was expected");
  if (impl_->fields.size() == 1 && impl_->fields.front().find(';') != std::string_view::npos)
    throw InputError(impl_->here() + "the columns are separated by semicolons, where commas are expected");
  std::unordered_set<std::string> known;
  for (const std::string_view field : impl_->fields) {
    const std::size_t first = field.find_first_not_of(" \t");
    const std::size_t last = field.find_last_not_of(" \t");
    std::string name(first == std::string_view::npos ? std::string_view() : field.substr(first, last - first + 1));
    if (!name.empty() && !known.insert(name).second) {
      throw InputError(fmt::format("{}column \"{}\" appears twice", impl_->here(), shown(name)));
    }
    impl_->header.push_back(std::move(name));
  }
}

CsvReader::~CsvReader() = default;
CsvReader::CsvReader(CsvReader&&) noexcept = default;
CsvReader& CsvReader::operator=(CsvReader&&) noexcept = default;

CsvColumn CsvReader::optional(std::string_view name) const {
  CsvColumn column{std::string(name), std::nullopt};
  const auto found = std::find(impl_->header.begin(), impl_->header.end(), name);
  if (found != impl_->header.end()) column.index = static_cast<std::size_t>(found - impl_->header.begin());
  return column;
}

CsvColumn CsvReader::required(std::string_view name) const {
  CsvColumn column = optional(name);
  if (!column.index) throw InputError(fmt::format("{}:1: column \"{}\" is missing", path(), name));
  return column;
}

bool CsvReader::next() {
  if (!impl_->next_fields()) return false;
  if (impl_->fields.size() != impl_->header.size()) {
    throw InputError(
        fmt::format("{}{} fields where the header has {}", impl_->here(), impl_->fields.size(), impl_->header.size()));
  }
  return true;
}

std::span<const std::string_view> CsvReader::fields() const { return impl_->fields; }

std::string_view CsvReader::text(const CsvColumn& column) const {
  return column.index ? impl_->fields[*column.index] : std::string_view();
}

ValuePlace CsvReader::place(std::string_view name) const { return {path(), impl_->lines.line(), name}; }

double CsvReader::finite(const CsvColumn& column) const { return parse_finite(text(column), place(column.name)); }

double CsvReader::positive(const CsvColumn& column) const { return parse_positive(text(column), place(column.name)); }

std::int64_t CsvReader::integer(const CsvColumn& column) const {
  return parse_integer(text(column), place(column.name));
}

std::int64_t CsvReader::positive_integer(const CsvColumn& column) const {
  return parse_positive_integer(text(column), place(column.name));
}

const std::string& CsvReader::path() const { return impl_->lines.path(); }

bool CsvReader::cut_off() { return impl_->lines.cut_off(); }

const std::vector<std::string>& CsvReader::header() const { return impl_->header; }

void require_columns(std::span<const std::string> header, const std::string& where,
                     std::span<const std::string_view> names, std::string_view table) {
  std::string first, others;
  for (const std::string_view name : names) {
    if (std::find(header.begin(), header.end(), name) != header.end()) continue;
    const std::string quoted = fmt::format("\"{}\"", name);
    if (first.empty()) {
      first = quoted;
    } else {
      others += (others.empty() ? ", and so are " : ", ") + quoted;
    }
  }
  if (first.empty()) return;
  throw InputError(
      fmt::format("{}: column {} is missing{}; docs/formats.md describes {}", where, first, others, table));
}

std::string csv_line(std::span<const std::string> fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) line += ',';
    const bool quoted = field.find_first_of(",\"") != std::string::npos;
    if (quoted) line += '"';
    for (const char c : field) {
      if (c == '"') line += '"';
      line += is_control(c) ? ' ' : c;
    }
    if (quoted) line += '"';
  }
  return line + '\n';
}

std::vector<std::string> split_csv_line(std::string_view line, const std::string& prefix) {
  std::string copy(line);
  std::vector<std::string_view> fields;
  if (!split_csv_fields(copy.data(), fields)) throw InputError(prefix + ": a quote is not closed");
  return {fields.begin(), fields.end()};
}

}  // namespace perfpred
