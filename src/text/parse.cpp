// SPDX-License-Identifier: Apache-2.0
#include "text/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

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

template <class Accept>
double checked_number(std::string_view text, const ValuePlace& place, std::string_view expected, Accept accept) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value) || !accept(*value)) throw_bad_value(place, text, expected);
  return *value;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string ValuePlace::prefix() const {
  if (file.empty()) return {};
  return line == 0 ? fmt::format("{}: ", file) : fmt::format("{}:{}: ", file, line);
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if ((first > 0x7f && first < 0xc2) || first > 0xf4) return false;
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length > text.size() - i) return false;
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      // Neither a longer form than needed, nor a surrogate, nor beyond U+10FFFF.
      const unsigned low = k == 1 && first == 0xe0 ? 0xa0 : k == 1 && first == 0xf0 ? 0x90 : 0x80;
      const unsigned high = k == 1 && first == 0xed ? 0x9f : k == 1 && first == 0xf4 ? 0x8f : 0xbf;
      if (next < low || next > high) return false;
    }
    i += length;
  }
  return true;
}

std::string shown(std::string_view value) {
  constexpr std::size_t longest = 40;
  std::size_t size = std::min(value.size(), longest);
  while (size < value.size() && size > 0 && (static_cast<unsigned char>(value[size]) & 0xC0U) == 0x80) --size;  // UTF-8
  std::string text(value.substr(0, size));
  const bool utf8 = is_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8)) c = '?';
  }
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
  const auto value = whole_number<std::int64_t>(text);
  if (!value) throw_bad_value(place, text, "an integer");
  return *value;
}

std::int64_t parse_positive_integer(std::string_view text, const ValuePlace& place) {
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value <= 0) throw_bad_value(place, text, "a positive integer");
  return *value;
}

bool parse_flag(std::string_view text, const ValuePlace& place) {
  if (text != "0" && text != "1") throw_bad_value(place, text, "0 or 1");
  return text == "1";
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
