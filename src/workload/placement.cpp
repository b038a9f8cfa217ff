// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/parallel_layout.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::int64_t most_nodes = 1 << 20, most_devices = 1 << 12;

std::int64_t count_of_nodes(std::string_view text, std::string_view whole, std::int64_t most) {
  const ValuePlace place = {{}, 0, "gpus_per_node"};
  const bool is_plain = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_plain) throw_bad_value(place, whole, "devices on each node, as 8, 1+3 or 8x32 (32 nodes of 8)");
  const std::int64_t number = parse_positive_integer(text, place);
  if (number > most) throw_bad_value(place, whole, fmt::format("made of numbers up to {}", most));
  return number;
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  Placement placement;
  placement.nodes.clear();
  const std::string_view whole = trimmed(text);
  for (std::size_t begin = 0; begin <= whole.size();) {
    const std::size_t end = std::min(whole.find('+', begin), whole.size());
    const std::string_view part = whole.substr(begin, end - begin);
    const std::size_t times = std::min(part.find('x'), part.size());
    const std::int64_t each = count_of_nodes(part.substr(0, times), whole, most_devices);
    const std::int64_t nodes = times < part.size() ? count_of_nodes(part.substr(times + 1), whole, most_nodes) : 1;
    if (static_cast<std::int64_t>(placement.nodes.size()) + nodes > most_nodes) {
      throw_bad_value({{}, 0, "gpus_per_node"}, whole, fmt::format("of at most {} nodes", most_nodes));
    }
    placement.nodes.insert(placement.nodes.end(), static_cast<std::size_t>(nodes), each);
    begin = end + 1;
  }
  if (placement.nodes == std::vector<std::int64_t>{1}) placement.nodes.clear();
  return placement;
}

std::string Placement::text() const {
  if (nodes.empty()) return "1";
  std::string text;
  for (std::size_t i = 0; i < nodes.size();) {
    std::size_t end = i;
    while (end < nodes.size() && nodes[end] == nodes[i]) ++end;
    if (!text.empty()) text += '+';
    text += std::to_string(nodes[i]);
    if (end - i > 1) text += fmt::format("x{}", end - i);
    i = end;
  }
  return text;
}

std::int64_t Placement::devices() const {
  return nodes.empty() ? 1 : std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
}

std::int64_t Placement::fullest() const { return nodes.empty() ? 1 : *std::max_element(nodes.begin(), nodes.end()); }

}  // namespace perfpred
