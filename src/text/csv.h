// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/parse.h"

namespace perfpred {

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
inline constexpr std::size_t max_line_bytes = std::size_t{16} << 20;  ///< lines must be shorter

/// Lines of a text file, one at a time in constant memory: LF or CRLF, a byte order mark accepted, each under 16 MB.
/// A NUL byte, which no text has, is an InputError with file and line.
class LineReader {
 public:
  explicit LineReader(const std::string& path);  ///< @throws InputError if the file cannot be read
  /// The same for a text in memory, which messages call `name`; it must outlive the reader.
  LineReader(const std::string& name, std::string_view text);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  /// The next line, ended by a NUL, to be changed at will until the next call; nullptr at the end.
  [[nodiscard]] char* next();
  [[nodiscard]] std::size_t line() const;  ///< number of the line read last, from 1
  [[nodiscard]] const std::string& path() const;
  /// Whether the text ends with the line read last and has no line feed there. To be called once, instead of next().
  [[nodiscard]] bool cut_off();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A column of a table that is being read; `index` is empty where the table lacks it.
struct CsvColumn {
  std::string name;
  std::optional<std::size_t> index;
};

/// Reads a CSV file with a header, one row at a time: columns by name in any order, RFC 4180 quoting without line
/// breaks in fields, LF or CRLF, a byte order mark accepted, lines under 16 MB. Everything wrong is an InputError with
/// file and line.
class CsvReader {
 public:
  /// @throws InputError if the file cannot be read, is empty, or has a column twice
  explicit CsvReader(const std::string& path);
  /// The same for a text in memory, which messages call `name`; it must outlive the reader.
  [[nodiscard]] static CsvReader from_text(const std::string& name, std::string_view text);
  ~CsvReader();
  CsvReader(CsvReader&&) noexcept;
  CsvReader& operator=(CsvReader&&) noexcept;

  [[nodiscard]] CsvColumn required(std::string_view name) const;  ///< @throws InputError if the header lacks it
  [[nodiscard]] CsvColumn optional(std::string_view name) const;

  /// Goes to the next row; blank lines are skipped. @returns false at the end
  [[nodiscard]] bool next();

  /// All fields of this row, one for each column of the header. Valid until next().
  [[nodiscard]] std::span<const std::string_view> fields() const;
  /// The field of this row; empty where the table lacks the column. Valid until next().
  [[nodiscard]] std::string_view text(const CsvColumn& column) const;

  [[nodiscard]] double finite(const CsvColumn& column) const;
  [[nodiscard]] double positive(const CsvColumn& column) const;
  [[nodiscard]] std::int64_t integer(const CsvColumn& column) const;
  [[nodiscard]] std::int64_t positive_integer(const CsvColumn& column) const;

  [[nodiscard]] ValuePlace place(std::string_view name) const;  ///< of a field of this row
  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] const std::vector<std::string>& header() const;
  [[nodiscard]] bool cut_off();  ///< @copydoc LineReader::cut_off

 private:
  struct Impl;
  explicit CsvReader(std::unique_ptr<Impl> impl);  ///< reads the header
  std::unique_ptr<Impl> impl_;
};

/// Refuses a table that lacks columns, with the names of all of them.
/// @param where  `runs.csv:1`
/// @param names  of mandatory columns
/// @param table  its heading in docs/formats.md
/// @throws InputError
void require_columns(std::span<const std::string> header, const std::string& where,
                     std::span<const std::string_view> names, std::string_view table);

/// One CSV line with its line feed; fields that need quotes get them. A control character in a field becomes a blank,
/// since no reader takes it.
[[nodiscard]] std::string csv_line(std::span<const std::string> fields);

/// Size in bytes of the lines up to and including the header, the first line that is not blank; 0 if that has no line
/// feed.
[[nodiscard]] std::size_t size_up_to_header(std::string_view text);

/// Splits a line that ends with NUL in place; control characters become `?`. @returns false if a quote is not closed
[[nodiscard]] bool split_csv_fields(char* line, std::vector<std::string_view>& fields);

/// The fields of one line (without line feed). @throws InputError, `prefix: ...`, for a quote that is not closed
[[nodiscard]] std::vector<std::string> split_csv_line(std::string_view line, const std::string& prefix);

}  // namespace perfpred
