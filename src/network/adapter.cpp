// SPDX-License-Identifier: Apache-2.0
#include "network/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::uint8_t all_projections = 127, attention_projections = Projection::attention_in | Projection::mixed;
constexpr std::int64_t max_rank = 65'536;
constexpr std::array<std::pair<std::string_view, std::uint8_t>, 9> targets_by_name = {
    {{"all", all_projections},
     {"attention", attention_projections},
     {"q", Projection::query},
     {"k", Projection::key},
     {"v", Projection::value},
     {"o", Projection::mixed},
     {"gate", Projection::gate},
     {"up", Projection::up},
     {"down", Projection::down}}};

std::uint8_t targets_of(std::string_view text) {
  std::uint8_t targets = 0;
  for (bool more = true; more;) {
    const std::size_t end = std::min(text.find('+'), text.size());
    const auto* const found = std::find_if(targets_by_name.begin(), targets_by_name.end(),
                                           [&](const auto& named) { return named.first == text.substr(0, end); });
    if (found == targets_by_name.end()) {
      throw_bad_value({{}, 0, "targets"}, text, "all, attention, or some of q, k, v, o, gate, up, down joined by +");
    }
    targets |= found->second;
    more = end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return targets;
}

std::string targets_text(std::uint8_t targets) {
  std::string text;
  for (const auto& [name, bits] : targets_by_name) {
    if (bits == targets) return std::string(name);
    if ((bits & (bits - 1)) != 0 || (bits & targets) == 0) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

[[noreturn]] void refuse(std::string_view text) {
  throw_bad_value({{}, 0, "adapter"}, text,
                  "one of lora:r=16,targets=attention (or all, q+v), dora:..., adalora:..., ia3:targets=all, "
                  "adapter:r=64");
}

bool has_rank(AdapterKind kind) { return kind != AdapterKind::ia3; }
bool has_targets(AdapterKind kind) { return kind != AdapterKind::adapter; }

/// `r=16` or `targets=all`, each at most once.
void set_field(Adapter& adapter, std::string_view field, std::string_view text) {
  if (has_rank(adapter.kind) && adapter.rank == 0 && field.starts_with("r=")) {
    const std::string_view value = field.substr(2);
    adapter.rank = parse_positive_integer(value, {{}, 0, "r"});
    if (adapter.rank > max_rank) throw_bad_value({{}, 0, "r"}, value, fmt::format("from 1 to {}", max_rank));
  } else if (has_targets(adapter.kind) && adapter.targets == 0 && field.starts_with("targets=")) {
    adapter.targets = targets_of(field.substr(8));
  } else {
    refuse(text);
  }
}

std::string name_of(const Adapter& adapter) {
  std::string name(enumerator_name_of<AdapterKind::adapter>(adapter.kind));
  if (has_rank(adapter.kind)) name += fmt::format(":r={}", adapter.rank);
  if (has_targets(adapter.kind)) {
    name += fmt::format("{}targets={}", has_rank(adapter.kind) ? ',' : ':', targets_text(adapter.targets));
  }
  return name;
}

}  // namespace

Adapter parse_adapter(std::string_view text) {
  Adapter adapter;
  if (text.empty()) return adapter;
  std::string_view rest = text;
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const auto kind = enumerator_named<AdapterKind::adapter>(rest.substr(0, colon));
  if (!kind || *kind == AdapterKind::none) refuse(text);
  adapter.kind = *kind;
  rest.remove_prefix(std::min(colon + 1, rest.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    set_field(adapter, rest.substr(0, end), text);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (has_rank(*kind) && adapter.rank == 0) refuse(text);
  if (has_targets(*kind) && adapter.targets == 0) {
    adapter.targets = *kind == AdapterKind::ia3 ? all_projections : attention_projections;
  }
  adapter.name = name_of(adapter);
  return adapter;
}

}  // namespace perfpred
