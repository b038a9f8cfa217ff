// SPDX-License-Identifier: Apache-2.0
#include <perfpred/network.h>

namespace perfpred {

// A kind without a name here is a compiler warning, which builds of this project treat as an error.
std::string_view to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::input:
      return "input";
    case LayerKind::conv2d:
      return "conv2d";
    case LayerKind::batch_norm:
      return "batch_norm";
    case LayerKind::layer_norm:
      return "layer_norm";
    case LayerKind::linear:
      return "linear";
    case LayerKind::embedding:
      return "embedding";
    case LayerKind::position_ids:
      return "position_ids";
    case LayerKind::type_ids:
      return "type_ids";
    case LayerKind::relu:
      return "relu";
    case LayerKind::relu6:
      return "relu6";
    case LayerKind::hardswish:
      return "hardswish";
    case LayerKind::hardsigmoid:
      return "hardsigmoid";
    case LayerKind::silu:
      return "silu";
    case LayerKind::sigmoid:
      return "sigmoid";
    case LayerKind::tanh:
      return "tanh";
    case LayerKind::gelu:
      return "gelu";
    case LayerKind::gelu_tanh:
      return "gelu_tanh";
    case LayerKind::max_pool:
      return "max_pool";
    case LayerKind::avg_pool:
      return "avg_pool";
    case LayerKind::adaptive_avg_pool:
      return "adaptive_avg_pool";
    case LayerKind::global_avg_pool:
      return "global_avg_pool";
    case LayerKind::add:
      return "add";
    case LayerKind::mul:
      return "mul";
    case LayerKind::scale:
      return "scale";
    case LayerKind::dropout:
      return "dropout";
    case LayerKind::stochastic_depth:
      return "stochastic_depth";
    case LayerKind::layer_scale:
      return "layer_scale";
    case LayerKind::concat:
      return "concat";
    case LayerKind::chunk:
      return "chunk";
    case LayerKind::channel_shuffle:
      return "channel_shuffle";
    case LayerKind::flatten:
      return "flatten";
    case LayerKind::to_nhwc:
      return "to_nhwc";
    case LayerKind::to_nchw:
      return "to_nchw";
    case LayerKind::to_tokens:
      return "to_tokens";
    case LayerKind::class_token:
      return "class_token";
    case LayerKind::first_token:
      return "first_token";
    case LayerKind::position_embedding:
      return "position_embedding";
    case LayerKind::split_heads:
      return "split_heads";
    case LayerKind::merge_heads:
      return "merge_heads";
    case LayerKind::matmul:
      return "matmul";
    case LayerKind::matmul_transposed:
      return "matmul_transposed";
    case LayerKind::causal_mask:
      return "causal_mask";
    case LayerKind::softmax:
      return "softmax";
  }
  return {};
}

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
    default:
      break;
  }
  return parameters;
}

std::int64_t Network::params() const {
  std::int64_t total = 0;
  for (const Layer& layer : layers) {
    const LayerParameters own = parameters(layer);
    for (std::size_t i = 0; i < own.count; ++i) total += own.shapes[i].numel();
  }
  return total;
}

}  // namespace perfpred
