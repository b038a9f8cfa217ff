// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace perfpred {

/// An enumerator as the source spells it. GCC and Clang write a template's argument into the name of its function:
/// "... value = perfpred::Phase::loss; ..." or "... value = perfpred::Phase::loss]".
template <auto value>
[[nodiscard]] constexpr std::string_view enumerator_name() {
  constexpr std::string_view function = __PRETTY_FUNCTION__;
  constexpr std::string_view before = "value = ";
  constexpr std::size_t begin = function.find(before) + before.size();
  constexpr std::string_view name = function.substr(begin, function.find_first_of(";]", begin) - begin);
  return name.substr(name.rfind(':') + 1);
}

/// The names of all enumerators of a type from 0 to its last one, in order.
template <auto last>
inline constexpr auto enumerator_names = []<std::size_t... i>(std::index_sequence<i...>) {
  // A value that no enumerator has is written as a cast, "(perfpred::Phase)4".
  constexpr auto next = static_cast<decltype(last)>(static_cast<std::size_t>(last) + 1);
  static_assert(enumerator_name<next>().find(')') != std::string_view::npos, "enumerators follow the last one");
  return std::array{enumerator_name<static_cast<decltype(last)>(i)>()...};
}
(std::make_index_sequence<static_cast<std::size_t>(last) + 1>());

/// The name of a value of the type.
template <auto last>
[[nodiscard]] constexpr std::string_view enumerator_name_of(decltype(last) value) {
  return enumerator_names<last>.at(static_cast<std::size_t>(value));
}

/// The value of this name; nothing for any other text.
template <auto last>
[[nodiscard]] constexpr std::optional<decltype(last)> enumerator_named(std::string_view name) {
  constexpr auto& names = enumerator_names<last>;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<decltype(last)>(i);
  }
  return std::nullopt;
}

}  // namespace perfpred
