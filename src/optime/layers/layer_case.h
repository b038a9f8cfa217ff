// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/column.h"

namespace perfpred {

/// What is measured alone. The names are those of the column `layer`.
enum class LayerType : std::uint8_t {
  conv2d,
  linear,
  rnn,
  attention,
  embedding,
  layernorm,
  rmsnorm,
  positional_encoding,
  batchnorm,
  pooling,
  elementwise,
  softmax,
};
inline constexpr std::size_t layer_types = 12;

[[nodiscard]] std::string_view to_string(LayerType type);
/// @throws InputError, listing the choices, for any other text
[[nodiscard]] LayerType parse_layer_type(std::string_view text);

/// A layer with its sizes and how it is trained. Sizes that its type does not have are 1.
struct LayerCase {
  LayerType type = LayerType::linear;
  std::string variant;  ///< one of LayerForm::variants; empty for types without
  std::int64_t batch_size = 1, seq_len = 1, image_size = 1;
  std::int64_t in = 1, out = 1;  ///< channels, features, rows of a table; `out` where the type has both
  std::int64_t kernel_size = 1, stride = 1;
  std::int64_t padding = 0;  ///< pixels on each side; same_padding: as many as keep size / stride, rounded up
  std::int64_t groups = 1, num_layers = 1, num_heads = 1;
  std::int64_t num_kv_heads = 0;  ///< of keys and values, a divisor of num_heads; 0: as many
  bool bias = true;
  bool bidirectional = false;
  std::string activation = "none";  ///< after conv2d and linear: one of layer_activations
  bool input_gradient = true;       ///< as inside a network; false: as its first layer
  bool backward = true;             ///< false: forward only
  Optimizer optimizer = Optimizer::none;
  Precision precision = Precision::fp32;

  friend bool operator==(const LayerCase&, const LayerCase&) = default;
};

inline constexpr std::int64_t same_padding = -1;

/// The functions that elementwise layers compute, and what may follow a conv2d or linear.
inline constexpr std::array<std::string_view, 8> layer_activations = {"none", "relu",  "sigmoid", "tanh",
                                                                      "gelu", "relu6", "silu",    "hardswish"};

/// A size of a layer: its column, and the range that it is drawn from.
struct LayerSize {
  std::string_view column;
  std::int64_t LayerCase::*member;
  std::int64_t low, high;  ///< of those drawn; where they are equal, a table may leave the column out
};

/// What a type of layer has.
struct LayerForm {
  std::span<const LayerSize> sizes;
  std::span<const std::string_view> variants;
  bool weighted = false;  ///< has a bias and an activation: conv2d, linear
};

[[nodiscard]] const LayerForm& form_of(LayerType type);

/// Pixels that the padding adds to the height and to the width, both sides together.
[[nodiscard]] std::int64_t padded_pixels(const LayerCase& layer);
/// Whether these pixels are an odd number, one more on one side: the image is padded before the layer then.
[[nodiscard]] inline bool pads_unevenly(const LayerCase& layer) { return padded_pixels(layer) % 2 != 0; }
/// Height and width of the image that a conv2d or a pooling makes.
[[nodiscard]] std::int64_t output_pixels(const LayerCase& layer);

/// @throws InputError naming the size that does not fit the others
void check_layer(const LayerCase& layer);

/// Columns that say which layer it is: names of torch.nn's arguments. Fields that a type does not have are empty.
[[nodiscard]] const Columns<LayerCase>& layer_columns();
/// The fields as one text: equal texts mean the same layer.
[[nodiscard]] std::string layer_key(const LayerCase& layer);

/// A layer as people write it, `conv2d:in=64,out=128,kernel=3,size=56`: the type and its own columns, by their names or
/// short ones (in, out, kernel, size, seq, heads, layers). What is left out is as in a table; stride and the number of
/// layers of an rnn are 1. How it is trained (batch_size, optimizer, precision) is not part of the text.
/// @throws InputError in one line with the keys that the type has
[[nodiscard]] LayerCase parse_layer(std::string_view text);
[[nodiscard]] std::string layer_text(const LayerCase& layer);  ///< that text, with all columns of the type

}  // namespace perfpred
