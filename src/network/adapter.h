// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace perfpred {

/// Projections of a transformer's block, a bit each; one linear layer may be several.
struct Projection {
  static constexpr std::uint8_t query = 1, key = 2, value = 4, mixed = 8, gate = 16, up = 32, down = 64;
  static constexpr std::uint8_t attention_in = query | key | value, gate_up = gate | up;
};

enum class AdapterKind : std::uint8_t { none, lora, dora, adalora, ia3, adapter };

/// What is trained in place of a network's own parameters (AdapterName).
struct Adapter {
  AdapterKind kind = AdapterKind::none;
  std::int64_t rank = 0;
  std::uint8_t targets = 0;  ///< Projections
  std::string name = {};     ///< canonical
};

/// @throws InputError for a text that is none; the empty one is AdapterKind::none
[[nodiscard]] Adapter parse_adapter(std::string_view text);

}  // namespace perfpred
