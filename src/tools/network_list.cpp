// SPDX-License-Identifier: Apache-2.0
#include "tools/network_list.h"

#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>

#include "network/zoo/pretrained.h"
#include "network/zoo/zoo.h"
#include "text/nearest_name.h"
#include "tools/terminal_text.h"

namespace perfpred {
namespace {

/// Of networks with longer contexts, whose parameters do not depend on it.
constexpr std::int64_t some_length = 16;

ListedNetwork described(const std::string& name) {
  const TrainingData data = usual_data(name);
  ListedNetwork network{name, {}, 0, {}, data.classes};
  if (const KnownTransformer* known = find_known_network(name)) network.hub = known->alias;
  network.input = Shape(data.input).text();
  network.params = Workload::zoo(name, 1, data.input.empty() ? std::vector{some_length} : data.input).params();
  return network;
}

bool is_like(std::string_view name, const std::string& word) {
  if (bare(name).find(word) != std::string::npos) return true;
  const KnownTransformer* known = find_known_network(name);
  return known != nullptr && bare(known->alias).find(word) != std::string::npos;
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

std::vector<ListedNetwork> list_networks(std::string_view word) {
  std::vector<std::string> names;
  const std::string like = bare(word), meant = canonical_network(word);
  const bool says_nothing = like.empty() && !word.empty();
  for (const auto& known : {zoo_networks(), known_transformers()}) {
    for (const std::string_view name : known) {
      if (name == meant || (!says_nothing && is_like(name, like))) names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  if (names.empty()) names = {meant};
  std::vector<ListedNetwork> networks;
  networks.reserve(names.size());
  for (const std::string& name : names) networks.push_back(described(name));
  return networks;
}

nlohmann::ordered_json to_json(const std::vector<ListedNetwork>& networks) {
  nlohmann::ordered_json document = {{"networks", nlohmann::ordered_json::array()}};
  for (const ListedNetwork& network : networks) {
    document["networks"].push_back({{"name", network.name},
                                    {"hub", text_or_null(network.hub)},
                                    {"params", network.params},
                                    {"input", text_or_null(network.input)},
                                    {"classes", network.classes}});
  }
  return document;
}

std::string networks_text(const std::vector<ListedNetwork>& networks) {
  std::size_t width = 7;
  for (const ListedNetwork& network : networks) width = std::max(width, network.name.size());
  std::string text = in_bold(fmt::format("{:<{}} {:>14} {:>12} {:>8}  {}", "network", width, "parameters", "input",
                                         "classes", "on the Hugging Face Hub")) +
                     "\n";
  for (const ListedNetwork& network : networks) {
    std::string line = fmt::format("{:<{}} {:>14} {:>12} {:>8}  {}", network.name, width, network.params,
                                   network.input.empty() ? "-" : network.input, network.classes, network.hub);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace perfpred
