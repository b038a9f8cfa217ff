// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "network/layers.h"
#include "step/step_writer.h"

namespace perfpred {

/// How a network is trained.
struct StepStyle {
  Optimizer optimizer = Optimizer::adam;
  Precision precision = Precision::fp32;
  OptimizerImpl impl = OptimizerImpl::fused;
  Layout layout = Layout::nchw;
  Weights weights = Weights::as_precision;
  std::int64_t checkpoint = 0;  ///< Workload::checkpoint
  std::int64_t accumulate = 1;
  LossForm loss = LossForm::whole;
};

/// What a layer's forward pass keeps for its backward pass.
struct LayerState {
  TensorId output = no_tensor;
  TensorId gradient = no_tensor;  ///< of the output
  bool needs_gradient = false;
  bool strided = false;  ///< the gradient's rows are not contiguous: flattening them for a linear layer copies
  std::array<TensorId, 2> weights = {no_tensor, no_tensor};            ///< weight, bias: as the operators read them
  std::array<TensorId, 3> inputs = {no_tensor, no_tensor, no_tensor};  ///< the first ones: as the operators read them
  std::array<TensorId, 3> saved = {no_tensor, no_tensor, no_tensor};
  std::vector<TensorId> operands;  ///< rnn: of its operator
};

/// Builds the graph of a training step: executes layers on tensors without memory, as autograd and autocast do.
/// Layer rules (layer_rules.h) call it for the current layer.
class StepBuilder : public StepWriter {
 public:
  StepBuilder(const Network& network, const StepStyle& style);

  /// The whole step. To be called once.
  [[nodiscard]] OpGraph build();

  // The current layer.
  [[nodiscard]] const Layer& layer() const { return network_.layers[static_cast<std::size_t>(layer_)]; }
  [[nodiscard]] LayerState& state() { return states_[static_cast<std::size_t>(layer_)]; }
  [[nodiscard]] LayerState& later_state(std::int32_t offset) { return state_of(layer_ + offset); }
  [[nodiscard]] const std::array<TensorId, 3>& buffers() const { return buffers_[static_cast<std::size_t>(layer_)]; }
  [[nodiscard]] TensorId input(std::size_t i) { return state_of(input_layer(i)).output; }
  [[nodiscard]] bool input_needs_gradient(std::size_t i) { return state_of(input_layer(i)).needs_gradient; }

  // Types. Matrix products and convolutions compute in the half type under mixed precision; operators that are
  // sensitive to rounding compute in the parameters' type.
  [[nodiscard]] DataType compute_type() const { return mixed_ ? half_ : parameter_type_; }
  [[nodiscard]] DataType parameter_type() const { return parameter_type_; }
  /// Of the current layer's weight; of one that is packed what it is unpacked to.
  [[nodiscard]] DataType weight_type() const;
  [[nodiscard]] DataType trained_type() const { return trained_type_; }
  /// In which the current layer multiplies.
  [[nodiscard]] DataType product_type() const { return mixed_ ? half_ : weight_type(); }
  [[nodiscard]] DataType wider(DataType a, DataType b) const { return a == b ? a : parameter_type_; }
  TensorId read_input(std::size_t i, DataType compute);  ///< input i in this type, kept in LayerState::inputs
  TensorId read_input(std::size_t i = 0) { return read_input(i, type(input(i))); }
  void unpack_weight(DataType compute);  ///< of the current layer, if it is packed
  void read_weights(DataType compute);   ///< parameters in this type, kept in LayerState::weights
  /// Whether the current layer's weight (0) or bias (1) has a gradient.
  [[nodiscard]] bool is_trained(std::size_t which = 0) const {
    return parameters_of_layer_[static_cast<std::size_t>(layer_)].at(which) >= 0;
  }
  void read_all_weights(DataType compute, std::vector<TensorId>& read);  ///< an rnn's, appended

  // Autograd.
  /// Adds a gradient of input i of the current layer to those that it has already.
  void accumulate_grad(std::size_t i, TensorId gradient, bool strided = false) {
    accumulate_layer_grad(input_layer(i), gradient, strided);
  }
  /// Adds a gradient of the current layer's weight (0) or bias (1); of an rnn's parameter number `which`.
  void accumulate_parameter_grad(std::size_t which, TensorId gradient);

  /// An operator that computes the gradients of input 0, weight and bias at once, those that are needed.
  void add_backward_op(OpKind kind, std::initializer_list<TensorId> inputs, bool has_bias = true);

  // What only some rules need.
  [[nodiscard]] const Network& network() const { return network_; }
  /// Whether convolutions make such images.
  [[nodiscard]] bool channels_last() const { return graph_.layout() == Layout::nhwc; }
  [[nodiscard]] TensorId causal_mask() const { return mask_; }
  /// Which pairs of positions see each other, a byte each.
  [[nodiscard]] TensorId pair_mask();
  [[nodiscard]] const std::array<TensorId, 2>& rotations() const { return rotations_; }  ///< cosines, sines
  void set_labels(TensorId labels) { labels_ = labels; }

 private:
  [[nodiscard]] LayerState& state_of(std::int32_t index) { return states_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int32_t input_layer(std::size_t i) const { return network_.inputs(layer())[i]; }

  void reserve();
  void declare_tensors();
  void declare_weights(std::size_t i);
  void declare_buffers(std::size_t i);
  [[nodiscard]] bool is_packed(const Layer& layer) const { return layer.frozen && layer.projection && packs_; }
  void declare_packed(std::size_t i, const Shape& weight);
  void run_forward(std::int32_t layer);
  void run_backward();
  void compute_anew(std::int32_t first, std::int32_t last);
  void chunked_loss();
  void add_parameter_grad(std::size_t index, TensorId gradient);
  /// A mean cross entropy: the layer whose output it is of, and what its gradient is computed from.
  struct CrossEntropy {
    std::int32_t layer = 0;
    Shape logits;
    TensorId raw = no_tensor, log_probabilities = no_tensor, loss = no_tensor, total_weight = no_tensor;
  };

  void loss();
  [[nodiscard]] CrossEntropy cross_entropy(std::int32_t layer);
  void differentiate(const CrossEntropy& entropy, TensorId gradient);
  void accumulate_layer_grad(std::int32_t layer, TensorId gradient, bool strided);
  void retain_grad(TensorId gradient);
  void release_grad(TensorId gradient);
  [[nodiscard]] bool can_overwrite(TensorId gradient) const;

  const Network& network_;
  const StepStyle style_;
  std::vector<LayerState> states_;
  std::vector<TensorId> sums_;                                    // of the parameters: gradients of this batch
  std::vector<std::array<std::int32_t, 2>> parameters_of_layer_;  // indices into parameters_, -1: none, or frozen
  std::vector<std::array<TensorId, 2>> weights_of_layer_;         // trained or frozen
  std::vector<int> uses_;                                         // of each parameter: gradients that are to come
  std::vector<std::array<TensorId, 3>> buffers_;  // running mean, variance, number of batches; row numbers; a mask
  std::vector<int> retained_;                     // by storage: layers that still need it as a gradient
  TensorId labels_ = no_tensor;
  TensorId mask_ = no_tensor, pair_mask_ = no_tensor;
  std::array<TensorId, 2> rotations_ = {no_tensor, no_tensor};
  DataType parameter_type_ = DataType::f32;  // of what is sensitive to rounding
  DataType trained_type_ = DataType::f32, frozen_type_ = DataType::f32;
  DataType half_ = DataType::f16;
  bool mixed_ = false;
  bool packs_ = false;  // frozen projections
};

/// The operators of one training step. @throws InputError if a tensor is larger than any device
[[nodiscard]] OpGraph training_step(const Network& network, const StepStyle& style);

}  // namespace perfpred
