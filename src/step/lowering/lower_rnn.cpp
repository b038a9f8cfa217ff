// SPDX-License-Identifier: Apache-2.0
// LSTMs on a CPU: aten/src/ATen/native/RNN.cpp, use_mkldnn(); aten/src/ATen/native/mkldnn/RNN.cpp, lstm_mkldnn(): an
// operator for each layer and direction.
#include <algorithm>
#include <array>
#include <vector>

#include "step/lowering/rnn_sizes.h"
#include "step/padded_row.h"

namespace perfpred {
namespace {

/// What a layer in one direction leaves for its backward operator.
enum Kept : std::size_t { layer_input, first_state, first_cell, result, last_state, last_cell, workspace, kept_count };

/// Bytes of oneDNN's workspace of a layer in one direction, to about one percent: gates, states and their gradients of
/// all positions, each part in whole pages. Sizes as LibTorch 2.11 reports them for layers of 8 to 1300.
std::int64_t workspace_bytes(const RnnSizes& lstm, std::int64_t inputs) {
  const auto row = [](std::int64_t width) { return size_of(DataType::f32) * padded_row(width); };
  const auto pages = [](std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; };
  // Every size below is at most some ten times this one.
  (void)Shape({lstm.positions, lstm.samples, 128, padded_row(std::max(inputs, 4 * lstm.hidden))}).numel();
  const std::int64_t rows = lstm.positions * lstm.samples, more_rows = rows + lstm.samples;
  const std::int64_t layer_states = 2 * more_rows * row(std::max(inputs, lstm.hidden));
  const std::int64_t states = more_rows * row(lstm.hidden), steps = rows * row(lstm.hidden);
  return pages(rows * row(4 * lstm.hidden)) + pages(layer_states) + pages(2 * layer_states) + pages(states) +
         pages(2 * states) + 2 * pages(steps);
}

bool is_onednns(const RnnSizes& sizes, const Op& op) { return sizes.gates == 4 && op.type == DataType::f32; }

std::size_t forward(Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  RnnSizes lstm;
  if (out.size() < 4 || !lstm.read(step, op, out[3], out[0]) || !is_onednns(lstm, op)) return 0;
  if (in.size() < lstm.weights + 3 || out[1] == no_tensor) return 0;
  if (step.tensors()[out[3]].type == DataType::u8) return 0;  // a recorded mkldnn_rnn_layer
  const TensorId states = in[lstm.weights + 1], cells = in[lstm.weights + 2];
  const Shape state = {1, lstm.samples, lstm.hidden};
  const TensorId x = with_positions_first(lowering, op, lstm, in[0], step.shape(in[0])[2]);
  std::vector<TensorId> kept, last_states, last_cells;
  walk_layers(
      lowering, op, lstm, x, out[0], kept, [&](std::int64_t layer, std::int64_t way, TensorId of_layer, TensorId y) {
        const std::span<const TensorId> weight = in.subspan(1 + lstm.first_weight(layer, way), 4);
        const TensorId h = lowering.view(states, state), c = lowering.view(cells, state);
        const TensorId hn = last_states.emplace_back(lowering.new_tensor(state, op.type, op.phase));
        const TensorId cn = last_cells.emplace_back(lowering.new_tensor(state, op.type, op.phase));
        const std::int64_t bytes = workspace_bytes(lstm, step.shape(weight[0])[1]);
        const TensorId work = lowering.new_tensor({bytes}, DataType::u8, op.phase);
        lowering.add(op, OpKind::rnn, {of_layer, weight[0], weight[1], weight[2], weight[3], h, c}, {y, hn, cn, work})
            .name = lowering.op_name("mkldnn_rnn_layer");
        for (const TensorId id : {of_layer, h, c, y, hn, cn, work}) kept.push_back(id);
      });
  lowering.add(op, OpKind::other, last_states, std::array{out[1]}).name = lowering.op_name("stack");
  if (out[2] != no_tensor) {
    lowering.add(op, OpKind::other, last_cells, std::array{out[2]}).name = lowering.op_name("stack");
  }
  lowering.kept[lowering.storage(out[3])] = kept;
  return 1;
}

std::size_t backward(Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const auto in = step.inputs(op), out = step.outputs(op);
  RnnSizes lstm;
  const std::vector<TensorId>* found = lstm.kept(lowering, op);
  if (found == nullptr || !is_onednns(lstm, op) || found->size() != lstm.count_kept(kept_count)) return 0;
  const Shape state = {1, lstm.samples, lstm.hidden};
  std::vector<TensorId> kept = *found;
  const std::span<const TensorId> of_weights = out.last(lstm.weights);
  const bool of_x = out.size() > lstm.weights && out[0] != no_tensor && step.shape(out[0]) == step.shape(in[0]);
  const TensorId given = in[in.size() - 2];
  const auto of_input = [&](std::int64_t layer, bool whole) {
    const std::int64_t width = step.shape(in[1 + lstm.first_weight(layer, 0)])[1];
    return whole && layer == 0 && of_x ? out[0]
                                       : lowering.new_tensor({lstm.positions, lstm.samples, width}, op.type, op.phase);
  };
  const auto direction = [&](std::int64_t layer, std::int64_t way, TensorId g) {
    const std::size_t weight = lstm.first_weight(layer, way);
    std::array<TensorId, kept_count> mine{};
    for (std::size_t i = kept_count; i-- > 0;) mine[i] = take_last(kept);
    const TensorId gx = of_input(layer, lstm.directions == 1);
    std::vector<TensorId> written = {gx, lowering.new_tensor(state, op.type, op.phase),
                                     lowering.new_tensor(state, op.type, op.phase)};
    for (const TensorId id : of_weights.subspan(weight, 4)) written.push_back(id);
    std::vector<TensorId> read = {mine[layer_input]};
    for (const TensorId id : in.subspan(1 + weight, 4)) read.push_back(id);
    for (const Kept which : {first_state, first_cell, result, last_state, last_cell}) read.push_back(mine[which]);
    read.push_back(lowering.view(g, lstm.result_of(1)));
    const bool copied = layer + 1 == lstm.layers && lstm.samples_first;
    if (copied) read.push_back(given);  // autograd holds it meanwhile; it is not read again
    read.push_back(mine[workspace]);
    Op& made = lowering.add(op, OpKind::rnn_backward, read, written);
    made.name = lowering.op_name("mkldnn_rnn_layer_backward");
    if (copied) made.bytes_read -= step.bytes(given);
    return gx;
  };
  const auto sum = [&](std::int64_t layer, TensorId first, TensorId second) {
    const TensorId both = of_input(layer, true);
    lowering.add(op, OpKind::add, {first, second}, {both});
    return both;
  };
  const TensorId g = with_positions_first(lowering, op, lstm, given, lstm.directions * lstm.hidden);
  walk_layers_back(lowering, op, lstm, g, kept, direction, sum);
  return 1;
}

}  // namespace

std::size_t split_lstm(Lowering& lowering, std::size_t i) {
  const Op& op = lowering.ops()[i];
  if (op.kind == OpKind::rnn) return forward(lowering, op);
  return op.kind == OpKind::rnn_backward ? backward(lowering, op) : 0;
}

}  // namespace perfpred
