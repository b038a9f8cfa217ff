// SPDX-License-Identifier: Apache-2.0
#include "text/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace perfpred {
namespace {

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  text = trimmed(text);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Also with a fraction of zeros: pandas writes 2.0 for 2 where a column of integers has gaps.
std::optional<std::int64_t> integer(std::string_view text) {
  text = trimmed(text);
  const std::size_t point = text.find('.');
  const bool is_whole = point != std::string_view::npos && point + 1 < text.size() &&
                        text.find_first_not_of('0', point + 1) == std::string_view::npos;
  return whole_number<std::int64_t>(is_whole ? text.substr(0, point) : text);
}

template <class Accept>
double checked_number(std::string_view text, const ValuePlace& place, std::string_view expected, Accept accept) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value) || !accept(*value)) throw_bad_value(place, text, expected);
  return *value;
}

/// The digits must be no more than `most_digits`, and the number at most `most`.
std::optional<double> clock_part(std::string_view digits, std::size_t most_digits, std::int64_t most) {
  const bool is_digits = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  const auto value = whole_number<std::int64_t>(digits);
  if (!is_digits || !value || digits.size() > most_digits || *value > most) return std::nullopt;
  return static_cast<double>(*value);
}

/// As sbatch(1) reads `M:S`, `H:M:S`, `D-H`, `D-H:M` and `D-H:M:S`; the first number may be any.
std::optional<double> clock_seconds(std::string_view text) {
  constexpr std::size_t any_digits = 12;
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  struct Unit {
    double seconds;
    std::int64_t most;
  };
  constexpr std::array<Unit, 4> units = {{{86400, any}, {3600, 23}, {60, 59}, {1, 59}}};
  const bool has_days = text.find('-') != std::string_view::npos;
  const auto colons = static_cast<std::size_t>(std::count(text.begin(), text.end(), ':'));
  if (colons > 2) return std::nullopt;
  const std::size_t first = has_days ? 0 : 3 - colons;
  const std::size_t last = has_days ? 1 + colons : 3;
  double sum = 0;
  for (std::size_t i = first; i <= last; ++i) {
    const std::size_t end = i == last ? text.size() : text.find(i == 0 ? '-' : ':');
    if (end == std::string_view::npos) return std::nullopt;
    const bool is_first = i == first;
    const auto part = clock_part(text.substr(0, end), is_first ? any_digits : 2, is_first ? any : units[i].most);
    if (!part) return std::nullopt;
    sum += *part * units[i].seconds;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return sum;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, std::string_view());
  return words;
}

std::vector<std::int64_t> parse_sizes(std::string_view text, const ValuePlace& place) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : split(text, 'x')) {
    const auto size = whole_number<std::int64_t>(part);
    if (!size || *size < 1) throw_bad_value(place, text, "positive integers joined by x, as in 3x32x32");
    sizes.push_back(*size);
  }
  return sizes;
}

std::string ValuePlace::prefix() const {
  if (file.empty()) return {};
  return line == 0 ? fmt::format("{}: ", file) : fmt::format("{}:{}: ", file, line);
}

bool is_utf8(std::string_view text) {
  struct Form {
    unsigned char first_low, first_high;
    std::size_t length;
    unsigned char second_low, second_high;  // of the second byte; later ones are 80..BF
  };
  // "Well-Formed UTF-8 Byte Sequences", the Unicode Standard, table 3-7.
  static constexpr auto forms = std::to_array<Form>({{0x00, 0x7f, 1, 0, 0},
                                                     {0xc2, 0xdf, 2, 0x80, 0xbf},
                                                     {0xe0, 0xe0, 3, 0xa0, 0xbf},
                                                     {0xe1, 0xec, 3, 0x80, 0xbf},
                                                     {0xed, 0xed, 3, 0x80, 0x9f},
                                                     {0xee, 0xef, 3, 0x80, 0xbf},
                                                     {0xf0, 0xf0, 4, 0x90, 0xbf},
                                                     {0xf1, 0xf3, 4, 0x80, 0xbf},
                                                     {0xf4, 0xf4, 4, 0x80, 0x8f}});
  const auto is_in = [](char c, unsigned char low, unsigned char high) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= low && byte <= high;
  };
  while (!text.empty()) {
    const auto form = std::find_if(forms.begin(), forms.end(), [&](const Form& known) {
      return is_in(text.front(), known.first_low, known.first_high);
    });
    if (form == forms.end() || form->length > text.size()) return false;
    if (form->length > 1 && !is_in(text[1], form->second_low, form->second_high)) return false;
    for (std::size_t i = 2; i < form->length; ++i) {
      if (!is_in(text[i], 0x80, 0xbf)) return false;
    }
    text.remove_prefix(form->length);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string utf8(text);
  if (!is_utf8(text))
    std::replace_if(
        utf8.begin(), utf8.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  return utf8;
}

std::string printable(std::string_view text) {
  std::string plain = as_utf8(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(plain.begin(), plain.end(), is_control, '?');
  return plain;
}

std::string shown(std::string_view value) {
  constexpr std::size_t longest = 40;
  std::size_t size = std::min(value.size(), longest);
  while (size < value.size() && size > 0 && (static_cast<unsigned char>(value[size]) & 0xC0U) == 0x80) --size;  // UTF-8
  std::string text = printable(value.substr(0, size));
  if (value.size() > size) text += "...";
  return text;
}

void throw_bad_value(const ValuePlace& place, std::string_view value, std::string_view expected) {
  throw InputError(fmt::format("{}{} \"{}\" is not {}", place.prefix(), place.name, shown(value), expected));
}

double parse_finite(std::string_view text, const ValuePlace& place) {
  return checked_number(text, place, "a finite number", [](double) { return true; });
}

double parse_positive(std::string_view text, const ValuePlace& place) {
  return checked_number(text, place, "a positive number", [](double v) { return v > 0; });
}

double parse_non_negative(std::string_view text, const ValuePlace& place) {
  return checked_number(text, place, "a number that is zero or more", [](double v) { return v >= 0; });
}

std::int64_t parse_integer(std::string_view text, const ValuePlace& place) {
  const auto value = integer(text);
  if (!value) throw_bad_value(place, text, "an integer");
  return *value;
}

std::int64_t parse_positive_integer(std::string_view text, const ValuePlace& place) {
  const auto value = integer(text);
  if (!value || *value <= 0) throw_bad_value(place, text, "a positive integer");
  return *value;
}

double parse_seconds(std::string_view text, const ValuePlace& place) {
  const std::string_view body = trimmed(text);
  const bool is_octal = body.size() > 1 && body[0] == '0' && body[1] >= '0' && body[1] <= '9';  // to some readers
  const bool is_clock =
      body.find_first_of(":-") != std::string_view::npos && body.find_first_of("eE") == std::string_view::npos;
  const auto value = is_clock ? clock_seconds(body) : is_octal ? std::nullopt : whole_number<double>(body);
  if (!value || !(*value >= 0 && *value < 0x1p63)) {
    throw_bad_value(place, text, "a time in seconds, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS");
  }
  return *value;
}

bool parse_flag(std::string_view text, const ValuePlace& place) {
  const auto value = integer(text);
  if (value != 0 && value != 1) throw_bad_value(place, text, "0 or 1");
  return value == 1;
}

void parse_seconds_list(std::string_view text, const ValuePlace& place, std::vector<double>& seconds) {
  constexpr std::string_view expected = "a JSON list of seconds";
  std::string_view rest = trimmed(text);
  if (rest.size() < 2 || rest.front() != '[' || rest.back() != ']') throw_bad_value(place, text, expected);
  rest = trimmed(rest.substr(1, rest.size() - 2));
  seconds.clear();
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const auto value = whole_number<double>(rest.substr(0, comma));
    if (!value || !std::isfinite(*value) || *value < 0) throw_bad_value(place, text, expected);
    seconds.push_back(*value);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (trimmed(rest).empty()) throw_bad_value(place, text, expected);
  }
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::string number_text(const std::optional<double>& value) { return value ? number_text(*value) : std::string(); }

}  // namespace perfpred
