// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <perfpred/op_graph.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "step/op_rules.h"

namespace perfpred {

/// @throws InputError for a type that graphs do not have
[[nodiscard]] DataType data_type(at::ScalarType type);
[[nodiscard]] at::ScalarType scalar_type(DataType type);

/// Writes the operators that this thread executes under WithoutMemory into a graph, while it is the current one.
class OpRecorder {
 public:
  OpRecorder() = default;
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;
  ~OpRecorder();

  void start(Phase phase);  ///< records from here on
  void stop();

  /// Sets the role of a tensor, before or after an operator uses it.
  void name_tensor(const at::Tensor& tensor, TensorRole role);

  /// @param name        for operators without a kind of their own; else empty
  /// @param rule        counts the operator instead of its kind; may be null
  /// @param transposed  of a convolution
  /// @param causal      of attention
  void record(OpKind kind, std::string_view name, const OpRule* rule, std::span<const at::Tensor> inputs,
              std::span<const at::Tensor> outputs, bool transposed = false, bool causal = false);

  /// Of the forward pass: the backward pass has at least as many operators.
  static constexpr std::size_t max_calls = OpGraph::max_ops / 2;

  /// False after max_calls of them in the forward pass: a loop that values should end does not end.
  [[nodiscard]] bool admits_call() { return phase_ != Phase::forward || ++calls_ <= max_calls; }

  /// The recorder of this thread that is recording, else null.
  static OpRecorder* current();

  [[nodiscard]] OpGraph take() { return std::move(graph_); }

 private:
  TensorId id_of(const at::Tensor& tensor);

  OpGraph graph_;
  Phase phase_ = Phase::forward;
  std::size_t calls_ = 0;
  std::unordered_map<const c10::StorageImpl*, TensorId> ids_;
  // Keep addresses from being used again. Autograd adds in place to gradients whose memory nobody else holds.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> addresses_;
  std::unordered_map<std::string, std::int32_t> names_;
  std::vector<TensorId> inputs_, outputs_;
};

}  // namespace perfpred
