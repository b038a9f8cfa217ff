// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "network/layers.h"

namespace perfpred {

class StepBuilder;

/// The operators of one kind of layer.
struct LayerRule {
  void (*forward)(StepBuilder& step, const Layer& layer);
  void (*backward)(StepBuilder& step, const Layer& layer);  ///< called where the output has a gradient
};

/// The rule of every kind of layer.
[[nodiscard]] const LayerRule& rule_of(LayerKind kind);

// layers/input.cpp
extern const LayerRule input_rule, index_buffer_rule;

// layers/convolution.cpp: images
extern const LayerRule convolution_rule, batch_norm_rule, max_pool_rule, avg_pool_rule, adaptive_avg_pool_rule,
    global_avg_pool_rule;

// layers/matrix.cpp: matrix products and what transformers have around them
extern const LayerRule linear_rule, embedding_rule, layer_norm_rule, rms_norm_rule, matmul_rule, matmul_transposed_rule,
    causal_mask_rule, softmax_rule, attention_rule;

// layers/sequence.cpp: what knows the order of positions
extern const LayerRule rotary_rule, rnn_rule;

// layers/windows.cpp: attention inside windows of an image
extern const LayerRule pad_rule, crop_rule, roll_rule, to_windows_rule, from_windows_rule, image_windows_rule,
    windows_image_rule, merge_patches_rule, select_heads_rule, relative_position_rule, window_mask_rule;

// layers/elementwise.cpp
extern const LayerRule relu_rule, relu6_rule, hardswish_rule, hardsigmoid_rule, silu_rule, sigmoid_rule, tanh_rule,
    gelu_rule, scale_rule, add_rule, mul_rule, dropout_rule, layer_scale_rule, position_embedding_rule;

// layers/rearrangement.cpp: views, copies and joins
void view_forward(StepBuilder& step, const Layer& layer);
void view_backward(StepBuilder& step, const Layer& layer);
void copy_forward(StepBuilder& step, const Layer& layer);
void copy_backward(StepBuilder& step, const Layer& layer);
extern const LayerRule view_rule, flatten_rule, concat_rule, chunk_rule, shuffle_rule, split_heads_rule,
    merge_heads_rule, class_token_rule, first_token_rule;

}  // namespace perfpred
