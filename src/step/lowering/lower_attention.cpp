// SPDX-License-Identifier: Apache-2.0
// Attention without a fused kernel: aten/src/ATen/native/transformers/attention.cpp,
// _scaled_dot_product_attention_math, and the copies that its matrix products make of operands whose heads are not
// contiguous.
#include <vector>

#include "step/lowering/lowering.h"

namespace perfpred {
namespace {

/// Operators of the type, phase and layer of one that they replace.
class Writer {
 public:
  Writer(Lowering& lowering, const Op& op, TensorId q) : lowering_(lowering), op_(op), type_(op.type) {
    const Shape& shape = lowering.from().shape(q);
    samples_ = shape[0];
    heads_ = shape[1];
  }

  TensorId apply(OpKind kind, std::initializer_list<TensorId> inputs, const Shape& shape) {
    const TensorId result = lowering_.new_tensor(shape, type_, op_.phase);
    lowering_.add(op_, kind, inputs, {result});
    return result;
  }

  /// The operand of a batched product, one matrix for each head; of one sample the heads are a view.
  TensorId matrices(TensorId x, std::int64_t rows, std::int64_t columns) {
    const Shape shape = {samples_ * heads_, rows, columns};
    return samples_ == 1 ? lowering_.view(x, shape)
                         : lowering_.view(apply(OpKind::copy, {x}, heads(rows, columns)), shape);
  }

  [[nodiscard]] Shape heads(std::int64_t rows, std::int64_t columns) const { return {samples_, heads_, rows, columns}; }
  [[nodiscard]] Shape products(std::int64_t rows, std::int64_t columns) const {
    return {samples_ * heads_, rows, columns};
  }

  Lowering& lowering_;
  const Op& op_;
  DataType type_;

 private:
  std::int64_t samples_ = 0, heads_ = 0;
};

/// Places in what the forward operator keeps.
enum Kept : std::size_t { queries, keys, values, probabilities, dropped, dropout_mask };

void forward(Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  const TensorId q = in[0];
  TensorId k = in[1], v = in[2];
  const std::int64_t rows = step.shape(q)[2], pairs = step.shape(k)[2], width = step.shape(q)[3];
  const std::int64_t value_width = step.shape(v)[3];
  Writer write(lowering, op, q);
  if (step.shape(k)[1] != step.shape(q)[1]) {  // pre_process_group_query_attention_input
    k = write.apply(OpKind::copy, {k}, write.heads(pairs, width));
    v = write.apply(OpKind::copy, {v}, write.heads(pairs, value_width));
  }
  const TensorId scaled_q = write.apply(OpKind::mul, {q}, write.heads(rows, width));
  const bool causal = op.flops < 1.5 * static_cast<double>(step.numel(q)) * static_cast<double>(pairs) *
                                     static_cast<double>(width + value_width) / static_cast<double>(width);
  TensorId mask = in.size() > 3 ? in[3] : no_tensor;
  if (causal) {
    const TensorId all = lowering.new_tensor({rows, pairs}, DataType::u8, op.phase);
    lowering.add(op, OpKind::fill, {}, {all});
    const TensorId lower_half = lowering.new_tensor({rows, pairs}, DataType::u8, op.phase);
    lowering.add(op, OpKind::other, {all}, {lower_half}).name = lowering.op_name("tril");
    mask = lowering.new_tensor({rows, pairs}, write.type_, op.phase);
    lowering.add(op, OpKind::other, {lower_half}, {mask}).name = lowering.op_name("where");
  }
  const TensorId scaled_k = write.apply(OpKind::mul, {k}, write.heads(width, pairs));
  const TensorId q_matrices = write.matrices(scaled_q, rows, width),
                 k_matrices = write.matrices(scaled_k, width, pairs);
  TensorId scores = write.apply(OpKind::bmm, {q_matrices, k_matrices}, write.products(rows, pairs));
  if (mask != no_tensor) lowering.add(op, OpKind::add, {scores, mask}, {scores});
  const TensorId chances = write.apply(OpKind::softmax, {scores}, write.heads(rows, pairs));
  TensorId used = chances, drops = no_tensor;
  if (out.size() > 2) {
    drops = lowering.new_tensor(write.heads(rows, pairs), write.type_, op.phase);
    lowering.add(op, OpKind::bernoulli, {drops}, {drops});
    lowering.add(op, OpKind::div, {drops}, {drops});
    used = write.apply(OpKind::mul, {chances, drops}, write.heads(rows, pairs));
  }
  const TensorId v_matrices = write.matrices(v, pairs, value_width);
  const TensorId used_matrices = lowering.view(used, write.products(rows, pairs));
  const TensorId result = write.apply(OpKind::bmm, {used_matrices, v_matrices}, write.products(rows, value_width));
  lowering.add(op, OpKind::copy, {result}, {out[0]});  // heads side by side
  lowering.kept[lowering.storage(out[1])] = {q_matrices, k_matrices, v_matrices, chances, used_matrices, drops};
}

void backward(Lowering& lowering, const Op& op, const std::vector<TensorId>& kept) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  const TensorId q = in[1], k = in[2], v = in[3];
  const std::int64_t rows = step.shape(q)[2], pairs = step.shape(k)[2], width = step.shape(q)[3];
  const std::int64_t value_width = step.shape(v)[3];
  Writer write(lowering, op, q);
  const TensorId g = write.matrices(in[0], rows, value_width);
  const TensorId gv = write.apply(OpKind::bmm, {lowering.view(kept[dropped], write.products(pairs, rows)), g},
                                  write.products(pairs, value_width));
  TensorId g_scores = write.apply(OpKind::bmm, {g, lowering.view(kept[values], write.products(value_width, pairs))},
                                  write.products(rows, pairs));
  if (kept[dropout_mask] != no_tensor) {
    g_scores = write.apply(OpKind::mul, {g_scores, kept[dropout_mask]}, write.heads(rows, pairs));
  }
  g_scores = write.apply(OpKind::softmax_backward, {g_scores, kept[probabilities]}, write.heads(rows, pairs));
  g_scores = lowering.view(g_scores, write.products(rows, pairs));
  const TensorId gk = write.apply(OpKind::bmm, {lowering.view(kept[queries], write.products(width, rows)), g_scores},
                                  write.products(width, pairs));
  const TensorId gq = write.apply(OpKind::bmm, {g_scores, lowering.view(kept[keys], write.products(pairs, width))},
                                  write.products(rows, width));
  const auto finish = [&](std::size_t which, OpKind kind, TensorId from) {
    if (which < out.size() && out[which] != no_tensor) lowering.add(op, kind, {from}, {out[which]});
  };
  const TensorId scaled_gq = write.apply(OpKind::mul, {gq}, write.heads(rows, width));
  if (step.shape(k)[1] == step.shape(q)[1]) {
    finish(1, OpKind::mul, gk);  // transposed: heads lie side by side already
    finish(2, OpKind::copy, gv);
  } else {  // of all heads that share a key and a value
    finish(1, OpKind::sum, write.apply(OpKind::mul, {gk}, write.heads(pairs, width)));
    finish(2, OpKind::sum, gv);
  }
  finish(0, OpKind::copy, scaled_gq);
  finish(3, OpKind::copy, g_scores);  // of a bias
}

/// Writes the operator out, or its gradients if the forward operator was.
/// @param without_kernel  whether a forward operator has no fused kernel on the device
template <class Predicate>
std::size_t write_out(Lowering& lowering, std::size_t i, const Predicate& without_kernel) {
  const OpGraph& step = lowering.from();
  const Op& op = lowering.ops()[i];
  const auto in = step.inputs(op);
  if (op.kind == OpKind::attention) {
    const Shape &q = step.shape(in[0]), &k = step.shape(in[1]);
    if (!without_kernel(op) || q.rank() != 4 || step.outputs(op).size() < 2) return 0;
    if (k[1] < 1 || q[1] % k[1] != 0) return 0;
    forward(lowering, op);
    return 1;
  }
  if (op.kind != OpKind::attention_backward) return 0;
  for (const TensorId id : in) {
    const auto found = lowering.kept.find(lowering.storage(id));
    if (found == lowering.kept.end()) continue;
    backward(lowering, op, found->second);
    return 1;
  }
  return 0;
}

}  // namespace

std::size_t write_out_attention_with_dropout(Lowering& lowering, std::size_t i) {
  return write_out(lowering, i, [&](const Op& op) { return lowering.from().outputs(op).size() > 2; });
}

std::size_t write_out_attention_of_doubles(Lowering& lowering, std::size_t i) {
  return write_out(lowering, i, [](const Op& op) { return op.type == DataType::f64; });
}

std::size_t write_out_attention_of_shared_keys(Lowering& lowering, std::size_t i) {
  return write_out(lowering, i, [&](const Op& op) {
    const auto in = lowering.from().inputs(op);
    return op.type == DataType::f32 && lowering.from().shape(in[0])[1] != lowering.from().shape(in[1])[1];
  });
}

}  // namespace perfpred
