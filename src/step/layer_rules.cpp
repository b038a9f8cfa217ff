// SPDX-License-Identifier: Apache-2.0
#include "step/layer_rules.h"

#include <perfpred/error.h>

// A kind of layer without a rule does not compile.
#pragma GCC diagnostic error "-Wswitch"

namespace perfpred {

const LayerRule& rule_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::input:
      return input_rule;
    case LayerKind::conv2d:
      return convolution_rule;
    case LayerKind::batch_norm:
      return batch_norm_rule;
    case LayerKind::layer_norm:
      return layer_norm_rule;
    case LayerKind::linear:
      return linear_rule;
    case LayerKind::embedding:
      return embedding_rule;
    case LayerKind::position_ids:
    case LayerKind::type_ids:
      return index_buffer_rule;
    case LayerKind::relu:
      return relu_rule;
    case LayerKind::relu6:
      return relu6_rule;
    case LayerKind::hardswish:
      return hardswish_rule;
    case LayerKind::hardsigmoid:
      return hardsigmoid_rule;
    case LayerKind::silu:
      return silu_rule;
    case LayerKind::sigmoid:
      return sigmoid_rule;
    case LayerKind::tanh:
      return tanh_rule;
    case LayerKind::gelu:
    case LayerKind::gelu_tanh:
      return gelu_rule;
    case LayerKind::max_pool:
      return max_pool_rule;
    case LayerKind::avg_pool:
      return avg_pool_rule;
    case LayerKind::adaptive_avg_pool:
      return adaptive_avg_pool_rule;
    case LayerKind::global_avg_pool:
      return global_avg_pool_rule;
    case LayerKind::add:
      return add_rule;
    case LayerKind::mul:
      return mul_rule;
    case LayerKind::scale:
      return scale_rule;
    case LayerKind::dropout:
    case LayerKind::stochastic_depth:
      return dropout_rule;
    case LayerKind::layer_scale:
      return layer_scale_rule;
    case LayerKind::concat:
      return concat_rule;
    case LayerKind::chunk:
      return chunk_rule;
    case LayerKind::channel_shuffle:
      return shuffle_rule;
    case LayerKind::flatten:
    case LayerKind::to_nhwc:
    case LayerKind::to_nchw:
    case LayerKind::to_tokens:
      return view_rule;
    case LayerKind::class_token:
      return class_token_rule;
    case LayerKind::first_token:
      return first_token_rule;
    case LayerKind::position_embedding:
      return position_embedding_rule;
    case LayerKind::split_heads:
      return split_heads_rule;
    case LayerKind::merge_heads:
      return merge_heads_rule;
    case LayerKind::matmul:
      return matmul_rule;
    case LayerKind::matmul_transposed:
      return matmul_transposed_rule;
    case LayerKind::causal_mask:
      return causal_mask_rule;
    case LayerKind::softmax:
      return softmax_rule;
  }
  throw Error("a layer has no kind");
}

}  // namespace perfpred
