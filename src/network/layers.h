// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/network.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

struct Workload;

/// What a layer computes; N is the batch. Every kind is a fixed sequence of LibTorch operators
/// (docs/guides/counting.md).
enum class LayerKind : std::uint8_t {
  input,         ///< images NxCxHxW, or token numbers NxS
  conv2d,        ///< weight [out, in/groups, kh, kw], bias [out]
  batch_norm,    ///< over channels, batch statistics; weight and bias [C]
  layer_norm,    ///< over the last axis; weight and bias [last]
  rms_norm,      ///< over the last axis, by its root mean square; weight [last]
  linear,        ///< over the last axis; weight [out, in], bias [out]
  embedding,     ///< rows of weight [rows, width]
  position_ids,  ///< 0 .. S-1, a buffer of shape S
  type_ids,      ///< S zeros, a buffer
  relu,
  relu6,
  hardswish,
  hardsigmoid,
  silu,
  sigmoid,
  tanh,
  gelu,       ///< by the error function
  gelu_tanh,  ///< by its tanh approximation
  max_pool,
  avg_pool,           ///< kernel, stride, padding
  adaptive_avg_pool,  ///< to kernel[0] x kernel[1]
  global_avg_pool,    ///< mean over the image, NxCx1x1 (adaptive pooling to 1x1)
  add,                ///< two inputs, broadcast
  mul,                ///< two inputs, the second NxCx1x1 or shaped as the first
  scale,              ///< times the constant `value`
  dropout,            ///< with probability `value`
  stochastic_depth,   ///< drops whole samples with probability `value`
  layer_scale,        ///< times weight [C, 1, 1]
  concat,             ///< along axis 1
  chunk,  ///< part `index` of `count` equal parts along axis 1 (images) or the last (tokens); all parts follow each
          ///< other
  channel_shuffle,  ///< `groups` groups interleaved
  flatten,          ///< all axes after the first into one
  to_nhwc,
  to_nchw,             ///< permuted views of an image
  to_tokens,           ///< NxCxHxW seen as NxHWxC, or with `groups` boxes at a position as Nx(HW*groups)x(C/groups)
  class_token,         ///< weight [1, 1, C] put before the tokens
  first_token,         ///< NxSxC to NxC
  position_embedding,  ///< plus weight [1, S, C]
  split_heads,         ///< NxSxC to (N*heads) x S x (C/heads), a copy; `groups` heads
  merge_heads,         ///< and back, a copy
  matmul,              ///< batched a b
  matmul_transposed,   ///< batched a b^T
  causal_mask,         ///< masks what is above the diagonal of the last two axes with a Boolean buffer [S, S]
  softmax,             ///< over the last axis
  pad,                 ///< zeros below and to the right of NxHxWxC; a copy where there is nothing to add, too
  crop,                ///< the first rows and columns of NxHxWxC, a copy
  roll,           ///< NxHxWxC moved by `padding` rows and columns; what leaves the image comes in on its other side
  to_windows,     ///< NxHxWxC to (N*windows) x positions x C, a copy; windows of `kernel` positions
  from_windows,   ///< and back, a copy
  image_windows,  ///< NxCxHxW to N x windows x positions x C, a copy; positions of a window are `stride` apart
  windows_image,  ///< and back, a copy
  join_windows,   ///< NxGxPxC seen as (N*G)xPxC
  part_windows,   ///< and back
  merge_patches,  ///< NxHxWxC to NxH/2xW/2x4C: four neighbours side by side
  select_heads,   ///< part `index` of `count` equal parts of NxSxC, its `groups` heads apart: (N*groups) x S x width, a
                  ///< copy; the gradient of each part lies in zeros of the whole; all parts follow each other
  relative_position,  ///< scores (N*groups)xSxS plus weight [(2h-1)(2w-1), groups], a row for each distance between two
                      ///< positions of a window of `kernel`, by a buffer of row numbers [S*S]
  window_mask,  ///< scores of `groups` heads plus a buffer [windows, 1, S, S] of -100 for positions that only a roll
                ///< by `padding` brought together; `stride` windows of `kernel` in an image
  rotary,       ///< turns the halves of each of `groups` heads of NxSxC against each other by an angle that
                ///< grows with the position; buffers of cosines and sines [S, C/groups]
  rnn,          ///< `count` layers of `cell` over NxSxC, in `groups` directions (1 or 2) of out_channels each;
                ///< dropout between layers with probability `value`; weights and biases of torch.nn.LSTM
  attention,    ///< scaled_dot_product_attention of q, k, v, each NxSxC; `groups` heads of q, `count` of k and v;
                ///< `causal`; dropout with probability `value`; `index` 1: with a mask of all pairs of positions, 2:
                ///< with a window_bias, its fourth input
  // From here on: counted, not executed by the torch component.
  to_float,        ///< in single precision, whatever autocast does
  to_adapter,      ///< in the type of the adapter's parameters
  unit_scale,      ///< times weight [last]
  weight_norm,     ///< DoRA's: times weight [out] over the norms of the rows, `in_channels` long, of a linear layer's
                   ///< weight to which the layers four and three before, of `index` units, are added
  llama_norm,      ///< over the last axis, by its root mean square, written out in single precision; weight [last]
  gemma_norm,      ///< the same, the product with 1 + weight also in single precision
  gelu_new,        ///< gelu_tanh, written out
  slice,           ///< some of the last axis, a view; its gradient lies in zeros of the whole
  reshape,         ///< a view of another shape
  repeat_heads,    ///< NxSx(count*C) to NxSx(groups*C), each head several times, a copy
  experts,         ///< of NxSxC and scores NxSxgroups: each position goes through `count` of `groups` gated MLPs of
                   ///< out_channels, weights [groups, 2*out, C] and [groups, C, out]; their sum, weighted
  token_and_mean,  ///< NxSxC to Nx2C: the first position, and the mean of the others
  window_bias,  ///< without input: what relative_position adds to scores, [1, groups, S, S]; of windows that a roll by
                ///< `padding` cut, with what window_mask adds, [N*windows, groups, S, S]
};
inline constexpr std::size_t executed_layer_kinds = static_cast<std::size_t>(LayerKind::attention) + 1;
inline constexpr LayerKind last_layer_kind = LayerKind::window_bias;
inline constexpr std::size_t layer_kinds = static_cast<std::size_t>(last_layer_kind) + 1;

/// What an rnn computes at a position.
enum class RnnCell : std::uint8_t { lstm, gru, tanh, relu };
[[nodiscard]] std::int64_t gates(RnnCell cell);  ///< vectors that it computes from input and state

[[nodiscard]] std::string_view to_string(LayerKind kind);

/// One layer with the shape it gives. Attributes that its kind does not have keep their defaults.
struct Layer {
  LayerKind kind = LayerKind::input;
  bool bias = false;        ///< conv2d, linear
  bool in_place = false;    ///< activations, add, dropout: the input's memory is overwritten
  bool ceil_mode = false;   ///< max_pool
  bool causal = false;      ///< attention: of each position to itself and earlier ones
  bool frozen = false;      ///< what it learns has no gradient
  bool projection = false;  ///< linear: of a transformer's block; its weight may be packed
  RnnCell cell = RnnCell::lstm;
  std::uint32_t first_input = 0;
  std::uint32_t input_count = 0;
  std::int32_t tied_to = -1;  ///< linear: the embedding whose weight it shares
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;  ///< embedding: its width, in_channels its rows
  std::array<std::int64_t, 2> kernel = {1, 1}, stride = {1, 1}, padding = {0, 0};
  std::int64_t groups = 1;
  std::int32_t index = 0, count = 0;  ///< chunk; count: rnn, attention
  double value = 0;                   ///< probability, constant, or a normalisation's epsilon
  Shape output = {};
  std::string name = {};  ///< as in torchvision's state dictionary: "layer1.0.conv1"
};

/// Shapes of what a layer learns: weight, then bias. Of an rnn for each layer and direction: weights of its input and
/// its state, and their biases.
struct LayerParameters {
  std::size_t count = 0;
  std::array<Shape, 4> shapes;  ///< the first ones
  Shape later_input;            ///< rnn: input weights of layers after the first
  std::size_t in_first = 4;     ///< rnn: parameters of the first layer

  [[nodiscard]] const Shape& operator[](std::size_t i) const {
    return i % 4 == 0 && i >= in_first ? later_input : shapes[i % 4];
  }
};

/// The layers `first` to `last` of a network, which are executed in training only. Layer `last` gives logits, whose
/// loss times `weight` is added to the network's.
struct AuxiliaryHead {
  std::int32_t first = 0, last = 0;
  double weight = 0;
};

/// A network for one batch size: layers in the order they are executed. The last one gives the logits.
class Network {
 public:
  std::string name;
  std::int64_t classes = 0;  ///< of tokens: the size of the vocabulary
  bool tokens = false;       ///< the input is token numbers, and every token has a label
  bool padded = false;       ///< attention masks padding
  bool own_loss = false;     ///< it gives its loss, not its logits: nothing holds them to the end of the step
  bool adapted = false;      ///< an adapter is trained in place of all else
  std::vector<Layer> layers;
  std::vector<std::int32_t> edges;  ///< inputs of all layers, each an index into layers
  std::optional<AuxiliaryHead> auxiliary;
  /// Of a detector: the layer that gives N x boxes x 4, places of boxes, whose classes the last one gives.
  std::int32_t boxes = -1;
  std::vector<std::pair<std::int32_t, std::int32_t>> blocks;      ///< of a transformer: their first and last layers
  std::vector<std::pair<std::int32_t, std::int32_t>> attentions;  ///< those of what is between the projections
  std::int32_t head = -1;  ///< of a language model: the linear layer that gives the logits; what follows is elementwise

  [[nodiscard]] std::span<const std::int32_t> inputs(const Layer& layer) const {
    return std::span(edges).subspan(layer.first_input, layer.input_count);
  }
  [[nodiscard]] static LayerParameters parameters(const Layer& layer);  ///< none for a weight that is tied
  [[nodiscard]] std::int64_t params() const;                            ///< trainable parameters
  [[nodiscard]] std::int64_t labels() const;                            ///< of a sample: its words, boxes, or one
};

/// The network of a workload.
/// @throws InputError for a network that is not known (with the nearest name), or an input that does not fit it
[[nodiscard]] Network build_network(const Workload& workload);

}  // namespace perfpred
