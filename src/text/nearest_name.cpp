// SPDX-License-Identifier: Apache-2.0
#include "text/nearest_name.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace perfpred {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string bare(std::string_view name) {
  std::string text = lower_case(name);
  std::erase_if(text, [](char c) { return (c < 'a' || c > 'z') && (c < '0' || c > '9'); });
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

NearestName::NearestName(std::string typed) : typed_(std::move(typed)), limit_(typed_.size() / 3 + 2) {}

void NearestName::offer(std::string_view spelling, std::string_view name) {
  const bool begins = spelling.starts_with(typed_);
  // Texts differ by at least the difference of their lengths: a long one is not compared letter by letter.
  if (!begins && typed_.size() >= spelling.size() + limit_) return;
  const std::size_t distance = edit_distance(typed_, spelling);
  if ((!begins && distance >= limit_) || distance >= spelling.size()) return;
  const std::pair rank(!begins, distance);
  if (rank >= closest_) return;
  closest_ = rank;
  name_ = name;
}

}  // namespace perfpred
