// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/network.h>
#include <perfpred/vocabulary.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

/// Element type of a tensor: floating, integer, 8-bit floating, complex (of two f32, two f64), bytes.
enum class DataType : std::uint8_t { f32, f16, bf16, f64, i64, i32, i16, f8, c64, c128, u8 };

/// Binary logarithm of the bytes of an element.
[[nodiscard]] constexpr int log2_size(DataType type) {
  constexpr std::array<std::uint8_t, 11> exponents = {2, 1, 1, 3, 3, 2, 1, 0, 3, 4, 0};
  return exponents[static_cast<std::size_t>(type)];
}
[[nodiscard]] constexpr std::int64_t size_of(DataType type) { return std::int64_t{1} << log2_size(type); }  ///< bytes
[[nodiscard]] PERFPRED_API std::string_view to_string(DataType type);

/// What an operator does: LibTorch's names without overloads and without the underscore of in-place forms.
/// The rules for FLOPs and bytes are in docs/guides/counting.md.
enum class OpKind : std::uint16_t {
  unknown,
  convolution,
  convolution_backward,
  addmm,
  mm,
  bmm,
  baddbmm,
  attention,           ///< softmax(q k^T) v in one kernel: reads q, k, v, a mask; gives the result and its log-sum-exp
  attention_backward,  ///< reads the gradient, q, k, v, the result, its log-sum-exp, a mask
  rnn,                 ///< all layers and positions of an LSTM, GRU or plain RNN, as cuDNN executes them: reads x, the
                       ///< weights, the first states; gives the outputs, the last states, what backward needs
  rnn_backward,        ///< reads x, the weights, the first states, the outputs, their gradient, what forward kept
  batch_norm,
  batch_norm_backward,
  layer_norm,
  layer_norm_backward,
  rms_norm,  ///< gives the result and the reciprocal of the root of each row's mean square
  rms_norm_backward,
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
  native_dropout,  ///< in one kernel; gives the result and which elements it kept, a byte each
  native_dropout_backward,
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
  fused_adagrad,      ///< fused_*: one kernel updates all parameters; fused_momentum is SGD with momentum
  unscale_gradients,  ///< gradient scaler of fp16: divides all gradients by the loss scale and looks for infinities
  update_scale,       ///< gradient scaler of fp16: changes the loss scale
  fused,              ///< elementwise operators, and a norm or a softmax among them, that a compiler made one kernel
  other,              ///< another operator that does about one FLOP per element; Op::name says which
  custom,             ///< an operator whose rule the user registered
};

[[nodiscard]] PERFPRED_API std::string_view to_string(OpKind kind);

/// True for convolutions and their backward.
[[nodiscard]] PERFPRED_API bool is_convolution(OpKind kind);

/// True for convolutions, matrix products, attention, recurrent networks, and their backward.
[[nodiscard]] PERFPRED_API bool is_conv_or_matmul(OpKind kind);

/// What a tensor is for. `activation`: made by the forward pass or the loss; `temporary`: made later.
enum class TensorRole : std::uint8_t { parameter, buffer, input, activation, gradient, optimizer_state, temporary };

/// Index of a tensor in its graph; `no_tensor` for an output that was not requested.
using TensorId = std::uint32_t;
inline constexpr TensorId no_tensor = 0xffffffff;

/// A tensor; OpGraph::shape gives its shape.
struct Tensor {
  std::int64_t bytes = 0;   ///< of all elements
  std::uint32_t shape = 0;  ///< index into the graph's shapes
  DataType type = DataType::f32;
  TensorRole role = TensorRole::activation;
  TensorId storage = 0;  ///< the tensor that owns the memory: another one for views and in-place results
};

/// One operator that the step executes. Views are not operators.
class PERFPRED_API Op {
 public:
  OpKind kind = OpKind::unknown;
  Phase phase = Phase::forward;
  DataType type = DataType::f32;  ///< of its first input, else of its first output
  std::int32_t layer = -1;        ///< index into OpGraph::layer_names(), -1 if it belongs to no layer
  std::int32_t name = -1;         ///< index into OpGraph::op_names(), -1 if the kind says it all
  bool transposed = false;        ///< a convolution, or its backward, whose weight is [Cin, Cout / groups, ..]
  bool dispatched = true;         ///< by the host; false: a further kernel of the operator before (ExecutedStep)
  double flops = 0;               ///< a multiplication and an addition are 2
  double cell_flops = 0;          ///< rnn, rnn_backward: the part of `flops` outside matrix products
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;

 private:
  friend class OpGraph;
  friend class StepGrowth;
  std::uint32_t first_operand_ = 0;
  std::uint16_t input_count_ = 0;
  std::uint16_t output_count_ = 0;
};

/// Sums over operators.
struct PERFPRED_API OpTotals {
  std::int64_t ops = 0;
  double flops = 0;              ///< a multiplication and an addition are 2
  double conv_matmul_flops = 0;  ///< the part of convolutions, attention and matrix products, those of an rnn included
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  [[nodiscard]] std::int64_t bytes() const { return bytes_read + bytes_written; }
  [[nodiscard]] double intensity() const;  ///< FLOPs a byte; 0 without bytes
  OpTotals& operator+=(const Op& op) { return add(op, 1); }
  OpTotals& add(const Op& op, std::int64_t times);  ///< as often as it is executed
};

/// One training step: its operators in the order of execution, and the tensors that they read and write.
class PERFPRED_API OpGraph {
 public:
  /// Adds a tensor with memory of its own. @throws InputError if it is larger than any device
  TensorId add_tensor(const Shape& shape, DataType type, TensorRole role);

  /// Adds a view: a tensor that uses the memory of `base`, with its role and, unless another is given, its type.
  TensorId add_view(TensorId base, const Shape& shape, std::optional<DataType> type = {});

  /// Adds a tensor with memory of its own and the shape and type of `other`.
  TensorId add_like(TensorId other, TensorRole role);

  /// Changes what a tensor is for.
  void set_role(TensorId id, TensorRole role) { tensors_[id].role = role; }

  /// Operators of a step, which take some 300 MB. The largest networks of the zoo have 10,000, and a transformer of
  /// 1,000 blocks 65,000.
  static constexpr std::size_t max_ops = 300'000;

  /// Adds a layer's name. @returns its index, for add_op
  std::int32_t add_layer(std::string name);

  /// Adds the name of an operator that its kind does not say. @returns its index, for Op::name
  std::int32_t add_op_name(std::string name);

  /// Appends an operator; its FLOPs and bytes follow from its kind and (unchecked) operands (docs/guides/counting.md).
  /// @param layer       index into layer_names(), or -1
  /// @param outputs     may hold no_tensor for those that were not requested
  /// @param transposed  a transposed convolution: FLOPs follow from the image's elements, not the result's; of other
  ///                    kinds it says nothing
  /// @param causal      attention to earlier positions only: half the FLOPs
  /// @returns the operator, so that the caller can name it or replace its counts; valid until the next one is added
  /// @throws InputError  for more than max_ops
  Op& add_op(OpKind kind, Phase phase, std::int32_t layer, std::span<const TensorId> inputs,
             std::span<const TensorId> outputs, bool transposed = false, bool causal = false);

  /// Appends an operator of another graph as it is, its counts included. Its tensors are here under their numbers plus
  /// `offset`, its layer and name under the same numbers, unless the caller changes them.
  /// @returns the operator; valid until the next one is added
  Op& add_copy(const OpGraph& from, const Op& op, TensorId offset = 0);

  /// The same tensors, names, layout and repeats, without operators and frees.
  [[nodiscard]] OpGraph without_ops() const;

  /// Frees a tensor's memory after an operator, an index into ops(). A graph without any such call frees each memory
  /// after the last operator that uses it; in a graph with one, memory that is never freed lives to the end of the
  /// step.
  void set_freed_after(TensorId storage, std::size_t op);

  /// Pairs of an operator and the tensor whose memory is given back after it, in the order of execution; empty where
  /// that is not known.
  [[nodiscard]] std::span<const std::pair<std::size_t, TensorId>> frees() const { return frees_; }

  /// How all images lie in memory that no operator rearranges: channels apart (nchw), or side by side (nhwc, PyTorch's
  /// channels_last).
  void set_layout(Layout layout) { layout_ = layout; }
  [[nodiscard]] Layout layout() const { return layout_; }

  /// How often the operators of forward pass, loss and backward pass are executed before the update, each time with
  /// another batch, >= 1: the graph has them once. Above 1, gradients exist from one batch to the next.
  void set_repeats(std::int64_t repeats) { repeats_ = repeats; }
  [[nodiscard]] std::int64_t repeats() const { return repeats_; }
  [[nodiscard]] std::int64_t times(const Op& op) const { return op.phase == Phase::optimizer ? 1 : repeats_; }

  /// Allocates room, so that a graph of about this size is not moved while it grows.
  void reserve(std::size_t layer_count, std::size_t op_count, std::size_t tensor_count);

  [[nodiscard]] std::span<const Op> ops() const { return ops_; }              ///< in the order of execution
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }  ///< a TensorId is an index into them
  [[nodiscard]] std::span<const std::string> layer_names() const { return layer_names_; }
  [[nodiscard]] std::span<const std::string> op_names() const { return op_names_; }

  [[nodiscard]] std::span<const TensorId> inputs(const Op& op) const;
  [[nodiscard]] std::span<const TensorId> outputs(const Op& op) const;  ///< may hold no_tensor
  [[nodiscard]] const Shape& shape(TensorId id) const { return shapes_[tensors_[id].shape]; }
  [[nodiscard]] std::int64_t bytes(TensorId id) const { return tensors_[id].bytes; }
  [[nodiscard]] std::int64_t numel(TensorId id) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(tensors_[id].bytes) >> log2_size(tensors_[id].type));
  }
  [[nodiscard]] std::string_view name(const Op& op) const;        ///< its own name, else its kind's
  [[nodiscard]] std::string_view layer_name(const Op& op) const;  ///< empty if it belongs to no layer

  [[nodiscard]] OpTotals totals() const;
  [[nodiscard]] OpTotals totals(Phase phase) const;
  [[nodiscard]] OpTotals totals(OpKind kind) const;

  [[nodiscard]] std::int64_t params() const;  ///< trainable parameters

  /// Bytes of the activations that the backward pass reads, each counted once.
  [[nodiscard]] std::int64_t activation_bytes() const;

 private:
  friend class StepGrowth;
  std::uint32_t add_shape(const Shape& shape);

  std::vector<Op> ops_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> layer_names_;
  std::vector<std::string> op_names_;
  std::vector<TensorId> operands_;
  std::vector<Shape> shapes_;
  std::vector<std::pair<std::size_t, TensorId>> frees_;
  Layout layout_ = Layout::nchw;
  std::int64_t repeats_ = 1;
};

}  // namespace perfpred
