// SPDX-License-Identifier: Apache-2.0
// LSTMs on a CPU: aten/src/ATen/native/RNN.cpp, use_mkldnn(); aten/src/ATen/native/mkldnn/RNN.cpp, lstm_mkldnn(): an
// operator for each layer and direction.
#include <algorithm>
#include <array>
#include <vector>

#include "step/padded_row.h"
#include "step/rnn_sizes.h"

namespace perfpred {
namespace {

/// What a layer in one direction leaves for its backward operator.
enum Kept : std::size_t { layer_input, first_state, first_cell, result, last_state, last_cell, workspace, kept_count };

/// Bytes of oneDNN's workspace of a layer in one direction, to about one percent: gates, states and their gradients of
/// all positions, each part in whole pages. Sizes as LibTorch 2.11 reports them for layers of 8 to 1300.
std::int64_t workspace_bytes(const RnnSizes& lstm, std::int64_t inputs) {
  const auto row = [](std::int64_t width) { return size_of(DataType::f32) * padded_row(width); };
  const auto pages = [](std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; };
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
  const TensorId states = in[lstm.weights + 1], cells = in[lstm.weights + 2];
  const Shape state = {1, lstm.samples, lstm.hidden};
  TensorId x = with_positions_first(lowering, op, lstm, in[0], step.shape(in[0])[2]);
  std::vector<TensorId> kept, last_states, last_cells;
  for (std::int64_t layer = 0; layer < lstm.layers; ++layer) {
    const bool last = layer + 1 == lstm.layers;
    std::vector<TensorId> results;
    for (std::int64_t way = 0; way < lstm.directions; ++way) {
      const auto weight = static_cast<std::size_t>(1 + 4 * (layer * lstm.directions + way));
      const TensorId h = lowering.view(states, state), c = lowering.view(cells, state);
      const TensorId y =
          last && lstm.directions == 1 ? out[0] : lowering.new_tensor(lstm.result_of(1), op.type, op.phase);
      const TensorId hn = lowering.new_tensor(state, op.type, op.phase);
      const TensorId cn = lowering.new_tensor(state, op.type, op.phase);
      const std::int64_t bytes = workspace_bytes(lstm, step.shape(in[weight])[1]);
      const TensorId work = lowering.new_tensor({bytes}, DataType::u8, op.phase);
      lowering
          .add(op, OpKind::rnn, {x, in[weight], in[weight + 1], in[weight + 2], in[weight + 3], h, c},
               {y, hn, cn, work})
          .name = lowering.op_name("mkldnn_rnn_layer");
      for (const TensorId id : {x, h, c, y, hn, cn, work}) kept.push_back(id);
      results.push_back(y);
      last_states.push_back(hn);
      last_cells.push_back(cn);
    }
    x = results[0];
    if (lstm.directions > 1) {
      x = last ? out[0] : lowering.new_tensor(lstm.result_of(2), op.type, op.phase);
      lowering.add(op, OpKind::cat, results, std::array{x});
    }
    if (!last && lstm.drops) x = drop_between_layers(lowering, op, lstm, x, kept);
  }
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
  TensorId g = with_positions_first(lowering, op, lstm, given, lstm.directions * lstm.hidden);
  const auto taken = [&] {
    const TensorId id = kept.back();
    kept.pop_back();
    return id;
  };
  for (std::int64_t layer = lstm.layers - 1; layer >= 0; --layer) {
    if (layer + 1 < lstm.layers && lstm.drops) {
      const TensorId dropped = lowering.new_tensor(lstm.result_of(lstm.directions), op.type, op.phase);
      lowering.add(op, OpKind::mul, {g, taken()}, {dropped});
      g = dropped;
    }
    std::vector<TensorId> of_inputs;
    for (std::int64_t way = lstm.directions - 1; way >= 0; --way) {
      const auto weight = static_cast<std::size_t>(4 * (layer * lstm.directions + way));
      std::array<TensorId, kept_count> mine{};
      for (std::size_t i = kept_count; i-- > 0;) mine[i] = taken();
      const Shape width = step.shape(in[1 + weight]);
      const bool is_x = layer == 0 && lstm.directions == 1 && of_x;
      const TensorId gx =
          is_x ? out[0] : lowering.new_tensor({lstm.positions, lstm.samples, width[1]}, op.type, op.phase);
      std::vector<TensorId> written = {gx, lowering.new_tensor(state, op.type, op.phase),
                                       lowering.new_tensor(state, op.type, op.phase)};
      written.insert(written.end(), of_weights.begin() + static_cast<std::ptrdiff_t>(weight),
                     of_weights.begin() + static_cast<std::ptrdiff_t>(weight + 4));
      std::vector<TensorId> read = {mine[layer_input]};
      for (std::size_t k = 0; k < 4; ++k) read.push_back(in[1 + weight + k]);
      for (const Kept which : {first_state, first_cell, result, last_state, last_cell}) read.push_back(mine[which]);
      read.push_back(lowering.view(g, lstm.result_of(1)));
      const bool copied = layer + 1 == lstm.layers && lstm.samples_first;
      if (copied) read.push_back(given);  // autograd holds it meanwhile; it is not read again
      read.push_back(mine[workspace]);
      Op& made = lowering.add(op, OpKind::rnn_backward, read, written);
      made.name = lowering.op_name("mkldnn_rnn_layer_backward");
      if (copied) made.bytes_read -= step.bytes(given);
      of_inputs.push_back(gx);
    }
    g = of_inputs[0];
    if (lstm.directions > 1) {
      const std::int64_t width = step.shape(in[static_cast<std::size_t>(1 + 8 * layer)])[1];
      const TensorId sum =
          layer == 0 && of_x ? out[0] : lowering.new_tensor({lstm.positions, lstm.samples, width}, op.type, op.phase);
      lowering.add(op, OpKind::add, {of_inputs[0], of_inputs[1]}, {sum});
      g = sum;
    }
  }
  return 1;
}

}  // namespace

std::size_t split_lstm(Lowering& lowering, std::size_t i) {
  const Op& op = lowering.ops()[i];
  if (op.kind == OpKind::rnn) return forward(lowering, op);
  return op.kind == OpKind::rnn_backward ? backward(lowering, op) : 0;
}

}  // namespace perfpred
