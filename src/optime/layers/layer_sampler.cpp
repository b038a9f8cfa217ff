// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_sampler.h"

#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "network/layers.h"
#include "optime/layers/layer_step.h"
#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::int64_t channel_pixels = 10000;  // channels of an image x its height, at most

/// A layer's shape, whatever its batch and training.
std::string shape_key(LayerCase layer) {
  layer.batch_size = 1;
  layer.input_gradient = layer.backward = true;
  layer.optimizer = Optimizer::none;
  layer.precision = Precision::fp32;
  layer.activation = "none";
  return layer_key(layer);
}

}  // namespace

LayerShapes parse_layer_shapes(std::string_view text) {
  if (const auto found = enumerator_named<LayerShapes::zoo>(text)) return *found;
  throw_bad_value({{}, 0, "shapes"}, text,
                  fmt::format("one of {}", fmt::join(enumerator_names<LayerShapes::zoo>, ", ")));
}

LayerSampler::LayerSampler(SamplerOptions options) : options_(std::move(options)) {
  if (!(options_.backprop_share >= 0 && options_.backprop_share <= 1)) {
    throw InputError(fmt::format("backprop ratio {} is not between 0 and 1", options_.backprop_share));
  }
  if (options_.networks.empty()) options_.networks.assign(zoo_networks().begin(), zoo_networks().end());
  for (const std::string& name : options_.networks) static_cast<void>(Workload::zoo(name, 1));
  for (const std::string& text : options_.ranges) add_range(text);
  for (const std::string& name : options_.left_out) {
    for (const LayerCase& layer : layers_of(build_network(Workload::zoo(name, 1)))) left_out_.insert(shape_key(layer));
  }
  state_ = options_.seed;
}

void LayerSampler::add_range(const std::string& text) {
  const std::size_t dot = text.find('.'), equals = text.find('='), colon = text.find(':', equals);
  if (dot == std::string::npos || equals == std::string::npos || colon == std::string::npos || dot > equals) {
    throw InputError(fmt::format("range \"{}\" is not layer.column=low:high", shown(text)));
  }
  const LayerType type = parse_layer_type(text.substr(0, dot));
  const std::string column = text.substr(dot + 1, equals - dot - 1);
  const auto sizes = form_of(type).sizes;
  if (std::none_of(sizes.begin(), sizes.end(), [&](const LayerSize& size) { return size.column == column; })) {
    throw InputError(fmt::format("range \"{}\": {} has no size \"{}\"", shown(text), to_string(type), shown(column)));
  }
  if (type == LayerType::conv2d && column == "groups") {
    throw InputError(fmt::format("range \"{}\": groups are drawn with the channels, and have no range", shown(text)));
  }
  if (options_.shapes == LayerShapes::zoo && column != sizes.front().column) {
    throw InputError(
        fmt::format("range \"{}\": of layers of the zoo, the {} alone is drawn", shown(text), sizes.front().column));
  }
  const Range range = {parse_positive_integer(text.substr(equals + 1, colon - equals - 1), {{}, 0, text}),
                       parse_positive_integer(text.substr(colon + 1), {{}, 0, text})};
  if (range.low > range.high) throw InputError(fmt::format("range \"{}\" is empty", shown(text)));
  ranges_.insert_or_assign({type, column}, range);
}

/// SplitMix64 (Steele, Lea, Flood 2014). The bias of the remainder is below 2^-40 for any count used here.
std::uint64_t LayerSampler::below(std::uint64_t count) {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return (z ^ (z >> 31U)) % count;
}

std::int64_t LayerSampler::within(Range range) {
  if (options_.shapes == LayerShapes::uniform) {
    return range.low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(range.high - range.low) + 1));
  }
  const double share = static_cast<double>(below(1U << 30U)) * 0x1p-30;
  const double low = std::log(static_cast<double>(range.low)), high = std::log(static_cast<double>(range.high) + 1);
  return std::clamp(static_cast<std::int64_t>(std::exp(low + share * (high - low))), range.low, range.high);
}

LayerSampler::Range LayerSampler::range_of(LayerType type, const LayerSize& size) const {
  const auto own = ranges_.find({type, std::string(size.column)});
  return own == ranges_.end() ? Range{size.low, size.high} : own->second;
}

LayerSampler::Range LayerSampler::possible(const LayerCase& layer, const LayerSize& size) const {
  Range range = range_of(layer.type, size);
  const bool image =
      layer.type == LayerType::conv2d || layer.type == LayerType::batchnorm || layer.type == LayerType::pooling;
  const bool of_channels = size.member == &LayerCase::in || size.member == &LayerCase::out;
  if (image && of_channels && ranges_.count({layer.type, std::string(size.column)}) == 0) {
    range.high = std::max(range.low, std::min(range.high, channel_pixels / layer.image_size));
  }
  if (size.member == &LayerCase::kernel_size) {
    range.high = std::max(range.low, std::min(range.high, layer.image_size));
  }
  return range;
}

void LayerSampler::draw_sizes(LayerCase& layer) {
  for (const LayerSize& size : form_of(layer.type).sizes) {
    const Range range = possible(layer, size);
    if (layer.type == LayerType::attention && size.member == &LayerCase::in) {  // whole heads
      const std::int64_t least = (range.low + layer.num_heads - 1) / layer.num_heads;
      layer.in = layer.num_heads * within({least, std::max(range.high / layer.num_heads, least)});
    } else if (layer.type != LayerType::conv2d || size.member != &LayerCase::groups) {
      layer.*size.member = within(range);
    }
  }
}

void LayerSampler::draw_groups(LayerCase& layer) {
  const std::uint64_t kind = below(8);
  if (kind == 0) {  // depthwise
    layer.out = layer.groups = layer.in;
  } else if (kind == 1) {  // 2 to 32 groups
    const auto groups = static_cast<std::int64_t>(2 << below(5));
    if (layer.in < groups || layer.out < groups) return;
    layer.groups = groups;
    layer.in -= layer.in % groups;
    layer.out -= layer.out % groups;
  }
}

LayerCase LayerSampler::sized(LayerType type) {
  LayerCase layer;
  layer.type = type;
  draw_sizes(layer);
  if (type == LayerType::conv2d) draw_groups(layer);
  if (type == LayerType::conv2d || type == LayerType::pooling) {
    const bool same = below(2) == 0;
    layer.padding = same || layer.kernel_size > layer.image_size ? same_padding : 0;
  }
  if (!form_of(type).variants.empty()) {
    layer.variant = form_of(type).variants[below(form_of(type).variants.size())];
  }
  if (form_of(type).weighted) {
    layer.bias = below(2) == 0;
    layer.activation = layer_activations.at(below(5));
  }
  if (layer.variant == "sdpa" && layer.num_heads % 2 == 0 && below(8) == 0) {  // grouped queries
    const auto halvings = static_cast<std::uint64_t>(std::countr_zero(static_cast<std::uint64_t>(layer.num_heads)));
    layer.num_kv_heads = layer.num_heads >> (1 + below(halvings));
  }
  if (type == LayerType::rnn) layer.bidirectional = below(2) == 0;
  return layer;
}

const std::vector<LayerCase>& LayerSampler::zoo_layers(LayerType type, std::size_t network, std::int64_t batch) {
  auto& layers = zoo_[{network, batch}];
  if (layers.empty()) {
    for (const LayerCase& layer : layers_of(build_network(Workload::zoo(options_.networks[network], batch)))) {
      layers[layer.type].push_back(layer);
    }
  }
  return layers[type];
}

void LayerSampler::train(LayerCase& layer) {
  layer.optimizer = options_.optimizers[below(options_.optimizers.size())];
  layer.precision = options_.precisions[below(options_.precisions.size())];
  const double share = static_cast<double>(below(1U << 30U)) * 0x1p-30;
  layer.backward = share < options_.backprop_share;
  layer.input_gradient = (options_.first_layer ? false : layer.input_gradient) && layer.type != LayerType::embedding;
}

bool LayerSampler::in_ranges(const LayerCase& layer) const {
  const auto sizes = form_of(layer.type).sizes;
  return std::all_of(sizes.begin(), sizes.end(), [&](const LayerSize& size) {
    const auto asked = ranges_.find({layer.type, std::string(size.column)});
    const std::int64_t value = layer.*size.member;
    return asked == ranges_.end() || (value >= asked->second.low && value <= asked->second.high);
  });
}

std::vector<LayerCase> LayerSampler::draw(LayerType type, std::size_t count) {
  std::vector<LayerCase> layers;
  std::set<std::string> seen;
  const LayerSize& batch = form_of(type).sizes.front();
  for (std::size_t misses = 0; layers.size() < count && misses < 200 + 20 * count;) {
    LayerCase layer;
    if (options_.shapes == LayerShapes::zoo) {
      const std::size_t network = below(options_.networks.size());
      const Range batches = range_of(type, batch);
      const auto& known = zoo_layers(type, network, within({batches.low, batches.high}));
      if (known.empty()) {
        ++misses;
        continue;
      }
      layer = known[below(known.size())];
    } else {
      layer = sized(type);
    }
    train(layer);
    // Heads and groups divide widths, which can move them out of a range.
    if (!in_ranges(layer) || left_out_.count(shape_key(layer)) != 0 || !seen.insert(layer_key(layer)).second) {
      ++misses;
      continue;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace perfpred
