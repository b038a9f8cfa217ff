// SPDX-License-Identifier: Apache-2.0
// What a compiler makes of chains of elementwise operators: one kernel that reads what comes from outside once and
// writes what is needed outside once (PyTorch's TorchInductor; XLA's fusion). A norm, a softmax or a sum may be in it.
#include <algorithm>
#include <map>
#include <vector>

#include "step/lowering/lowering.h"
#include "step/op_traits.h"

namespace perfpred {
namespace {

/// A norm of the last axes or a softmax: a compiler writes it anew, with what is computed before and after it.
bool is_of_rows(OpKind kind) {
  switch (kind) {
    case OpKind::layer_norm:
    case OpKind::layer_norm_backward:
    case OpKind::rms_norm:
    case OpKind::rms_norm_backward:
    case OpKind::group_norm:
    case OpKind::group_norm_backward:
    case OpKind::softmax:
    case OpKind::softmax_backward:
    case OpKind::log_softmax:
    case OpKind::log_softmax_backward:
      return true;
    default:
      return false;
  }
}

/// A sum over a batch or an image, whose threads wait for each other as in the framework's own kernel.
bool is_of_batch(const OpGraph& step, const Op& op) {
  return op.kind == OpKind::mean || op.kind == OpKind::sum || op.kind == OpKind::batch_norm_backward ||
         (op.kind == OpKind::batch_norm && step.outputs(op).size() > 1);
}

/// One that a chain may have one of: it reads its operand twice.
bool is_reduction(const OpGraph& step, const Op& op) { return is_of_rows(op.kind) || is_of_batch(step, op); }

/// Of kinds: elementwise, unless the operands' shapes say otherwise.
bool is_pointwise(OpKind kind) {
  const StepGroup group = traits_of(kind).group;
  return group == StepGroup::elementwise || kind == OpKind::copy || kind == OpKind::other ||
         (group == StepGroup::other && kind >= OpKind::hardswish && kind <= OpKind::tanh_backward) ||
         (kind >= OpKind::sqrt && kind <= OpKind::bernoulli);
}

/// Elements of an operator's largest operand.
std::int64_t largest_operand(const OpGraph& step, const Op& op) {
  std::int64_t most = 0;
  for (const auto ids : {step.inputs(op), step.outputs(op)}) {
    for (const TensorId id : ids) {
      if (id != no_tensor) most = std::max(most, step.numel(id));
    }
  }
  return most;
}

class Fusion {
 public:
  explicit Fusion(const OpGraph& from)
      : from_(from), chain_of_(from.ops().size()), made_by_(from.tensors().size(), none) {
    for (std::size_t i = 0; i < from.ops().size(); ++i) place(i);
    find_uses();
  }

  OpGraph build() {
    OpGraph to = from_.without_ops();
    const std::int32_t fused = to.add_op_name("fused");
    for (const Chain& chain : chains_) add(to, chain, fused);
    for (const auto& [op, storage] : from_.frees()) to.set_freed_after(storage, chain_of_[std::min(op, last_op())]);
    return to;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Operators that become one kernel, at the place of the first.
  struct Chain {
    std::vector<std::size_t> ops;
    std::int64_t numel = 0;
    bool open = false, reduces = false;
  };

  [[nodiscard]] std::size_t last_op() const { return from_.ops().size() - 1; }
  [[nodiscard]] TensorId storage(TensorId id) const { return from_.tensors()[id].storage; }

  /// The chain that an operator continues: it reads a result of the chain, and nothing that is made after its start.
  [[nodiscard]] std::size_t continued(const Op& op) const {
    std::size_t latest = none;
    for (const TensorId id : from_.inputs(op)) {
      if (id == no_tensor) continue;
      const std::size_t by = made_by_[storage(id)];
      if (by != none && (latest == none || by > latest)) latest = by;
    }
    if (latest == none) return none;
    const Chain& chain = chains_[latest];
    const Op& first = from_.ops()[chain.ops.front()];
    const bool same_pass = (first.phase <= Phase::loss) == (op.phase <= Phase::loss);
    const bool fits = chain.open && same_pass && chain.numel == largest_operand(from_, op) &&
                      !(chain.reduces && is_reduction(from_, op));
    return fits ? latest : none;
  }

  void place(std::size_t i) {
    const Op& op = from_.ops()[i];
    const bool open = is_fusible(from_, op);
    std::size_t chain = open ? continued(op) : none;
    if (chain == none) {
      chain = chains_.size();
      chains_.push_back({{}, largest_operand(from_, op), open, false});
    }
    chains_[chain].ops.push_back(i);
    chains_[chain].reduces = chains_[chain].reduces || is_reduction(from_, op);
    chain_of_[i] = chain;
    for (const TensorId id : from_.outputs(op)) {
      if (id != no_tensor) made_by_[storage(id)] = chain;
    }
  }

  /// Which storages a chain writes and another reads.
  void find_uses() {
    std::vector<std::size_t> writer(from_.tensors().size(), none);
    needed_.assign(from_.tensors().size(), false);
    for (std::size_t i = 0; i < from_.ops().size(); ++i) {
      const Op& op = from_.ops()[i];
      for (const TensorId id : from_.inputs(op)) {
        if (id != no_tensor && writer[storage(id)] != none && writer[storage(id)] != chain_of_[i])
          needed_[storage(id)] = true;
      }
      for (const TensorId id : from_.outputs(op)) {
        if (id != no_tensor) writer[storage(id)] = chain_of_[i];
      }
    }
    for (TensorId id = 0; id < from_.tensors().size(); ++id) {  // what nobody reads is the step's result
      const TensorRole role = from_.tensors()[id].role;
      if (role != TensorRole::activation && role != TensorRole::temporary) needed_[storage(id)] = true;
    }
  }

  /// What a kernel of several operators reads that it did not make, and writes that others read.
  struct Moved {
    std::vector<TensorId> in, out;
    std::map<TensorId, std::int64_t> read, written;  // bytes, by storage
  };

  void add_moved(const Op& op, Moved& moved) const {
    for (const TensorId id : from_.inputs(op)) {
      if (id == no_tensor || moved.written.count(storage(id)) != 0) continue;
      if (moved.read.emplace(storage(id), from_.bytes(id)).second) moved.in.push_back(id);
    }
    for (const TensorId id : from_.outputs(op)) {
      if (id == no_tensor) continue;
      if (moved.written.emplace(storage(id), from_.bytes(id)).second && needed_[storage(id)]) moved.out.push_back(id);
    }
  }

  void add(OpGraph& to, const Chain& chain, std::int32_t name) const {
    const Op& first = from_.ops()[chain.ops.front()];
    if (chain.ops.size() == 1 && !is_of_rows(first.kind)) {
      to.add_copy(from_, first);
      return;
    }
    Moved moved;
    double flops = 0;
    for (const std::size_t i : chain.ops) {
      flops += from_.ops()[i].flops;
      add_moved(from_.ops()[i], moved);
    }
    if (moved.out.empty()) moved.out.push_back(from_.outputs(from_.ops()[chain.ops.back()])[0]);
    const auto of_batch = std::find_if(chain.ops.begin(), chain.ops.end(),
                                       [&](std::size_t i) { return is_of_batch(from_, from_.ops()[i]); });
    const bool sums_batch = of_batch != chain.ops.end();
    const Op& leading = from_.ops()[sums_batch ? *of_batch : chain.ops.back()];
    Op& made = to.add_op(sums_batch ? leading.kind : OpKind::fused, leading.phase, leading.layer, moved.in, moved.out);
    made.type = leading.type;
    made.name = name;
    made.flops = flops;
    made.bytes_read = made.bytes_written = 0;
    for (const TensorId id : moved.in) made.bytes_read += moved.read.at(storage(id));
    for (const TensorId id : moved.out) made.bytes_written += moved.written.at(storage(id));
  }

  const OpGraph& from_;
  std::vector<Chain> chains_;
  std::vector<std::size_t> chain_of_;  // by operator
  std::vector<std::size_t> made_by_;   // by storage: the chain that wrote it last
  std::vector<bool> needed_;           // by storage: outside of the chain that writes it
};

}  // namespace

bool is_fusible(const OpGraph& step, const Op& op) {
  if (op.phase == Phase::optimizer || step.outputs(op).empty()) return false;
  if (is_reduction(step, op) || op.kind == OpKind::batch_norm) return true;
  if (op.kind == OpKind::nll_loss || op.kind == OpKind::nll_loss_backward) return true;
  const TensorId result = step.outputs(op)[0];
  return is_pointwise(op.kind) && result != no_tensor && step.numel(result) == largest_operand(step, op);
}

OpGraph fuse_pointwise(const OpGraph& step) { return step.ops().empty() ? step : Fusion(step).build(); }

}  // namespace perfpred
