// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

/// A training step while it is written: its operators and tensors, the parameters that it updates, the scaler of its
/// gradients.
class StepWriter {
 public:
  // Tensors.
  [[nodiscard]] const Shape& shape(TensorId id) const { return graph_.shape(id); }
  [[nodiscard]] DataType type(TensorId id) const { return graph_.tensors()[id].type; }
  TensorId new_tensor(const Shape& shape, DataType type) { return graph_.add_tensor(shape, type, role()); }
  TensorId new_tensor(const Shape& shape, DataType type, TensorRole role) {
    return graph_.add_tensor(shape, type, role);
  }
  TensorId new_like(TensorId id) { return graph_.add_like(id, role()); }
  TensorId new_like(TensorId id, TensorRole role) { return graph_.add_like(id, role); }
  TensorId view(TensorId base, const Shape& shape) { return graph_.add_view(base, shape); }
  TensorId transposed(TensorId id);  ///< a view with the last two axes exchanged

  // Operators.
  void add_op(OpKind kind, std::initializer_list<TensorId> inputs, std::initializer_list<TensorId> outputs);
  void add_op(OpKind kind, std::span<const TensorId> inputs, std::span<const TensorId> outputs, bool causal = false);

  /// An operator of one FLOP an element that has no kind of its own.
  void add_other(std::string_view name, std::initializer_list<TensorId> inputs, TensorId output);

  /// The update of a parameter by one kernel that has no kind of its own.
  Op& add_update(std::string_view name, std::span<const TensorId> inputs, std::span<const TensorId> outputs);

  /// An operator with one new result, shaped as its first input.
  TensorId apply(OpKind kind, std::initializer_list<TensorId> inputs);
  /// The same with a result of another shape.
  TensorId apply(OpKind kind, std::initializer_list<TensorId> inputs, const Shape& shape);
  TensorId sum_to(TensorId id, const Shape& shape) { return apply(OpKind::sum, {id}, shape); }
  TensorId cast(TensorId id, DataType to);

  // What the optimizer's update needs (optimizer_update.cpp).
  [[nodiscard]] const std::vector<TensorId>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<TensorId>& gradients() const { return gradients_; }  ///< of the parameters
  /// Whether a parameter is the weight of a linear layer other than the head.
  [[nodiscard]] const std::vector<bool>& is_hidden_matrix() const { return is_hidden_matrix_; }
  [[nodiscard]] bool scales_loss() const { return scaled_; }
  [[nodiscard]] TensorId found_inf() const { return found_inf_; }

  /// The gradient scaler of fp16, whose loss is multiplied by scale_loss().
  void declare_scaler();
  [[nodiscard]] TensorId scale_loss(TensorId loss) { return scaled_ ? apply(OpKind::mul, {loss, scale_}) : loss; }

  /// Appends the optimizer's update: of all parameters, with what the scaler does before and after it.
  void update(Optimizer optimizer, OptimizerImpl impl);

 protected:
  [[nodiscard]] TensorRole role() const {
    return phase_ <= Phase::loss ? TensorRole::activation : TensorRole::temporary;
  }

  OpGraph graph_;
  std::vector<TensorId> parameters_;
  std::vector<TensorId> gradients_;  // of the parameters
  std::vector<bool> is_hidden_matrix_;
  std::int32_t layer_ = -1;
  Phase phase_ = Phase::forward;
  std::span<const OpKind> skipped_;  // while a layer is computed anew: whose results are there, or are not needed

 private:
  void unscale_gradients();

  bool scaled_ = false;
  TensorId scale_ = no_tensor, growth_ = no_tensor, found_inf_ = no_tensor;
};

/// Appends the optimizer's update of all parameters: fused as ParameterUpdate of the torch component executes it,
/// foreach as torch.optim does; of other packages' optimizers what those execute.
void add_optimizer_update(StepWriter& step, Optimizer optimizer, OptimizerImpl impl);

}  // namespace perfpred
