// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/network.h>
#include <perfpred/vocabulary.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class Network;

/// Element type of a tensor.
enum class DataType : std::uint8_t { f32, f16, bf16, f64, i64, i32, u8 };

/// Bytes of an element are a power of two: this one.
[[nodiscard]] constexpr int log2_size(DataType type) {
  constexpr std::array<std::uint8_t, 7> exponents = {2, 1, 1, 3, 3, 2, 0};
  return exponents[static_cast<std::size_t>(type)];
}
[[nodiscard]] constexpr std::int64_t size_of(DataType type) { return std::int64_t{1} << log2_size(type); }
[[nodiscard]] PERFPRED_API std::string_view to_string(DataType type);

/// What an operator does: LibTorch's names, without overloads and without the underscore of in-place forms.
/// Rules for FLOPs and bytes: docs/counting.md.
enum class OpKind : std::uint16_t {
  unknown,
  convolution,
  convolution_backward,
  addmm,
  mm,
  bmm,
  baddbmm,
  batch_norm,
  batch_norm_backward,
  layer_norm,
  layer_norm_backward,
  group_norm,
  group_norm_backward,
  relu,
  threshold_backward,
  hardtanh,
  hardtanh_backward,
  hardswish,
  hardswish_backward,
  hardsigmoid,
  hardsigmoid_backward,
  silu,
  silu_backward,
  sigmoid,
  sigmoid_backward,
  tanh,
  tanh_backward,
  gelu,
  gelu_backward,
  softmax,
  softmax_backward,
  log_softmax,
  log_softmax_backward,
  nll_loss,
  nll_loss_backward,
  max_pool2d,
  max_pool2d_backward,
  avg_pool2d,
  avg_pool2d_backward,
  adaptive_avg_pool2d,
  adaptive_avg_pool2d_backward,
  mean,
  sum,
  add,
  sub,
  mul,
  div,
  sqrt,
  addcmul,
  addcdiv,
  masked_fill,
  bernoulli,
  embedding,
  embedding_backward,
  cat,
  copy,
  fill,
  select_backward,
  slice_backward,
  fused_sgd,
  fused_momentum,
  fused_adam,
  fused_adamw,
  fused_adagrad,  ///< update all parameters; momentum: SGD with it
  unscale_gradients,
  update_scale,  ///< of the gradient scaler of fp16
  other,         ///< any other that is known to do about one FLOP per element; Op::name says which
  custom,        ///< an operator whose rule was registered by the user
};

[[nodiscard]] PERFPRED_API std::string_view to_string(OpKind kind);

/// True for convolutions and matrix products and their backward.
[[nodiscard]] PERFPRED_API bool is_conv_or_matmul(OpKind kind);

/// What a tensor is for. `activation`: made by the forward pass or the loss; `temporary`: made later.
enum class TensorRole : std::uint8_t { parameter, buffer, input, activation, gradient, optimizer_state, temporary };

/// Index of a tensor in its graph; `no_tensor` where an operator was not asked for an output.
using TensorId = std::uint32_t;
inline constexpr TensorId no_tensor = 0xffffffff;

/// A tensor; OpGraph::shape gives its shape.
struct Tensor {
  std::int64_t bytes = 0;  ///< of all elements
  std::uint32_t shape = 0;
  DataType type = DataType::f32;
  TensorRole role = TensorRole::activation;
  TensorId storage = 0;  ///< the tensor whose memory it uses: its own index unless it is a view or made in place
};

/// One operator that the step executes. Views are no operators.
struct Op {
  OpKind kind = OpKind::unknown;
  Phase phase = Phase::forward;
  DataType type = DataType::f32;  ///< of what it computes in: its first input, its output where it has none
  std::int32_t layer = -1;        ///< index into OpGraph::layer_names; -1: none
  std::int32_t name = -1;         ///< index into OpGraph::op_names, of unknown, other and custom operators; -1: none
  std::uint32_t first_operand = 0;
  std::uint16_t input_count = 0;
  std::uint16_t output_count = 0;
  double flops = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
};

struct PERFPRED_API OpTotals {
  std::int64_t ops = 0;
  double flops = 0;              ///< a multiplication and an addition are 2
  double conv_matmul_flops = 0;  ///< those of convolutions and matrix products
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  [[nodiscard]] std::int64_t bytes() const { return bytes_read + bytes_written; }
  [[nodiscard]] double intensity() const;  ///< FLOPs a byte; 0 where there are no bytes
  OpTotals& operator+=(const Op& op);
};

/// One training step: its operators in the order of execution, and the tensors that they read and write.
class PERFPRED_API OpGraph {
 public:
  std::vector<Op> ops;
  std::vector<Tensor> tensors;
  std::vector<std::string> layer_names;
  std::vector<std::string> op_names;

  /// A new tensor with memory of its own, or a view of another one's.
  TensorId add_tensor(const Shape& shape, DataType type, TensorRole role);
  TensorId add_view(TensorId of, const Shape& shape);
  TensorId add_like(TensorId other, TensorRole role);  ///< new memory, shape and type of another tensor

  /// Appends an operator; FLOPs and bytes follow from its kind and the shapes.
  /// @param transposed  of a convolution: elements of the image, not of the result, are counted
  Op& add_op(OpKind kind, Phase phase, std::int32_t layer, std::span<const TensorId> inputs,
             std::span<const TensorId> outputs, bool transposed = false);

  void reserve(std::size_t op_count, std::size_t tensor_count);

  [[nodiscard]] std::span<const TensorId> inputs(const Op& op) const;
  [[nodiscard]] std::span<const TensorId> outputs(const Op& op) const;  ///< may hold no_tensor
  [[nodiscard]] const Shape& shape(TensorId id) const { return shapes_[tensors[id].shape]; }
  [[nodiscard]] std::int64_t bytes(TensorId id) const { return tensors[id].bytes; }
  [[nodiscard]] std::int64_t numel(TensorId id) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(tensors[id].bytes) >> log2_size(tensors[id].type));
  }
  [[nodiscard]] std::string_view name(const Op& op) const;        ///< of what it does
  [[nodiscard]] std::string_view layer_name(const Op& op) const;  ///< empty where there is none

  [[nodiscard]] OpTotals totals() const;
  [[nodiscard]] OpTotals totals(Phase phase) const;
  [[nodiscard]] OpTotals totals(OpKind kind) const;

  [[nodiscard]] std::int64_t params() const;             ///< trainable parameters
  [[nodiscard]] std::int64_t params(OpKind kind) const;  ///< those that forward operators of this kind read first

  /// Bytes of what the forward pass and the loss make and the backward pass reads.
  [[nodiscard]] std::int64_t activation_bytes() const;

 private:
  std::uint32_t add_shape(const Shape& shape);

  std::vector<TensorId> operands_;
  std::vector<Shape> shapes_;
};

/// The operators of one training step (forward, loss, backward, optimizer) as the torch component executes them, in its
/// second or a later step (docs/counting.md).
/// @throws InputError if a tensor is larger than any device
[[nodiscard]] PERFPRED_API OpGraph training_step(const Network& network, Optimizer optimizer, Precision precision);

/// Writes the operators in the order of execution as CSV: phase, op, layer, type, shapes of what it reads and writes
/// ("-" for an output that was not asked for, "1" for a scalar), FLOPs, bytes. @throws InputError, Error
PERFPRED_API void write_ops(const OpGraph& step, const std::string& path);

}  // namespace perfpred
