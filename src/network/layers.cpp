// SPDX-License-Identifier: Apache-2.0
#include "network/layers.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {

std::string_view to_string(LayerKind kind) { return enumerator_name_of<last_layer_kind>(kind); }

std::int64_t gates(RnnCell cell) { return cell == RnnCell::lstm ? 4 : cell == RnnCell::gru ? 3 : 1; }

namespace {

bool has_vector(LayerKind kind) {
  return kind == LayerKind::rms_norm || kind == LayerKind::unit_scale || kind == LayerKind::weight_norm ||
         kind == LayerKind::llama_norm || kind == LayerKind::gemma_norm;
}

}  // namespace

LayerParameters Network::parameters(const Layer& layer) {
  LayerParameters parameters;
  const auto add = [&](const Shape& shape) { parameters.shapes[parameters.count++] = shape; };
  switch (layer.kind) {
    case LayerKind::conv2d:
      add({layer.out_channels, layer.in_channels / layer.groups, layer.kernel[0], layer.kernel[1]});
      if (layer.bias) add({layer.out_channels});
      break;
    case LayerKind::linear:
      if (layer.tied_to < 0) add({layer.out_channels, layer.in_channels});
      if (layer.bias) add({layer.out_channels});
      break;
    case LayerKind::batch_norm:
    case LayerKind::layer_norm:
      add({layer.out_channels});
      add({layer.out_channels});
      break;
    case LayerKind::rnn: {
      const std::int64_t rows = gates(layer.cell) * layer.out_channels;
      add({rows, layer.in_channels});
      add({rows, layer.out_channels});
      add({rows});
      add({rows});
      parameters.later_input = {rows, layer.groups * layer.out_channels};
      parameters.in_first = static_cast<std::size_t>(4 * layer.groups);
      parameters.count = parameters.in_first * static_cast<std::size_t>(layer.count);
      break;
    }
    case LayerKind::experts:
      add({layer.groups, 2 * layer.out_channels, layer.in_channels});
      add({layer.groups, layer.in_channels, layer.out_channels});
      break;
    case LayerKind::embedding:
      add({layer.in_channels, layer.out_channels});
      break;
    case LayerKind::layer_scale:
      add({layer.out_channels, 1, 1});
      break;
    case LayerKind::class_token:
      add({1, 1, layer.out_channels});
      break;
    case LayerKind::position_embedding:
      add({1, layer.in_channels, layer.out_channels});
      break;
    case LayerKind::relative_position:
    case LayerKind::window_bias:
      add({(2 * layer.kernel[0] - 1) * (2 * layer.kernel[1] - 1), layer.groups});
      break;
    default:
      if (has_vector(layer.kind)) add({layer.out_channels});
      break;
  }
  return parameters;
}

std::int64_t Network::labels() const {
  if (boxes >= 0) return layers[static_cast<std::size_t>(boxes)].output[1];
  return tokens ? layers.front().output[1] : 1;
}

std::int64_t Network::params() const {
  std::int64_t total = 0;
  for (const Layer& layer : layers) {
    if (layer.frozen) continue;
    const LayerParameters own = parameters(layer);
    for (std::size_t i = 0; i < own.count; ++i) {
      total += own[i].numel();
      if (total > Shape::max_numel)
        throw InputError(fmt::format("network {} is too large for any device", shown(name)));
    }
  }
  return total;
}

}  // namespace perfpred
