// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

namespace perfpred {

/// A row of a Markdown table.
inline std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

/// The first two rows of a Markdown table.
inline std::string markdown_head(const std::vector<std::string>& names) {
  return markdown_row(names) + markdown_row(std::vector<std::string>(names.size(), "---"));
}

/// The PNG files among these, as pictures of a Markdown file in their folder.
inline std::string markdown_pictures(const std::vector<std::string>& files) {
  std::string text;
  for (const std::filesystem::path path : files) {
    if (path.extension() == ".png")
      text += fmt::format("![{}]({})\n\n", path.stem().string(), path.filename().string());
  }
  return text;
}

}  // namespace perfpred
