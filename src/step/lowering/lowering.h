// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace perfpred {

/// A step that is rewritten operator by operator. Tensors keep their ids; new ones follow them.
class Lowering {
 public:
  explicit Lowering(const OpGraph& step);

  [[nodiscard]] const OpGraph& from() const { return from_; }
  [[nodiscard]] std::span<const Op> ops() const { return from_.ops(); }
  [[nodiscard]] TensorId storage(TensorId id) const { return from_.tensors()[id].storage; }

  /// Whether nothing but `bernoulli`, `div`, one `mul` before the backward pass and `mul` in it name the storage.
  [[nodiscard]] bool is_dropout_mask(TensorId storage) const { return multiplied_[storage] == 1; }

  /// Whether an image lies in channels-last memory: all do, it is permuted to it, or made from such an image.
  [[nodiscard]] bool is_channels_last(TensorId image) const;

  TensorId new_tensor(const Shape& shape, DataType type, Phase made_in);
  TensorId view(TensorId base, const Shape& shape) { return to_.add_view(base, shape); }

  std::int32_t op_name(const char* name);               ///< for Op::name
  void keep(const Op& op) { to_.add_copy(from_, op); }  ///< as it is, also counts that its kind would not give

  /// An operator of `like`'s phase and layer; a convolution is transposed if `like` is.
  Op& add(const Op& like, OpKind kind, std::span<const TensorId> inputs, std::span<const TensorId> outputs) {
    return to_.add_op(kind, like.phase, like.layer, inputs, outputs, like.transposed);
  }
  Op& add(const Op& like, OpKind kind, std::initializer_list<TensorId> inputs,
          std::initializer_list<TensorId> outputs) {
    return add(like, kind, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
  }

  /// What a rule that rewrote a forward operator keeps for its backward operator, by a storage that both read or write.
  std::unordered_map<TensorId, std::vector<TensorId>> kept;

  /// The next operators of the step as written, so many, are rewritten.
  void finish(std::size_t count) {
    executed_by_.insert(executed_by_.end(), count, std::max<std::size_t>(to_.ops().size(), 1) - 1);
  }

  /// The rewritten step, when all its operators are.
  [[nodiscard]] OpGraph take();

 private:
  void find_channels_last();
  void count_products();

  const OpGraph& from_;
  OpGraph to_;
  std::vector<std::size_t> executed_by_;  // by operator of from_: the last operator of to_ that executes it
  std::vector<std::uint8_t>
      multiplied_;                   // by storage: how often before the backward pass; 2: or named by another operator
  std::vector<bool> channels_last_;  // by storage: made from an image in such memory
  std::unordered_map<std::string, std::int32_t> names_;
};

/// Rewrites operators from number `i` on. @returns how many; 0 if the rule is not for this operator
using LoweringRule = std::size_t (*)(Lowering& step, std::size_t i);

/// fuse_pointwise.cpp: chains of elementwise operators as one
[[nodiscard]] OpGraph fuse_pointwise(const OpGraph& step);

/// Whether a compiler writes the operator itself, so that it may share a kernel with its neighbours.
[[nodiscard]] bool is_fusible(const OpGraph& step, const Op& op);

/// recompute.cpp: the backward pass computes a second time what is cheaper to compute than to keep
[[nodiscard]] OpGraph recompute_in_backward(const OpGraph& step);

// lower_attention.cpp: attention that the device has no fused kernel for
std::size_t write_out_attention_with_dropout(Lowering& step, std::size_t i);
std::size_t write_out_attention_of_doubles(Lowering& step, std::size_t i);
std::size_t write_out_attention_of_shared_keys(Lowering& step, std::size_t i);  // in single precision

// lower_norm.cpp: RMS norms
std::size_t write_out_rms_norm(Lowering& step, std::size_t i);

// lower_rnn.cpp: LSTMs in single precision, by layer and direction
std::size_t split_lstm(Lowering& step, std::size_t i);

// lower_rnn_steps.cpp: GRUs and plain RNNs, by position
std::size_t write_out_rnn(Lowering& step, std::size_t i);

// lower_lists.cpp: CUDA's operators on lists of tensors
std::size_t launch_lists(Lowering& step, std::size_t i);

}  // namespace perfpred
