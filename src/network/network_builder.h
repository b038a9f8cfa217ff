// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "network/adapter.h"
#include "network/layers.h"

namespace perfpred {

/// Index of a layer in the network that is being built.
using LayerId = std::int32_t;

/// Kernel, stride, padding and groups of a convolution or a pooling; square.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
};

/// What attention is like beside the shapes of its operands.
struct AttentionStyle {
  std::int64_t heads;
  bool causal;
  double dropout;              ///< of the probabilities; 0: none
  std::int64_t kv_heads = 0;   ///< of keys and values, a divisor of `heads`; 0: as many
  bool repeats_heads = false;  ///< attention written out repeats fewer heads of keys; else it is refused
  bool capped = false;         ///< scores go through tanh: only written out
  bool masked = false;         ///< by a matrix of all pairs, though it is causal
  LayerId bias = -1;           ///< a window_bias that is added to the scores; only where it is not written out
};

/// Experts of which each position goes through some.
struct ExpertStyle {
  std::int64_t experts, chosen, inner;
};

/// A roll of an image by rows and columns, and the windows that it is cut into.
struct RolledWindows {
  std::int64_t size;                         ///< rows and columns of a window
  std::array<std::int64_t, 2> count, shift;  ///< windows of an image, and how far it was rolled: in rows and columns

  [[nodiscard]] bool rolled() const { return shift[0] > 0 || shift[1] > 0; }
};

/// A stack of recurrent layers.
struct RnnStyle {
  RnnCell cell;
  std::int64_t layers, hidden;
  bool bidirectional;
  double dropout;  ///< between layers; 0: none
};

/// The multiple of `divisor` nearest to a width, but not under 90 % of it and not 0: how mobile networks are scaled.
[[nodiscard]] std::int64_t multiple_of(double width, std::int64_t divisor);

/// Appends layers to a network and infers their shapes. Names are prefixed by what `enter` was given last.
class NetworkBuilder {
 public:
  /// @param input  one sample: channels, height, width; or the sequence length
  NetworkBuilder(Network& network, std::int64_t batch_size, const Shape& input, Attention attention,
                 Adapter adapter = {});

  /// Starts names with `prefix` (and a dot) until the next call; empty: no prefix.
  void enter(std::string_view prefix);

  LayerId images();                           ///< @throws InputError unless the input is channels x height x width
  LayerId words();                            ///< @throws InputError unless the input is one sequence length
  LayerId words_of(std::int64_t vocabulary);  ///< @throws InputError also if the classes are not that many

  LayerId conv(LayerId x, std::string_view name, std::int64_t channels, const Window& window, bool bias = false);
  /// With a kernel of odd height and width, padded so that the image keeps its size; no bias.
  LayerId same_conv(LayerId x, std::string_view name, std::int64_t channels, const std::array<std::int64_t, 2>& kernel);
  LayerId batch_norm(LayerId x, std::string_view name, double epsilon = 1e-5);
  LayerId layer_norm(LayerId x, std::string_view name, double epsilon);
  LayerId rms_norm(LayerId x, std::string_view name, double epsilon);
  LayerId norm(LayerKind kind, LayerId x, std::string_view name, double epsilon);  ///< of the last axis
  LayerId unit_scale(LayerId x, std::string_view name);
  LayerId slice(LayerId x, std::int64_t width);
  LayerId reshape(LayerId x, const Shape& shape);
  LayerId experts(LayerId x, LayerId scores, std::string_view name, const ExpertStyle& style);
  LayerId linear(LayerId x, std::string_view name, std::int64_t features, bool bias = true, LayerId tied_to = -1);
  /// A linear layer of a transformer's block, with what the adapter puts on it.
  /// @param which  Projections
  LayerId projection(LayerId x, std::string_view name, std::int64_t features, bool bias, std::uint8_t which);
  /// The head of a language model: a linear layer that gives logits of words.
  LayerId head(LayerId x, std::string_view name, std::int64_t words, bool bias, LayerId tied_to);
  /// What a bottleneck adapter puts behind attention and behind the MLP; else x.
  LayerId bottleneck(LayerId x, std::string_view name);
  void gives_loss() { network_.own_loss = true; }
  void begin_block() { block_ = last() + 1; }
  void end_block() { network_.blocks.emplace_back(block_, last()); }
  LayerId embedding(LayerId indices, std::string_view name, std::int64_t rows, std::int64_t width);
  LayerId ids(LayerKind kind, LayerId words);  ///< position_ids, type_ids
  LayerId activation(LayerKind kind, LayerId x, bool in_place = false);
  LayerId relu(LayerId x) { return activation(LayerKind::relu, x, true); }
  LayerId pool(LayerKind kind, LayerId x, const Window& window, bool ceil_mode = false);  ///< max_pool, avg_pool
  LayerId max_pool(LayerId x, const Window& window, bool ceil_mode = false) {
    return pool(LayerKind::max_pool, x, window, ceil_mode);
  }
  LayerId adaptive_avg_pool(LayerId x, std::int64_t height, std::int64_t width);
  LayerId global_avg_pool(LayerId x);
  LayerId add(LayerId x, LayerId y, bool in_place = false);
  LayerId mul(LayerId x, LayerId scale);
  LayerId with_value(LayerKind kind, LayerId x, double value);  ///< scale, dropout, stochastic_depth
  /// The same with a probability, which is no layer where it is 0.
  LayerId at_chance(LayerKind kind, LayerId x, double probability) {
    return probability > 0 ? with_value(kind, x, probability) : x;
  }
  LayerId layer_scale(LayerId x, std::string_view name);
  /// The image weighted per channel: pooled, two 1x1 convolutions `name.fc1` and `name.fc2`, multiplied.
  LayerId squeeze_excitation(LayerId x, std::string_view name, std::int64_t squeezed, LayerKind inner, LayerKind outer);
  LayerId concat(std::span<const LayerId> parts);
  LayerId chunk(LayerId x, std::int32_t count);     ///< the first of `count` layers in sequence
  LayerId to_boxes(LayerId x, std::int64_t boxes);  ///< NxCxHxW with so many boxes at a position: N x boxes x numbers
  /// Makes a detector: the last layer gives classes of boxes whose places `places` gives.
  void gives_boxes(LayerId places) { network_.boxes = places; }
  LayerId channel_shuffle(LayerId x, std::int64_t groups);
  LayerId flatten(LayerId x);
  LayerId view(LayerKind kind,
               LayerId x);  ///< to_nhwc, to_nchw, to_tokens, first_token, join_windows, softmax, causal_mask
  LayerId class_token(LayerId x, std::string_view name);
  LayerId position_embedding(LayerId x, std::string_view name);
  LayerId split_heads(LayerId x, std::int64_t heads);
  LayerId merge_heads(LayerId x, std::int64_t heads);
  LayerId matmul(LayerId a, LayerId b, bool transposed);

  /// Of `size` rows and columns of NxCxHxW: of neighbours, or in a grid, as far apart as the image has windows.
  LayerId image_windows(LayerId x, std::int64_t size, bool grid);
  LayerId windows_image(LayerId x, LayerId windows);  ///< undoes the layer `windows`

  // Of NxHxWxC.
  LayerId pad(LayerId x, std::int64_t height, std::int64_t width);
  LayerId crop(LayerId x, std::int64_t height, std::int64_t width);
  LayerId roll(LayerId x, std::int64_t rows, std::int64_t columns);
  LayerId merge_patches(LayerId x);                  ///< of even height and width
  LayerId to_windows(LayerId x, std::int64_t size);  ///< of `size` rows and columns
  LayerId from_windows(LayerId x, std::int64_t size, const Shape& image);

  LayerId part_windows(LayerId x, std::int64_t count);                      ///< (N*count)xPxC
  LayerId select_heads(LayerId x, std::int32_t count, std::int64_t heads);  ///< the first of `count` layers in sequence
  LayerId relative_position(LayerId scores, std::string_view name, std::int64_t heads, std::int64_t size);
  LayerId window_mask(LayerId scores, std::int64_t heads, const RolledWindows& windows);
  /// relative_position() and window_mask() by themselves, for attention().
  LayerId window_bias(std::string_view name, std::int64_t heads, const RolledWindows& windows);

  /// NxSxC, heads side by side. @param turned  width of the part of each head that is turned; 0: all of it
  LayerId rotary(LayerId x, std::int64_t heads, std::int64_t turned = 0);
  LayerId rnn(LayerId x, std::string_view name, const RnnStyle& style);

  /// softmax(q k^T / sqrt(width of a head)) v of NxSxC, heads apart: one layer, or written out if attention is eager.
  LayerId attention(LayerId query, LayerId key, LayerId value, const AttentionStyle& style);

  /// Makes an auxiliary head of the layers after `trunk`.
  void end_auxiliary_head(LayerId trunk, double weight) { network_.auxiliary = {trunk + 1, last(), weight}; }

  [[nodiscard]] const Shape& shape(LayerId id) const { return network_.layers[static_cast<std::size_t>(id)].output; }
  [[nodiscard]] std::int64_t channels(LayerId id) const { return shape(id)[1]; }
  [[nodiscard]] std::int64_t classes() const { return network_.classes; }
  [[nodiscard]] bool has_attention() const { return has_attention_; }  ///< whether attention() was called
  /// Whether the caller is to write attention out, which attention() cannot for it.
  [[nodiscard]] bool writes_attention_out() {
    has_attention_ = true;
    return attention_ == Attention::eager;
  }

 private:
  /// Adds a layer under a name, behind the prefix. Its output has the shape of its first input unless it has another.
  LayerId append(Layer layer, std::string_view name, std::initializer_list<LayerId> inputs);
  Layer& add_layer(LayerKind kind, std::string_view name, std::initializer_list<LayerId> inputs);
  /// Of the adapter, trained; @returns it, with its own name behind that of its layer
  LayerId adapter_linear(LayerId x, std::string_view name, std::string_view own, std::int64_t features,
                         bool bias = false);
  LayerId repeat_heads(LayerId x, std::int64_t heads, std::int64_t kv_heads);
  LayerId mixed_values(LayerId query, LayerId key, LayerId value, const AttentionStyle& style);
  LayerId eager_attention(LayerId query, LayerId key, LayerId value, const AttentionStyle& style);
  LayerId adapter_scale(LayerId x, std::string_view name);
  LayerId lora(LayerId base, LayerId x, std::string_view name, std::int64_t features);
  [[nodiscard]] LayerId last() const { return static_cast<LayerId>(network_.layers.size()) - 1; }
  [[nodiscard]] std::int64_t windows(std::int64_t size, const Window& window, bool ceil_mode, const Layer& layer) const;

  Network& network_;
  std::int64_t batch_size_;
  Shape input_;
  Attention attention_;
  Adapter adapter_;
  LayerId block_ = 0;
  bool has_attention_ = false;
  std::string prefix_;
};

}  // namespace perfpred
