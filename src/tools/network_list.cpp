// SPDX-License-Identifier: Apache-2.0
#include "tools/network_list.h"

#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "network/records.h"
#include "network/zoo/pretrained.h"
#include "network/zoo/zoo.h"
#include "text/nearest_name.h"
#include "tools/terminal_text.h"

namespace perfpred {
namespace {

/// Of networks with longer contexts, whose parameters do not depend on it.
constexpr std::int64_t some_length = 16;

ListedNetwork described(const Record& record) {
  ListedNetwork network{std::string(record.plain_name()), {}, record.params, {}, record.classes};
  network.aliases = record.aliases;
  for (const auto& input : record.inputs) network.inputs.push_back(Shape(input).text());
  network.input = network.inputs.front();
  network.version = record.version;
  network.sample = record.sample;
  network.source = record.source;
  network.licence = record.licence;
  return network;
}

ListedNetwork described(const std::string& name) {
  if (const Record* record = is_recorded(name) ? find_record(name) : nullptr) return described(*record);
  const TrainingData data = usual_data(name);
  ListedNetwork network{name, {}, 0, {}, data.classes};
  if (const KnownTransformer* known = find_known_network(name)) {
    network.hub = known->alias;
    network.aliases = {network.hub};
  }
  network.input = Shape(data.input).text();
  network.params = Workload::zoo(name, 1, data.input.empty() ? std::vector{some_length} : data.input).params();
  return network;
}

bool is_like(const Record& record, const std::string& word) {
  const auto has = [&](std::string_view name) { return bare(name).find(word) != std::string::npos; };
  return has(record.plain_name()) || std::ranges::any_of(record.aliases, has);
}

bool is_like(std::string_view name, const std::string& word) {
  if (bare(name).find(word) != std::string::npos) return true;
  const KnownTransformer* known = find_known_network(name);
  return known != nullptr && bare(known->alias).find(word) != std::string::npos;
}

std::string inputs_text(const ListedNetwork& network) {
  if (!network.inputs.empty()) return fmt::format("{}", fmt::join(network.inputs, ","));
  return network.input.empty() ? "-" : network.input;
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
  for (const Record& record : records()) {
    if (record.name == meant || (!says_nothing && is_like(record, like))) names.push_back(record.name);
  }
  if (names.empty()) names = {meant};
  std::vector<ListedNetwork> networks;
  networks.reserve(names.size());
  for (const std::string& name : names) networks.push_back(described(name));
  std::ranges::sort(networks, {}, &ListedNetwork::name);
  return networks;
}

nlohmann::ordered_json to_json(const std::vector<ListedNetwork>& networks) {
  nlohmann::ordered_json document = {{"networks", nlohmann::ordered_json::array()}};
  for (const ListedNetwork& network : networks) {
    document["networks"].push_back(
        {{"name", network.name},
         {"hub", text_or_null(network.hub)},
         {"params", network.params},
         {"input", text_or_null(network.input)},
         {"classes", network.classes > 0 ? nlohmann::ordered_json(network.classes) : nlohmann::ordered_json()},
         {"aliases", network.aliases},
         {"inputs", network.inputs},
         {"sample", text_or_null(network.sample)},
         {"source", text_or_null(network.source)},
         {"version", network.version > 0 ? nlohmann::ordered_json(network.version) : nlohmann::ordered_json()},
         {"licence", text_or_null(network.licence)}});
  }
  return document;
}

std::string networks_text(const std::vector<ListedNetwork>& networks) {
  std::size_t width = 7, input_width = 12;
  for (const ListedNetwork& network : networks) {
    width = std::max(width, network.name.size());
    input_width = std::max(input_width, inputs_text(network).size());
  }
  std::string text = in_bold(fmt::format("{:<{}} {:>14} {:>{}} {:>8}  {}", "network", width, "parameters", "input",
                                         input_width, "classes", "elsewhere; what a sample is")) +
                     "\n";
  for (const ListedNetwork& network : networks) {
    const std::string also = fmt::format("{}", fmt::join(network.aliases, ", "));
    std::string line =
        fmt::format("{:<{}} {:>14} {:>{}} {:>8}  {}{}{}", network.name, width, network.params, inputs_text(network),
                    input_width, network.classes > 0 ? std::to_string(network.classes) : "-", also,
                    also.empty() || network.sample.empty() ? "" : "; ", network.sample);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace perfpred
