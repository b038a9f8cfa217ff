// SPDX-License-Identifier: Apache-2.0
#include "service/request_list.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <array>
#include <string>

#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::string_view blanks = " \t\r\n";

/// Calls with each byte of a JSON text that is outside its texts, and its place.
template <class Call>
void for_each_sign(std::string_view text, const Call& call) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '"') {
      call(text[i], i);
      continue;
    }
    for (++i; i < text.size() && text[i] != '"'; ++i) {
      if (text[i] == '\\') ++i;
    }
  }
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// A field that may be a path elsewhere.
struct PathField {
  std::string_view name;
  bool (*is_path)(std::string_view text);
  std::string_view instead;
};

bool is_no_object(std::string_view text) { return !without_blanks(text).starts_with('{'); }

constexpr std::array<PathField, 4> path_fields = {
    {{"step", is_no_object, "the step file's text, or network as step:… of a file that the service has"},
     {"config", is_no_object, "the text of config.json"},
     {"lengths", [](std::string_view text) { return text.find('=') == std::string_view::npos; },
      "a list of lengths, or mean=,p95=,max="},
     {"prices", [](std::string_view) { return true; }, "an object of prices by device"}}};

}  // namespace

bool is_list(std::string_view body) { return without_blanks(body).starts_with('['); }

std::vector<std::string_view> split_list(std::string_view body, std::size_t most) {
  const std::string_view text = without_blanks(body);
  std::vector<std::string_view> elements;
  int depth = 0;
  std::size_t begin = 1, end = 0;
  const auto add = [&](std::size_t to) {
    if (elements.size() == most) throw InputError(fmt::format("the list has more than {} requests", most));
    elements.push_back(without_blanks(text.substr(begin, to - begin)));
    begin = to + 1;
  };
  for_each_sign(text, [&](char c, std::size_t i) {
    if (end != 0) return;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' && depth == 1) add(i);
    if (depth == 0) {
      end = i;
      if (!elements.empty() || !without_blanks(text.substr(begin, i - begin)).empty()) add(i);
    }
  });
  if (end == 0 || text[end] != ']') throw InputError("the list is cut off");
  if (end + 1 != text.size()) throw InputError("the list is followed by something else");
  return elements;
}

void check_json_memory(std::string_view text) {
  // What the JSON library takes: 16 bytes a value, twice while a list grows; 24 more for a list, 112 for an object's
  // first member.
  constexpr std::size_t of_value = 32, of_list = 32, of_object = 112, times = 10, small = 64 << 10;
  std::size_t bytes = 0;
  for_each_sign(text, [&](char c, std::size_t) {
    if (c == ',') bytes += of_value;
    if (c == '[') bytes += of_list;
    if (c == '{' || c == ':') bytes += of_object;
  });
  if (bytes > times * text.size() + small)
    throw InputError("the request has so many values that it takes more than ten times its size in memory");
}

void check_no_paths(const nlohmann::json& request) {
  for (const PathField& field : path_fields) {
    const auto found = request.find(field.name);
    if (found == request.end() || !found->is_string()) continue;
    const auto& text = found->get_ref<const std::string&>();
    if (field.is_path(text))
      throw InputError(fmt::format("{} \"{}\" is a path, and a service opens no file: send {}", field.name, shown(text),
                                   field.instead));
  }
}

}  // namespace perfpred
