// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal_text.h"

#include <fmt/color.h>
#include <unistd.h>

#include <cstdlib>

namespace perfpred {
namespace {

std::string styled(const fmt::text_style& style, std::string_view text) {
  static const bool colours = wants_colour(::isatty(STDOUT_FILENO) != 0, std::getenv("NO_COLOR"), std::getenv("TERM"));
  return colours ? fmt::format(style, "{}", text) : std::string(text);
}

}  // namespace

bool wants_colour(bool terminal, const char* no_color, const char* term) {
  const auto is_set = [](const char* value) { return value != nullptr && *value != '\0'; };
  return terminal && !is_set(no_color) && is_set(term) && std::string_view(term) != "dumb";
}

std::string in_bold(std::string_view text) { return styled(fmt::emphasis::bold, text); }

std::string coloured(MemoryVerdict verdict, std::string_view text) {
  if (verdict == MemoryVerdict::fits) return std::string(text);
  return styled(fg(verdict == MemoryVerdict::only_just ? fmt::terminal_color::yellow : fmt::terminal_color::red), text);
}

}  // namespace perfpred
