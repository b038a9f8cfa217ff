// SPDX-License-Identifier: Apache-2.0
#include "step/forward_pass.h"

#include <algorithm>
#include <vector>

namespace perfpred {
namespace {

class ForwardPass {
 public:
  explicit ForwardPass(const OpGraph& step) : step_(step), made_(step.tensors().size(), no_tensor) {
    pass_.set_layout(step.layout());
    pass_.set_repeats(step.repeats());
    for (const std::string& name : step.layer_names()) pass_.add_layer(name);
    for (const std::string& name : step.op_names()) pass_.add_op_name(name);
    for (TensorId id = 0; id < made_.size(); ++id) {  // as when it is trained: memory holds all of them
      if (step.tensors()[id].role == TensorRole::parameter && step.tensors()[id].storage == id) (void)made(id);
    }
    for (std::size_t i = 0; i < step.ops().size();) {
      if (const std::size_t dropped = drop(i); dropped > 0) {
        i += dropped;
      } else {
        keep(step.ops()[i++]);
      }
    }
  }

  [[nodiscard]] OpGraph take() { return std::move(pass_); }

 private:
  /// The pass's tensor for one of the step's.
  TensorId made(TensorId id) {
    if (id == no_tensor || made_[id] != no_tensor) return id == no_tensor ? id : made_[id];
    const Tensor& tensor = step_.tensors()[id];
    made_[id] = tensor.storage == id ? pass_.add_tensor(step_.shape(id), tensor.type, tensor.role)
                                     : pass_.add_view(made(tensor.storage), step_.shape(id), tensor.type);
    return made_[id];
  }

  /// How many operators from number `i` on have no place in the pass.
  std::size_t drop(std::size_t i) {
    const auto ops = step_.ops();
    const Op& op = ops[i];
    if (op.phase != Phase::forward) return 1;
    const auto out = step_.outputs(op);
    const auto is_buffer = [&](TensorId id) {
      return id == no_tensor || step_.tensors()[step_.tensors()[id].storage].role == TensorRole::buffer;
    };
    if (!out.empty() && std::all_of(out.begin(), out.end(), is_buffer)) return 1;
    if (op.kind == OpKind::native_dropout) return replace(out[0], step_.inputs(op)[0]);
    if (op.kind != OpKind::bernoulli || i + 2 >= ops.size() || out.size() != 1) return 0;
    const Op& applied = ops[i + 2];
    if (ops[i + 1].kind != OpKind::div || applied.kind != OpKind::mul || step_.inputs(applied).size() != 2) return 0;
    const auto storage = [&](TensorId id) { return step_.tensors()[id].storage; };
    if (storage(step_.inputs(applied)[1]) != storage(out[0])) return 0;
    replace(step_.outputs(applied)[0], step_.inputs(applied)[0]);
    return 3;
  }

  std::size_t replace(TensorId result, TensorId by) {
    if (result != no_tensor && step_.tensors()[result].storage == result) made_[result] = made(by);
    return 1;
  }

  void keep(const Op& op) {
    std::vector<TensorId> in, out;
    for (const TensorId id : step_.inputs(op)) in.push_back(made(id));
    for (const TensorId id : step_.outputs(op)) out.push_back(made(id));
    const bool norm = op.kind == OpKind::batch_norm;
    if (norm) out.resize(1);
    Op& kept = pass_.add_op(op.kind, op.phase, op.layer, in, out, op.transposed);
    kept.name = op.name;
    kept.type = op.type;
    kept.flops = op.flops;
    kept.cell_flops = op.cell_flops;
    kept.dispatched = op.dispatched;
    if (norm) return;
    kept.bytes_read = op.bytes_read;
    kept.bytes_written = op.bytes_written;
  }

  const OpGraph& step_;
  OpGraph pass_;
  std::vector<TensorId> made_;  // by tensor of the step
};

}  // namespace

OpGraph forward_pass(const OpGraph& step) { return ForwardPass(step).take(); }

}  // namespace perfpred
