// SPDX-License-Identifier: Apache-2.0
// What a step of torch.compile keeps for its backward pass, and what it computes a second time there: the partition of
// AOTAutograd, min_cut_rematerialization_partition in torch/_functorch/partitioners.py of PyTorch 2.11, with its bans.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "step/lowering/lowering.h"
#include "step/lowering/maximum_flow.h"

namespace perfpred {
namespace {

constexpr std::size_t no_value = static_cast<std::size_t>(-1);

/// A reduction's result that is so many times smaller than what it reads is always kept.
constexpr std::int64_t least_reduction = 4;
/// Kept bytes weigh more by this factor for each operator between them and the backward pass, at most so often.
constexpr double weight_of_distance = 1.1;
constexpr int max_distance = 100;

bool is_forward(const Op& op) { return op.phase <= Phase::loss; }

/// A result of an operator of the forward pass or the loss. Operators that write in place make a new value.
struct Value {
  std::size_t op;                    ///< that makes it
  TensorId tensor;                   ///< its result
  std::vector<std::size_t> from;     ///< values that it is computed from
  std::vector<std::size_t> used_by;  ///< operators of both passes
  bool read_backward = false;
  bool kept_always = false;
  int distance = std::numeric_limits<int>::max() / 2;  ///< operators to the backward pass
};

/// The values of a step's forward pass, and which of them the backward pass gets.
class Partition {
 public:
  explicit Partition(const OpGraph& step) : step_(step), operands_(step.ops().size()) {
    for (const Op& op : step.ops()) fuses_.push_back(is_fusible(step, op));
    find_values();
    find_distances();
    ban();
    if (any_backward_) cut();
  }

  [[nodiscard]] bool trains() const { return any_backward_; }
  [[nodiscard]] std::span<const Value> values() const { return values_; }
  [[nodiscard]] bool is_kept(std::size_t value) const { return kept_[value]; }
  /// The value that an operator reads as its k-th input, or `no_value`: a parameter, or made by the backward pass.
  [[nodiscard]] std::size_t read(std::size_t op, std::size_t k) const { return operands_[op][k]; }

 private:
  [[nodiscard]] std::int64_t bytes(std::size_t value) const { return step_.bytes(values_[value].tensor); }
  [[nodiscard]] const Op& maker(std::size_t value) const { return step_.ops()[values_[value].op]; }
  [[nodiscard]] bool fuses(std::size_t op) const { return fuses_[op]; }

  void find_values() {
    std::vector<std::size_t> current(step_.tensors().size(), no_value);  // by storage
    for (std::size_t i = 0; i < step_.ops().size(); ++i) {
      const Op& op = step_.ops()[i];
      std::vector<std::size_t> from;
      for (const TensorId id : step_.inputs(op)) {
        const std::size_t value = id == no_tensor ? no_value : current[step_.tensors()[id].storage];
        operands_[i].push_back(value);
        if (value == no_value) continue;
        from.push_back(value);
        values_[value].used_by.push_back(i);
        if (op.phase == Phase::backward) values_[value].read_backward = any_backward_ = true;
      }
      const auto out = step_.outputs(op);
      const std::size_t first = values_.size();
      for (const TensorId id : out) {
        if (id == no_tensor) continue;
        if (!is_forward(op)) {
          current[step_.tensors()[id].storage] = no_value;
          continue;
        }
        current[step_.tensors()[id].storage] = values_.size();
        values_.push_back({i, id, from, {}, false, false});
      }
      // A norm's result is computed from its statistics, dropout's from its mask.
      for (std::size_t other = first + 1; other < values_.size(); ++other) {
        values_[first].from.push_back(other);
      }
    }
  }

  void find_distances() {
    for (std::size_t v = values_.size(); v-- > 0;) {
      Value& value = values_[v];
      if (value.read_backward) value.distance = 1;
      for (const std::size_t from : value.from)
        values_[from].distance = std::min(values_[from].distance, value.distance + 1);
    }
    // Statistics follow the result that is computed from them.
    for (std::size_t v = values_.size(); v-- > 0;) {
      for (const std::size_t from : values_[v].from)
        values_[from].distance = std::min(values_[from].distance, values_[v].distance + 1);
    }
  }

  void ban() {
    std::size_t of_op = no_value;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      Value& value = values_[v];
      const bool is_further_result = value.op == of_op;  // statistics, masks
      of_op = value.op;
      std::int64_t read = 0;
      for (const TensorId id : step_.inputs(maker(v))) read += id == no_tensor ? 0 : step_.bytes(id);
      value.kept_always = is_further_result || !recomputes(v) || bytes(v) * least_reduction < read ||
                          std::ranges::any_of(value.used_by, [&](std::size_t op) {
                            return step_.ops()[op].phase == Phase::backward && !fuses(op);
                          });
    }
    ban_used_far_apart();
  }

  [[nodiscard]] bool recomputes(std::size_t value) const {
    const Op& op = maker(value);
    return fuses(values_[value].op) && op.kind != OpKind::bernoulli;
  }

  /// A value that operators close by read, and others behind one that does not fuse: those are not computed again.
  void ban_used_far_apart() {
    std::vector<std::vector<std::size_t>> made(step_.ops().size());  // by operator
    for (std::size_t v = 0; v < values_.size(); ++v) made[values_[v].op].push_back(v);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      std::size_t last = 0, uses = 0;
      for (const std::size_t op : values_[v].used_by) {
        if (!is_forward(step_.ops()[op])) continue;
        last = std::max(last, op);
        ++uses;
      }
      if (uses < 2) continue;
      const std::size_t unfusible = first_unfusible(v, made, last);
      for (const std::size_t op : values_[v].used_by) {
        if (!is_forward(step_.ops()[op]) || op <= unfusible || !fuses(op) || !fuses(values_[v].op)) continue;
        for (const std::size_t user : made[op]) values_[user].kept_always = true;
      }
    }
  }

  [[nodiscard]] std::size_t first_unfusible(std::size_t value, const std::vector<std::vector<std::size_t>>& made,
                                            std::size_t last) const {
    std::set<std::pair<std::size_t, bool>> next;  // operators, and whether they fuse with what they read
    for (const std::size_t op : values_[value].used_by) {
      if (is_forward(step_.ops()[op])) next.insert({op, true});
    }
    while (!next.empty()) {
      const auto [op, fused] = *next.begin();
      next.erase(next.begin());
      if (!fused) return op;
      for (const std::size_t result : made[op]) {
        for (const std::size_t user : values_[result].used_by) {
          if (is_forward(step_.ops()[user]) && user <= last) next.insert({user, fuses(op) && fuses(user)});
        }
      }
    }
    return last;
  }

  void cut() {
    const std::size_t source = 2 * values_.size(), sink = source + 1;
    MaximumFlow flow(sink + 1);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const Value& value = values_[v];
      const std::size_t in = 2 * v, out = in + 1;
      const bool is_written =
          !fuses(value.op) || std::ranges::any_of(value.used_by, [&](std::size_t op) { return !fuses(op); });
      const double weight = std::pow(weight_of_distance, std::clamp(value.distance, 1, max_distance));
      flow.add(in, out, static_cast<double>(bytes(v)) * weight * (is_written ? 1 : 2));
      if (value.kept_always) flow.add(source, in, MaximumFlow::unlimited);
      if (value.read_backward) flow.add(out, sink, MaximumFlow::unlimited);
      for (const std::size_t from : value.from) flow.add(2 * from + 1, in, MaximumFlow::unlimited);
    }
    const std::vector<bool> reached = flow.cut(source, sink);
    kept_.resize(values_.size());
    for (std::size_t v = 0; v < values_.size(); ++v) kept_[v] = reached[2 * v] && !reached[2 * v + 1];
  }

  const OpGraph& step_;
  std::vector<std::vector<std::size_t>> operands_;  // by operator and input
  std::vector<bool> fuses_;                         // by operator
  std::vector<Value> values_;
  std::vector<bool> kept_;  // by value
  bool any_backward_ = false;
};

/// The step with the operators that its backward pass executes a second time.
class Recomputation {
 public:
  Recomputation(const OpGraph& step, const Partition& partition)
      : step_(step),
        partition_(partition),
        to_(step.without_ops()),
        again_(partition.values().size(), no_tensor),
        offsets_(step.tensors().size(), no_tensor) {}

  OpGraph build() {
    for (std::size_t i = 0; i < step_.ops().size(); ++i) {
      add(i);
      executed_by_.push_back(to_.ops().size() - 1);
    }
    if (!step_.frees().empty()) set_frees();
    return std::move(to_);
  }

 private:
  void add(std::size_t i) {
    const Op& op = step_.ops()[i];
    std::vector<TensorId> in(step_.inputs(op).begin(), step_.inputs(op).end());
    std::vector<TensorId> out(step_.outputs(op).begin(), step_.outputs(op).end());
    if (op.phase == Phase::backward) {
      in = read_backward(i);
      if (is_padded_product(op)) {
        for (TensorId& id : in) id = padded(op, id);
      }
    }
    const bool pools = op.kind == OpKind::max_pool2d && is_forward(op) && out.size() == 2 && out[1] != no_tensor;
    if (pools) out[1] = offsets_[out[1]] = to_.add_tensor(step_.shape(out[1]), DataType::u8, TensorRole::activation);
    if (std::ranges::equal(in, step_.inputs(op)) && !pools) {
      to_.add_copy(step_, op);
    } else {
      add_like(op, op.kind, op.phase, in, out);
    }
  }

  /// What operator i reads where the backward pass executes it.
  std::vector<TensorId> read_backward(std::size_t i) {
    const auto as_written = step_.inputs(step_.ops()[i]);
    std::vector<TensorId> in(as_written.begin(), as_written.end());
    for (std::size_t k = 0; k < in.size(); ++k) {
      const std::size_t value = partition_.read(i, k);
      if (value == no_value) continue;
      if (!partition_.is_kept(value)) {
        in[k] = seen_as(computed_again(value), in[k]);
      } else if (offsets_[in[k]] != no_tensor) {
        in[k] = offsets_[in[k]];
      }
    }
    return in;
  }

  /// torch/_inductor/fx_passes/pad_mm.py: products of 16 bits whose rows do not begin on 16 bytes get a copy whose do.
  /// Seen on an H200 (data/nvidia_h200/pytorch): of gradients, not of weights.
  [[nodiscard]] static bool is_padded_product(const Op& op) {
    return (op.kind == OpKind::mm || op.kind == OpKind::addmm) &&
           (op.type == DataType::bf16 || op.type == DataType::f16);
  }

  TensorId padded(const Op& op, TensorId id) {
    constexpr std::int64_t elements = 8;  // 16 bytes
    if (id == no_tensor || to_.tensors()[id].role != TensorRole::temporary) return id;
    const Shape& shape = to_.shape(id);
    if (shape.rank() != 2 || shape[1] % elements == 0 || shape[1] < elements) return id;
    TensorId& made = padded_.try_emplace(to_.tensors()[id].storage, no_tensor).first->second;
    if (made == no_tensor) {
      const std::array sizes = {shape[0], (shape[1] / elements + 1) * elements};
      made = to_.add_tensor(Shape(sizes), to_.tensors()[id].type, TensorRole::temporary);
      to_.add_op(OpKind::copy, Phase::backward, op.layer, std::array{id}, std::array{made});
    }
    return made;
  }

  Op& add_like(const Op& op, OpKind kind, Phase phase, std::span<const TensorId> in, std::span<const TensorId> out) {
    Op& made = to_.add_op(kind, phase, op.layer, in, out, op.transposed);
    made.type = op.type;
    made.name = op.name;
    made.dispatched = op.dispatched;
    made.flops = op.flops;
    made.cell_flops = op.cell_flops;
    made.bytes_read = op.bytes_read;
    made.bytes_written = op.bytes_written;
    return made;
  }

  /// The same memory in another shape, as an operator reads it.
  TensorId seen_as(TensorId made, TensorId as) {
    if (step_.tensors()[as].storage == as) return made;
    return to_.add_view(made, step_.shape(as), step_.tensors()[as].type);
  }

  TensorId computed_again(std::size_t value) {
    if (again_[value] != no_tensor) return again_[value];
    const Value& made = partition_.values()[value];
    const Op& op = step_.ops()[made.op];
    std::vector<TensorId> in = read_backward(made.op);
    for (const TensorId other : step_.outputs(op)) {  // statistics, a mask
      if (other != no_tensor && other != made.tensor) in.push_back(other);
    }
    const TensorId result =
        to_.add_tensor(step_.shape(made.tensor), step_.tensors()[made.tensor].type, TensorRole::temporary);
    add_like(op, OpKind::other, Phase::backward, in, std::span(&result, 1));
    return again_[value] = result;
  }

  /// Memory is given back where the step as it was does it. What the backward pass no longer reads goes with its last
  /// use, and so does what is computed again.
  void set_frees() {
    const auto made = static_cast<TensorId>(step_.tensors().size());
    std::vector<std::size_t> last(to_.tensors().size(), no_value);
    for (std::size_t i = 0; i < to_.ops().size(); ++i) {
      for (const auto ids : {to_.inputs(to_.ops()[i]), to_.outputs(to_.ops()[i])}) {
        for (const TensorId id : ids) {
          if (id != no_tensor) last[to_.tensors()[id].storage] = i;
        }
      }
    }
    std::vector<bool> was_read(step_.tensors().size());  // by the backward pass
    for (const Value& value : partition_.values()) {
      if (value.read_backward) was_read[step_.tensors()[value.tensor].storage] = true;
    }
    std::vector<std::pair<std::size_t, TensorId>> frees;
    for (const auto& [op, storage] : step_.frees()) {
      const std::size_t as_before = executed_by_[std::min(op, executed_by_.size() - 1)];
      const bool sooner = was_read[storage] && last[storage] != no_value;
      frees.emplace_back(sooner ? std::min(last[storage], as_before) : as_before, storage);
    }
    for (TensorId id = made; id < to_.tensors().size(); ++id) {
      if (to_.tensors()[id].storage == id && last[id] != no_value) frees.emplace_back(last[id], id);
    }
    std::sort(frees.begin(), frees.end());
    for (const auto& [op, storage] : frees) to_.set_freed_after(storage, op);
  }

  const OpGraph& step_;
  const Partition& partition_;
  OpGraph to_;
  std::vector<TensorId> again_;           // by value: where the backward pass computed it
  std::vector<TensorId> offsets_;         // by tensor: a byte each in place of the positions that pooling chose
  std::map<TensorId, TensorId> padded_;   // by storage
  std::vector<std::size_t> executed_by_;  // by operator: the last one of to_ that executes it
};

}  // namespace

OpGraph recompute_in_backward(const OpGraph& step) {
  if (step.ops().empty()) return step;
  const Partition partition(step);
  return partition.trains() ? Recomputation(step, partition).build() : step;
}

}  // namespace perfpred
