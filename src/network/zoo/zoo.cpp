// SPDX-License-Identifier: Apache-2.0
#include "network/zoo/zoo.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "network/records.h"
#include "network/zoo/cifar_cnn.h"
#include "network/zoo/pretrained.h"
#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// Sorted by name.
const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries = [] {
    std::vector<ZooEntry> all;
    add_resnets(all);
    add_plain_networks(all);
    add_branching_networks(all);
    add_mobile_networks(all);
    add_convnexts(all);
    add_windowed_networks(all);
    add_transformers(all);
    std::sort(all.begin(), all.end(), [](const ZooEntry& a, const ZooEntry& b) { return a.name < b.name; });
    return all;
  }();
  return entries;
}

bool is_transformer(std::string_view name) { return name.starts_with("transformer:"); }

const ZooEntry* find(std::string_view name) {
  const auto found = std::lower_bound(zoo().begin(), zoo().end(), name,
                                      [](const ZooEntry& entry, std::string_view key) { return entry.name < key; });
  return found != zoo().end() && found->name == name ? &*found : nullptr;
}

/// What people call networks, as bare() spells it, beside the names that they have here. Those of timm have the
/// parameters, the forward FLOPs and the usual image of timm 1.0.31's.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    // Of papers and of libraries of language models.
    {"bertbasecased", "bert_base"},
    {"bertbaseuncased", "bert_base"},
    {"bertlargecased", "bert_large"},
    {"bertlargeuncased", "bert_large"},
    {"gpt2small", "gpt2"},
    {"inception", "inception_v3"},
    {"resnext50", "resnext50_32x4d"},
    {"swintiny", "swin_t"},
    {"swinsmall", "swin_s"},
    {"swinbase", "swin_b"},
    {"vitbase", "vit_b_16"},
    {"vitlarge", "vit_l_16"},
    {"vithuge", "vit_h_14"},
    {"wideresnet50", "wide_resnet50_2"},
    {"wideresnet101", "wide_resnet101_2"},
    // Of the Hugging Face Hub.
    {"convnextbase224", "convnext_base"},
    {"convnextlarge224", "convnext_large"},
    {"convnextsmall224", "convnext_small"},
    {"convnexttiny224", "convnext_tiny"},
    // Of timm.
    {"deitbasepatch16224", "deit_b_16"},
    {"deitsmallpatch16224", "deit_s_16"},
    {"deittinypatch16224", "deit_ti_16"},
    {"mnasnet050", "mnasnet0_5"},
    {"mnasnet100", "mnasnet1_0"},
    {"mobilenetv2100", "mobilenet_v2"},
    {"mobilenetv3large100", "mobilenet_v3_large"},
    {"mobilenetv3small100", "mobilenet_v3_small"},
    {"regnetx004tv", "regnet_x_400mf"},
    {"regnetx008", "regnet_x_800mf"},
    {"regnetx016", "regnet_x_1_6gf"},
    {"regnetx032", "regnet_x_3_2gf"},
    {"regnetx080", "regnet_x_8gf"},
    {"regnetx160", "regnet_x_16gf"},
    {"regnetx320", "regnet_x_32gf"},
    {"regnety004", "regnet_y_400mf"},
    {"regnety008tv", "regnet_y_800mf"},
    {"regnety016", "regnet_y_1_6gf"},
    {"regnety032", "regnet_y_3_2gf"},
    {"regnety080tv", "regnet_y_8gf"},
    {"regnety160", "regnet_y_16gf"},
    {"regnety320", "regnet_y_32gf"},
    {"swinbasepatch4window7224", "swin_b"},
    {"swinsmallpatch4window7224", "swin_s"},
    {"swintinypatch4window7224", "swin_t"},
    {"vitbasepatch16224", "vit_b_16"},
    {"vitbasepatch32224", "vit_b_32"},
    {"vitlargepatch16224", "vit_l_16"},
};

/// Whose networks on the Hugging Face Hub are among these, by their names there.
constexpr std::string_view hub_authors[] = {"facebook/",  "google/",           "google-bert/",
                                            "microsoft/", "openai-community/", "timm/"};

/// Without what timm and its networks on the Hub add of how weights were trained: `resnet50.a1_in1k`. With other
/// classes than ImageNet-1k's, as `.augreg_in21k`, it is another network.
std::string_view without_tag(std::string_view name) {
  const std::size_t tag = name.rfind('.');
  return tag != std::string_view::npos && name.ends_with("in1k") ? name.substr(0, tag) : name;
}

/// The network of the zoo, or else the record, whose name has these letters and digits (`ViT-L/16`), or that is called
/// so; else the name.
std::string spelt_as_known(std::string_view name) {
  static const std::unordered_map<std::string, std::string_view> names = [] {
    std::unordered_map<std::string, std::string_view> all(std::begin(other_names), std::end(other_names));
    for (const ZooEntry& entry : zoo()) {
      const auto [other, is_new] = all.emplace(bare(entry.name), entry.name);
      if (!is_new) other->second = "";  // regnet_x_1_6gf and regnet_x_16gf
    }
    return all;
  }();
  std::string_view own = name;
  for (const std::string_view author : hub_authors) {
    if (own.starts_with(author)) own.remove_prefix(author.size());
  }
  const auto found = names.find(bare(without_tag(own)));
  if (found != names.end() && !found->second.empty()) return std::string(found->second);
  if (name.empty() || name.find(':') != std::string_view::npos) return std::string(name);  // not yet set; of a file
  const Record* record = find_record(name);
  if (record == nullptr && !is_recorded(name)) record = find_record(without_tag(own));
  return record != nullptr ? record->name : std::string(name);
}

/// A name without its author on the Hugging Face Hub, in lower case.
std::string without_author(std::string_view name) {
  return lower_case(name.substr(name.find('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
}

/// The letters that a name begins with: `swin` of swin_t.
std::string_view family_of(std::string_view name) {
  const auto end = std::find_if(name.begin(), name.end(), [](char c) { return c < 'a' || c > 'z'; });
  return name.substr(0, static_cast<std::size_t>(end - name.begin()));
}

/// Of the networks of its family, the one whose name is nearest, and of several that begins most alike; empty without
/// such a family.
std::string_view nearest_of_family(std::string_view name) {
  constexpr std::size_t shortest = 3;
  const std::string_view family = family_of(name);
  if (family.size() < shortest) return "";
  std::string_view nearest;
  std::pair least(std::string::npos, std::ptrdiff_t{0});  // letters to change, and less those in common in front
  const auto offer = [&](std::string_view known) {
    if (family_of(known) != family) return;
    const auto differs = std::mismatch(name.begin(), name.end(), known.begin(), known.end()).first;
    if (const std::pair away(edit_distance(name, known), name.begin() - differs); away < least) {
      least = away;
      nearest = known;
    }
  };
  for (const ZooEntry& entry : zoo()) offer(entry.name);
  for (const KnownTransformer& known : known_networks()) offer(known.name);
  for (const Record& record : records()) offer(record.plain_name());
  return nearest;
}

/// ` (did you mean resnet50?)`: of a name that is not known; empty where none is near.
std::string meant_network(std::string_view name) {
  const std::string own = without_author(name);
  NearestName nearest(own);
  for (const ZooEntry& entry : zoo()) nearest.offer(entry.name, entry.name);
  for (const KnownTransformer& known : known_networks()) {
    nearest.offer(known.name, known.name);
    nearest.offer(without_author(known.alias), known.name);
  }
  for (const Record& record : records()) {
    nearest.offer(record.plain_name(), record.plain_name());
    for (const std::string& alias : record.aliases) nearest.offer(without_author(alias), record.plain_name());
  }
  nearest.offer(std::string(cifar_cnn_family), cifar_cnn_family);
  nearest.offer("transformer", transformer_example);
  nearest.offer("lstm", recurrent_example);
  nearest.offer("gru", fmt::format("{},cell=gru", recurrent_example));
  nearest.offer("rnn", fmt::format("{},cell=tanh", recurrent_example));
  const std::string_view of_family = nearest_of_family(own);
  const bool is_near = nearest.found() && (of_family.empty() || family_of(*nearest.found()) == family_of(own));
  if (is_near) return fmt::format(" (did you mean {}?)", *nearest.found());
  return of_family.empty() ? "" : fmt::format(" (the nearest is {})", of_family);
}

const ZooEntry& zoo_entry(std::string_view name) {
  if (const ZooEntry* known = find(name)) return *known;
  if (find_record(name) != nullptr)
    throw InputError(fmt::format(
        "network {} was recorded: its operators are known, not its layers, which this asks for", shown(name)));
  if (const Record* other = is_recorded(name) ? find_record(name.substr(0, name.find('@'))) : nullptr)
    throw InputError(fmt::format("network {} is of another version: this one has {}", shown(name), other->name));
  throw InputError(fmt::format(
      "network \"{}\" is not known{}; --config config.json takes a model of Hugging Face's transformers, and "
      "perfpred.capture records a step of any other of PyTorch",
      shown(name), meant_network(name)));
}

/// The description of a network of transformers, or of one whose name states its sizes; nothing for others.
/// @throws InputError for a file that was not given, and as parse_transformer()
std::optional<TransformerDescription> described(std::string_view name) {
  if (is_transformer(name)) return parse_transformer(name);
  if (is_config(name)) {
    if (auto known = find_config(name)) return known;
    throw InputError(
        fmt::format("network {} is a config.json's that was not given (config, add_config())", shown(name)));
  }
  const KnownTransformer* known = find_known_network(name);
  return known != nullptr ? std::optional(describe(*known)) : std::nullopt;
}

/// The sequences of networks with longer contexts have no usual length.
constexpr std::int64_t longest_usual = 8192;

TrainingData usual_data(const TransformerDescription& network, bool of_file) {
  if (network.patch > 0) {
    return {
        {network.channels, network.image, network.image}, std::max<std::int64_t>(network.labels, 2), imagenet_images};
  }
  TrainingData data = {{}, network.words, token_sequences};
  if (!of_file && network.positions <= longest_usual) data.input = {network.positions - network.padding_places};
  return data;
}

}  // namespace

std::optional<TransformerDescription> find_transformer(std::string_view name) {
  const auto own = find_zoo_transformer(name);
  return own ? own : described(name);
}

std::string canonical_network(std::string_view name) {
  std::string lower = lower_case(name);
  if (find(lower) != nullptr || is_cifar_cnn(lower)) return lower;
  if (const KnownTransformer* known = find_known_network(lower)) return std::string(known->name);
  if (!states_sizes(lower)) return spelt_as_known(lower);
  try {
    return is_transformer(lower) ? parse_transformer(lower).name : parse_recurrent(lower).name;
  } catch (const InputError&) {
    return lower;  // whoever builds it says what is wrong
  }
}

bool is_recurrent(std::string_view network) { return network.starts_with("lstm:"); }

bool states_sizes(std::string_view network) {
  return is_transformer(network) || is_recurrent(network) || (is_cifar_cnn(network) && network != cifar_cnn_family);
}

std::span<const std::string_view> zoo_networks() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const ZooEntry& entry : zoo()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

TrainingData usual_data(std::string_view network) {
  if (is_cifar_cnn(network)) return {{3, 32, 32}, 10, cifar_images};
  if (is_transformer(network)) return {{512}, parse_transformer(network).words, token_sequences};
  if (is_recurrent(network)) return {{35}, parse_recurrent(network).words, token_sequences};  // Zaremba et al. 2014
  if (const auto of_transformers = described(network)) return usual_data(*of_transformers, is_config(network));
  if (const Record* record = is_recorded(network) ? find_record(network) : nullptr) {
    return {record->inputs.front(), std::max<std::int64_t>(record->classes, 2),
            record->samples > 0 ? record->samples : token_sequences};
  }
  const ZooEntry& entry = zoo_entry(network);
  if (entry.tokens) return {{entry.size}, entry.classes, entry.images};
  return {{3, entry.size, entry.size}, entry.classes, entry.images};
}

void build_zoo_network(NetworkBuilder& builder, std::string_view name) {
  if (is_recurrent(name)) {
    build_recurrent(builder, parse_recurrent(name));
  } else if (is_cifar_cnn(name)) {
    build_cifar_cnn(builder, name);
  } else if (const auto of_transformers = described(name)) {
    build_pretrained(builder, *of_transformers);
  } else {
    const ZooEntry& entry = zoo_entry(name);
    entry.build(builder, entry.row);
  }
}

}  // namespace perfpred
