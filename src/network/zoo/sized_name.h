// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

/// Of a network whose sizes somebody states. The deepest transformer that was published has 1,000 (DeepNet, Wang et al.
/// 2022).
inline constexpr std::int64_t max_network_blocks = 1'000;

/// A network's name that states its sizes, then options in any order: `lstm:layers=2,hidden=650,vocab=10000,cell=gru`.
/// Ask for options in the order of the canonical name, which holds those that differ from their default.
class SizedName {
 public:
  /// @param sizes    keys that every name has, in this order; each is at least 1 and, but for `layers`, below 2^30
  /// @param example  for messages
  /// @throws InputError if the sizes are not there, or are not written as plain numbers
  SizedName(std::string_view name, std::span<const std::string_view> sizes, std::string_view example);

  [[nodiscard]] std::int64_t size(std::size_t i) const { return sizes_[i]; }

  // Options. @throws InputError that names the option and what it may be
  [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t usual);
  [[nodiscard]] std::size_t choice(std::string_view key, std::span<const std::string_view> values);  ///< 0: default
  [[nodiscard]] bool flag(std::string_view key, bool usual);                                         ///< 0 or 1

  /// The canonical name. @throws InputError if the name has an option that was not asked for
  [[nodiscard]] std::string finish() &&;

 private:
  [[nodiscard]] std::string_view take(std::string_view key);  ///< an option's value; empty if the name has none
  void write(std::string_view key, std::string_view value);

  std::string canonical_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::pair<std::string_view, std::string_view>> options_;
  std::vector<std::string_view> known_;
};

}  // namespace perfpred
