// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Where a value stands, for messages: `runs.csv:17: batch_size`. Built only when something is wrong.
struct ValuePlace {
  std::string_view file;  ///< empty where the value comes from an option
  std::size_t line = 0;   ///< from 1; 0 if the value is not from a line
  std::string_view name;

  [[nodiscard]] std::string prefix() const;  ///< `file:line: `, without the unknown parts
};

/// InputError `file:line: name "value" is not <expected>`; a long or unprintable value is shortened.
[[noreturn]] void throw_bad_value(const ValuePlace& place, std::string_view value, std::string_view expected);

/// What a parser gives that does not know about files: its error gets the place in front.
template <class Parse>
auto placed(const Parse& parse, std::string_view text, const ValuePlace& place) {
  try {
    return parse(text);
  } catch (const InputError& error) {
    throw InputError(place.prefix() + error.what());
  }
}

/// A text as a terminal may get it: with `?` for control characters and for bytes that are not UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

/// A value as messages show it: printable(), at most 40 characters.
[[nodiscard]] std::string shown(std::string_view value);

[[nodiscard]] bool is_utf8(std::string_view text);

/// The text, or, if it is not UTF-8, with `?` for each byte that is not ASCII.
[[nodiscard]] std::string as_utf8(std::string_view text);

/// Without blanks and tabs at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// Positive integers joined by x, as in 3x32x32.
[[nodiscard]] std::vector<std::int64_t> parse_sizes(std::string_view text, const ValuePlace& place);

/// The parts of a text between marks; one more than there are marks.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char mark);

/// The words of a text, with blanks between them.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text);

/// The whole text must be the number, correctly rounded; surrounding blanks are allowed. `2.0` is an integer.
[[nodiscard]] double parse_finite(std::string_view text, const ValuePlace& place);
[[nodiscard]] double parse_positive(std::string_view text, const ValuePlace& place);
[[nodiscard]] double parse_non_negative(std::string_view text, const ValuePlace& place);
[[nodiscard]] std::int64_t parse_integer(std::string_view text, const ValuePlace& place);
[[nodiscard]] std::int64_t parse_positive_integer(std::string_view text, const ValuePlace& place);

/// A span of time: seconds (`3600`, `1.5`, `1e4`), or as sbatch(1) of Slurm reads it, but for a number alone, which
/// there is minutes: `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes` and
/// `days-hours:minutes:seconds`. At least 0, below 2^63.
[[nodiscard]] double parse_seconds(std::string_view text, const ValuePlace& place);

/// 1 or 0, also as `1.0`; surrounding blanks are allowed.
[[nodiscard]] bool parse_flag(std::string_view text, const ValuePlace& place);

/// Reads a JSON list of numbers >= 0, as `[]` or `[1.5, 2]`.
void parse_seconds_list(std::string_view text, const ValuePlace& place, std::vector<double>& seconds);

/// Shortest text that reads back as the same double.
[[nodiscard]] std::string number_text(double value);
[[nodiscard]] std::string number_text(const std::optional<double>& value);  ///< empty for nothing

}  // namespace perfpred
