// SPDX-License-Identifier: Apache-2.0
#include "step/layer_rules.h"

#include <perfpred/error.h>

// A kind of layer without a rule does not compile.
#pragma GCC diagnostic error "-Wswitch"

namespace perfpred {

#define PERFPRED_RULE(kind, rule) \
  case LayerKind::kind:           \
    return rule##_rule

const LayerRule& rule_of(LayerKind kind) {
  switch (kind) {
    PERFPRED_RULE(input, input);
    PERFPRED_RULE(conv2d, convolution);
    PERFPRED_RULE(batch_norm, batch_norm);
    PERFPRED_RULE(layer_norm, layer_norm);
    PERFPRED_RULE(rms_norm, rms_norm);
    PERFPRED_RULE(linear, linear);
    PERFPRED_RULE(embedding, embedding);
    PERFPRED_RULE(position_ids, index_buffer);
    PERFPRED_RULE(type_ids, index_buffer);
    PERFPRED_RULE(relu, relu);
    PERFPRED_RULE(relu6, relu6);
    PERFPRED_RULE(hardswish, hardswish);
    PERFPRED_RULE(hardsigmoid, hardsigmoid);
    PERFPRED_RULE(silu, silu);
    PERFPRED_RULE(sigmoid, sigmoid);
    PERFPRED_RULE(tanh, tanh);
    PERFPRED_RULE(gelu, gelu);
    PERFPRED_RULE(gelu_tanh, gelu);
    PERFPRED_RULE(max_pool, max_pool);
    PERFPRED_RULE(avg_pool, avg_pool);
    PERFPRED_RULE(adaptive_avg_pool, adaptive_avg_pool);
    PERFPRED_RULE(global_avg_pool, global_avg_pool);
    PERFPRED_RULE(add, add);
    PERFPRED_RULE(mul, mul);
    PERFPRED_RULE(scale, scale);
    PERFPRED_RULE(dropout, dropout);
    PERFPRED_RULE(stochastic_depth, dropout);
    PERFPRED_RULE(layer_scale, layer_scale);
    PERFPRED_RULE(concat, concat);
    PERFPRED_RULE(chunk, chunk);
    PERFPRED_RULE(channel_shuffle, shuffle);
    PERFPRED_RULE(flatten, flatten);
    PERFPRED_RULE(to_nhwc, view);
    PERFPRED_RULE(to_nchw, view);
    PERFPRED_RULE(to_tokens, view);
    PERFPRED_RULE(class_token, class_token);
    PERFPRED_RULE(first_token, first_token);
    PERFPRED_RULE(position_embedding, position_embedding);
    PERFPRED_RULE(split_heads, split_heads);
    PERFPRED_RULE(merge_heads, merge_heads);
    PERFPRED_RULE(matmul, matmul);
    PERFPRED_RULE(matmul_transposed, matmul_transposed);
    PERFPRED_RULE(causal_mask, causal_mask);
    PERFPRED_RULE(softmax, softmax);
    PERFPRED_RULE(pad, pad);
    PERFPRED_RULE(crop, crop);
    PERFPRED_RULE(roll, roll);
    PERFPRED_RULE(to_windows, to_windows);
    PERFPRED_RULE(from_windows, from_windows);
    PERFPRED_RULE(image_windows, image_windows);
    PERFPRED_RULE(windows_image, windows_image);
    PERFPRED_RULE(join_windows, view);
    PERFPRED_RULE(part_windows, view);
    PERFPRED_RULE(merge_patches, merge_patches);
    PERFPRED_RULE(select_heads, select_heads);
    PERFPRED_RULE(relative_position, relative_position);
    PERFPRED_RULE(window_mask, window_mask);
    PERFPRED_RULE(rotary, rotary);
    PERFPRED_RULE(rnn, rnn);
    PERFPRED_RULE(attention, attention);
  }
  throw Error("a layer has no kind");
}

#undef PERFPRED_RULE

}  // namespace perfpred
