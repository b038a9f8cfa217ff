// SPDX-License-Identifier: Apache-2.0
// RMS norms on a CPU, which has no kernel for them: aten/src/ATen/native/layer_norm.cpp, rms_norm_composite(), and what
// autograd makes of it.
#include <vector>

#include "step/lowering/lowering.h"

namespace perfpred {
namespace {

enum Kept : std::size_t { input, root, normalised };

/// Operators in place of one, with results shaped as its input or with a number a row.
class Writer {
 public:
  Writer(Lowering& lowering, const Op& op, TensorId like, TensorId of_rows)
      : lowering_(lowering), op_(op), like_(lowering.from().shape(like)), rows_(lowering.from().shape(of_rows)) {}

  TensorId whole(OpKind kind, std::initializer_list<TensorId> in, const char* name = nullptr) {
    return add(kind, in, lowering_.new_tensor(like_, op_.type, op_.phase), name);
  }
  TensorId rows(OpKind kind, std::initializer_list<TensorId> in, const char* name = nullptr) {
    return add(kind, in, lowering_.new_tensor(rows_, op_.type, op_.phase), name);
  }
  TensorId add(OpKind kind, std::initializer_list<TensorId> in, TensorId out, const char* name = nullptr) {
    Op& made = lowering_.add(op_, kind, in, {out});
    if (name != nullptr) made.name = lowering_.op_name(name);
    return out;
  }

 private:
  Lowering& lowering_;
  const Op& op_;
  Shape like_, rows_;
};

}  // namespace

std::size_t write_out_rms_norm(Lowering& lowering, std::size_t i) {
  const OpGraph& step = lowering.from();
  const Op& op = lowering.ops()[i];
  const auto in = step.inputs(op), out = step.outputs(op);
  if (op.type != DataType::f32 && op.type != DataType::f64) return 0;
  if (op.kind == OpKind::rms_norm && !in.empty() && out.size() == 2 && out[1] != no_tensor) {
    const TensorId x = in[0];
    Writer write(lowering, op, x, out[1]);
    const TensorId mean = write.rows(OpKind::mean, {write.whole(OpKind::other, {x}, "pow")});
    write.add(OpKind::add, {mean}, mean);
    write.add(OpKind::other, {mean}, out[1], "rsqrt");
    TensorId product = out[0];
    if (in.size() > 1) {
      product = write.whole(OpKind::mul, {x, out[1]});
      write.add(OpKind::mul, {product, in[1]}, out[0]);
    } else {
      write.add(OpKind::mul, {x, out[1]}, product);
    }
    lowering.kept[lowering.storage(out[1])] = {x, out[1], product};
    return 1;
  }
  if (op.kind != OpKind::rms_norm_backward || in.size() < 3) return 0;
  const auto found = lowering.kept.find(lowering.storage(in[2]));
  if (found == lowering.kept.end()) return 0;
  const std::vector<TensorId>& kept = found->second;
  Writer write(lowering, op, in[1], in[2]);
  TensorId g = in[0];
  if (in.size() > 3) {
    const TensorId of_scale = write.whole(OpKind::mul, {g, kept[normalised]});
    g = write.whole(OpKind::mul, {g, in[3]});
    if (out.size() > 1 && out[1] != no_tensor) write.add(OpKind::sum, {of_scale}, out[1]);
  }
  if (out.empty() || out[0] == no_tensor) return 1;
  const TensorId of_root = write.whole(OpKind::mul, {g, kept[input]});
  const TensorId direct = write.whole(OpKind::mul, {g, kept[root]});
  const TensorId sum = write.rows(OpKind::sum, {of_root});
  const TensorId cube = write.rows(OpKind::other, {kept[root]}, "pow");
  const TensorId of_mean = write.rows(OpKind::mul, {sum, write.rows(OpKind::mul, {cube})});
  const TensorId spread = write.whole(OpKind::div, {of_mean});
  const TensorId doubled = write.whole(OpKind::mul, {write.whole(OpKind::other, {kept[input]}, "pow")});
  write.add(OpKind::add, {direct, write.whole(OpKind::mul, {spread, doubled})}, out[0]);
  return 1;
}

}  // namespace perfpred
