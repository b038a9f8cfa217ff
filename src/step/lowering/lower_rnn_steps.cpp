// SPDX-License-Identifier: Apache-2.0
// GRUs and plain RNNs on a CPU: aten/src/ATen/native/RNN.cpp, GRUCell and SimpleCell, position by position, and what
// autograd makes of them.
#include <array>
#include <vector>

#include "step/lowering/rnn_sizes.h"

namespace perfpred {
namespace {

/// What the backward pass of a position needs: the state before it; of a GRU the gates, the third one's recurrent part,
/// the new state's candidate and its difference to the old state; of a plain RNN the new state.
struct Position {
  TensorId state = no_tensor, gates = no_tensor, part = no_tensor, candidate = no_tensor, difference = no_tensor;
};

/// One layer in one direction.
class Direction {
 public:
  Direction(Lowering& lowering, const Op& op, const RnnSizes& sizes, std::span<const TensorId> weights)
      : lowering_(lowering),
        op_(op),
        sizes_(sizes),
        weights_(weights),
        state_{sizes.samples, sizes.hidden},
        gates_{sizes.samples, sizes.gates * sizes.hidden} {}

  /// @param x         [positions, samples, width]
  /// @param copied    whether x was copied for this: its product has the bias added afterwards
  /// @param last      gets the last state
  /// @param positions gets what the backward pass needs
  /// @param result    gets the states of all positions
  void forward(TensorId x, bool copied, TensorId first, TensorId result, TensorId& last,
               std::vector<Position>& positions) {
    const Shape all = {sizes_.positions * sizes_.samples, gates_[1]};
    const std::int64_t width = lowering_.from().shape(weights_[0])[1];
    const TensorId rows = lowering_.view(x, {all[0], width}), weight = lowering_.view(weights_[0], {width, all[1]});
    TensorId of_inputs =
        copied ? make(OpKind::mm, {rows, weight}, all) : make(OpKind::addmm, {weights_[2], rows, weight}, all);
    if (copied) of_inputs = make(OpKind::add, {of_inputs, weights_[2]}, all);
    std::vector<TensorId> states;
    TensorId state = lowering_.view(first, state_);
    for (std::int64_t i = 0; i < sizes_.positions; ++i) {
      Position& now = positions.emplace_back();
      now.state = state;
      now.gates =
          make(OpKind::addmm, {weights_[3], state, lowering_.view(weights_[1], {sizes_.hidden, gates_[1]})}, gates_);
      state = sizes_.gates == 3 ? gru(now, of_inputs) : plain(now, of_inputs);
      states.push_back(state);
    }
    stack(states, result);
    last = state;
  }

  /// @param g   gradient of the states of all positions
  /// @param gw  gets the weights' gradients
  /// @param gx  gets the input's; no_tensor: not asked for
  void backward(TensorId g, TensorId x, const std::vector<Position>& positions, std::span<const TensorId> gw,
                TensorId gx) {
    TensorId of_state = lowering_.view(g, state_);
    std::vector<TensorId> of_inputs;
    for (std::size_t i = positions.size(); i-- > 0;) {
      const Position& now = positions[i];
      TensorId of_gates = no_tensor, carried = no_tensor;
      if (sizes_.gates == 3) {
        of_gates = gru_backward(now, of_state, i > 0 ? g : no_tensor, carried, of_inputs);
      } else {
        of_gates = make(OpKind::tanh_backward, {of_state, now.candidate}, state_);
        of_inputs.push_back(of_gates);
      }
      if (i > 0) {
        const TensorId through = make(OpKind::mm, {of_gates, weights_[1]}, state_);
        if (carried == no_tensor) {
          carried = make(OpKind::add, {lowering_.view(g, state_), through}, state_);
        } else {
          add(OpKind::add, {carried, through}, carried);
        }
      }
      const bool is_first = i + 1 == positions.size();
      const TensorId transposed = lowering_.view(of_gates, {gates_[1], sizes_.samples});
      accumulate(OpKind::mm, {transposed, now.state}, gw[1], is_first);
      accumulate(OpKind::sum, {of_gates}, gw[3], is_first);
      of_state = carried;
    }
    const Shape all = {sizes_.positions * sizes_.samples, gates_[1]};
    const std::int64_t width = lowering_.from().shape(weights_[0])[1];
    const TensorId stacked = lowering_.new_tensor(all, op_.type, op_.phase);
    stack(of_inputs, stacked);
    add(OpKind::sum, {stacked}, gw[2]);
    add(OpKind::mm, {lowering_.view(stacked, {all[1], all[0]}), lowering_.view(x, {all[0], width})}, gw[0]);
    if (gx != no_tensor) add(OpKind::mm, {stacked, weights_[0]}, gx, {all[0], width});
  }

 private:
  TensorId make(OpKind kind, std::initializer_list<TensorId> in, const Shape& shape) {
    const TensorId result = lowering_.new_tensor(shape, op_.type, op_.phase);
    lowering_.add(op_, kind, in, {result});
    return result;
  }
  void add(OpKind kind, std::initializer_list<TensorId> in, TensorId out) { lowering_.add(op_, kind, in, {out}); }
  void add(OpKind kind, std::initializer_list<TensorId> in, TensorId out, const Shape& as) {
    lowering_.add(op_, kind, in, {lowering_.view(out, as)});
  }
  void accumulate(OpKind kind, std::initializer_list<TensorId> in, TensorId sum, bool is_first) {
    const Shape shape = lowering_.from().shape(sum);
    if (is_first) {
      add(kind, in, sum);
    } else {
      add(OpKind::add, {sum, make(kind, in, shape)}, sum);
    }
  }
  void stack(const std::vector<TensorId>& parts, TensorId whole) {
    lowering_.add(op_, OpKind::other, parts, std::array{whole}).name = lowering_.op_name("stack");
  }
  TensorId third(TensorId gates) { return lowering_.view(gates, state_); }  // any of a GRU's three

  TensorId gru(Position& now, TensorId of_inputs) {
    const TensorId reset = third(now.gates), update = third(now.gates), part = third(now.gates);
    for (const TensorId gate : {reset, update}) {
      add(OpKind::add, {gate, third(of_inputs)}, gate);
      add(OpKind::sigmoid, {gate}, gate);
    }
    now.part = make(OpKind::copy, {part}, state_);
    add(OpKind::mul, {part, reset}, part);
    now.candidate = make(OpKind::add, {third(of_inputs), part}, state_);
    add(OpKind::tanh, {now.candidate}, now.candidate);
    const TensorId state = make(OpKind::sub, {now.state, now.candidate}, state_);
    now.difference = make(OpKind::copy, {state}, state_);
    add(OpKind::mul, {state, update}, state);
    add(OpKind::add, {state, now.candidate}, state);
    return state;
  }

  TensorId plain(Position& now, TensorId of_inputs) {
    add(OpKind::add, {now.gates, third(of_inputs)}, now.gates);
    return now.candidate = make(OpKind::tanh, {now.gates}, state_);
  }

  /// @param g        that of the states of all positions; no_tensor at the first position
  /// @param carried  gets the gradient of the state before, but for the part through the gates
  /// @param of_inputs gets the gradient of the input's part of the gates
  /// @return         the gradient of the state's part of the gates
  TensorId gru_backward(const Position& now, TensorId of_state, TensorId g, TensorId& carried,
                        std::vector<TensorId>& of_inputs) {
    const TensorId reset = third(now.gates), update = third(now.gates);
    const TensorId of_update = make(OpKind::mul, {of_state, now.difference}, state_);
    const TensorId of_difference = make(OpKind::mul, {of_state, update}, state_);
    const TensorId negated = lowering_.new_tensor(state_, op_.type, op_.phase);
    lowering_.add(op_, OpKind::other, {of_difference}, {negated}).name = lowering_.op_name("neg");
    TensorId of_candidate = make(OpKind::add, {of_state, negated}, state_);
    if (g != no_tensor) carried = make(OpKind::add, {lowering_.view(g, state_), of_difference}, state_);
    of_candidate = make(OpKind::tanh_backward, {of_candidate, now.candidate}, state_);
    const TensorId of_reset = make(OpKind::mul, {of_candidate, now.part}, state_);
    const TensorId of_part = make(OpKind::mul, {of_candidate, reset}, state_);
    const TensorId before_update = make(OpKind::sigmoid_backward, {of_update, update}, state_);
    const TensorId before_reset = make(OpKind::sigmoid_backward, {of_reset, reset}, state_);
    const TensorId of_gates = make(OpKind::cat, {before_reset, before_update, of_part}, gates_);
    of_inputs.push_back(make(OpKind::cat, {before_reset, before_update, of_candidate}, gates_));
    return of_gates;
  }

  Lowering& lowering_;
  const Op& op_;
  const RnnSizes& sizes_;
  std::span<const TensorId> weights_;
  Shape state_, gates_;
};

bool is_stepwise(const RnnSizes& sizes, const Op& op) {
  return (sizes.gates == 3 || sizes.gates == 1) && (op.type == DataType::f32 || op.type == DataType::f64);
}

std::size_t forward(Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  RnnSizes sizes;
  if (out.size() < 3 || !sizes.read(step, op, out.back(), out[0]) || !is_stepwise(sizes, op)) return 0;
  if (out[1] == no_tensor) return 0;
  std::vector<TensorId> kept, last_states;
  walk_layers(lowering, op, sizes, in[0], out[0], kept,
              [&](std::int64_t layer, std::int64_t way, TensorId x, TensorId y) {
                const std::span<const TensorId> weights = in.subspan(1 + sizes.first_weight(layer, way), 4);
                const bool copied = layer == 0 && sizes.samples_first;
                if (layer == 0) x = with_positions_first(lowering, op, sizes, x, step.shape(weights[0])[1]);
                std::vector<Position> positions;
                Direction(lowering, op, sizes, weights)
                    .forward(x, copied, in[1 + sizes.weights], y, last_states.emplace_back(), positions);
                kept.push_back(x);
                for (const Position& now : positions) {
                  for (const TensorId id : {now.state, now.gates, now.part, now.candidate, now.difference})
                    kept.push_back(id);
                }
              });
  lowering.add(op, OpKind::other, last_states, std::array{out[1]}).name = lowering.op_name("stack");
  lowering.kept[lowering.storage(out.back())] = kept;
  return 1;
}

std::size_t backward(Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  RnnSizes sizes;
  const std::vector<TensorId>* found = sizes.kept(lowering, op);
  if (found == nullptr || !is_stepwise(sizes, op)) return 0;
  if (found->size() != sizes.count_kept(1 + 5 * static_cast<std::size_t>(sizes.positions))) return 0;
  std::vector<TensorId> kept = *found;
  const std::span<const TensorId> of_weights = out.last(sizes.weights);
  const bool of_x = out.size() > sizes.weights && out[0] != no_tensor && step.shape(out[0]) == step.shape(in[0]);
  const auto direction = [&](std::int64_t layer, std::int64_t way, TensorId g) {
    const std::size_t weight = sizes.first_weight(layer, way);
    std::vector<Position> positions(static_cast<std::size_t>(sizes.positions));
    for (std::size_t i = positions.size(); i-- > 0;) {
      Position& now = positions[i];
      for (TensorId* id : {&now.difference, &now.candidate, &now.part, &now.gates, &now.state}) *id = take_last(kept);
    }
    const TensorId x = take_last(kept);
    TensorId gx = no_tensor;
    if (layer > 0 || of_x) {
      const Shape shape = {sizes.positions, sizes.samples, step.shape(in[1 + weight])[1]};
      const bool first = way + 1 == sizes.directions;
      gx = layer == 0 && first ? out[0] : lowering.new_tensor(shape, op.type, op.phase);
    }
    Direction(lowering, op, sizes, in.subspan(1 + weight, 4))
        .backward(g, x, positions, of_weights.subspan(weight, 4), gx);
    return gx;
  };
  walk_layers_back(lowering, op, sizes, in[in.size() - 2], kept, direction,
                   [&](std::int64_t, TensorId first, TensorId second) {
                     if (first != no_tensor) lowering.add(op, OpKind::add, {first, second}, {first});
                     return first;
                   });
  return 1;
}

}  // namespace

std::size_t write_out_rnn(Lowering& lowering, std::size_t i) {
  const Op& op = lowering.ops()[i];
  if (op.kind == OpKind::rnn) return forward(lowering, op);
  return op.kind == OpKind::rnn_backward ? backward(lowering, op) : 0;
}

}  // namespace perfpred
