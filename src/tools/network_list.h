// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A network that is known by name, and the data that it is usually trained on.
struct ListedNetwork {
  std::string name;
  std::string hub;                        ///< its name on the Hugging Face Hub, in lower case; empty: not known there
  std::int64_t params = 0;                ///< all trained
  std::string input;                      ///< one sample, as 3x224x224, or words of a sequence; empty: none is usual
  std::int64_t classes = 0;               ///< 0: it tells none apart
  std::vector<std::string> aliases = {};  ///< what others call it
  // Of a network that was recorded:
  std::vector<std::string> inputs = {};  ///< with which it was, the usual one first
  std::string sample = {};               ///< what one is
  std::string source = {}, licence = {};
  std::int64_t version = 0;
};

/// The networks whose name, here or elsewhere, has the word's letters and digits in a row, of an empty word all; and
/// the network that the word means. Sorted.
/// @throws InputError for a word that means none, with the nearest name
[[nodiscard]] std::vector<ListedNetwork> list_networks(std::string_view word);

/// {"networks": [{"name", "hub", "params", "input", "classes", "aliases", "inputs", "sample", "source", "version",
/// "licence"}]}, with null for what is empty.
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<ListedNetwork>& networks);

/// A line each.
[[nodiscard]] std::string networks_text(const std::vector<ListedNetwork>& networks);

}  // namespace perfpred
