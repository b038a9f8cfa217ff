// SPDX-License-Identifier: Apache-2.0
#include "step/lowering/rnn_sizes.h"

#include <algorithm>

#include "step/rnn_operands.h"

namespace perfpred {
namespace {

constexpr std::int64_t max_positions = 100'000;  // each is some operators

}  // namespace

bool RnnSizes::read(const OpGraph& step, const Op& op, TensorId reserve, TensorId outputs) {
  const auto in = step.inputs(op);
  if (in.size() < 6 || reserve == no_tensor || outputs == no_tensor) return false;
  const RnnOperands rnn = rnn_operands(step, op);
  const Shape &x = step.shape(in[0]), &y = step.shape(outputs);
  if (rnn.directions.empty() || x.rank() != 3 || y.rank() != 3) return false;
  weights = rnn.weights;
  samples = rnn.samples;
  hidden = rnn.directions[0].state;
  const auto ways = static_cast<std::int64_t>(rnn.directions.size());
  const bool projects =
      std::any_of(rnn.directions.begin(), rnn.directions.end(), [](const RnnDirection& d) { return d.projected != 0; });
  if (projects || hidden < 1 || weights != 4 * rnn.directions.size()) return false;  // or without biases
  if (rnn.directions[0].gate_rows % hidden != 0 || step.shape(in[3]).rank() != 1) return false;
  gates = rnn.directions[0].gate_rows / hidden;
  directions = y[2] / hidden;
  if (directions < 1 || directions > 2 || ways % directions != 0) return false;
  layers = ways / directions;
  samples_first = x[0] == samples;
  positions = samples_first ? x[1] : x[0];
  if (y[0] != x[0] || y[1] != x[1] || (!samples_first && x[1] != samples)) return false;
  samples_first = samples_first && samples > 1 && positions > 1;
  const std::int64_t of_layer = gates > 1 ? gates + 1 : 0;  // kept_elements() of layers/sequence.cpp
  drops = layers > 1 && step.numel(reserve) == y.numel() * (of_layer * layers + 2 * (layers - 1));
  return positions > 0 && positions <= max_positions;
}

const std::vector<TensorId>* RnnSizes::kept(const Lowering& lowering, const Op& op) {
  const auto in = lowering.from().inputs(op), out = lowering.from().outputs(op);
  if (in.size() < 6) return nullptr;
  const auto found = lowering.kept.find(lowering.storage(in.back()));
  if (found == lowering.kept.end() || !read(lowering.from(), op, in.back(), in[in.size() - 3])) return nullptr;
  const bool all = out.size() >= weights &&
                   std::find(out.end() - static_cast<std::ptrdiff_t>(weights), out.end(), no_tensor) == out.end();
  return all ? &found->second : nullptr;
}

TensorId with_positions_first(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x, std::int64_t width) {
  const Shape shape = {sizes.positions, sizes.samples, width};
  if (!sizes.samples_first) return lowering.view(x, shape);
  const TensorId copy = lowering.new_tensor(shape, op.type, op.phase);
  lowering.add(op, OpKind::copy, {x}, {copy});
  return copy;
}

void walk_layers(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x, TensorId result,
                 std::vector<TensorId>& kept,
                 const std::function<void(std::int64_t layer, std::int64_t way, TensorId x, TensorId y)>& direction) {
  const Shape both = sizes.result_of(sizes.directions);
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    const bool last = layer + 1 == sizes.layers;
    const auto made = [&](const Shape& shape) { return lowering.new_tensor(shape, op.type, op.phase); };
    std::vector<TensorId> results;
    for (std::int64_t way = 0; way < sizes.directions; ++way) {
      results.push_back(last && sizes.directions == 1 ? result : made(sizes.result_of(1)));
      direction(layer, way, x, results.back());
    }
    x = results[0];
    if (sizes.directions > 1) {
      x = last ? result : made(both);
      lowering.add(op, OpKind::cat, results, std::array{x});
    }
    if (last || !sizes.drops) continue;
    const TensorId mask = made(both), dropped = made(both);
    lowering.add(op, OpKind::bernoulli, {mask}, {mask});
    lowering.add(op, OpKind::div, {mask}, {mask});
    lowering.add(op, OpKind::mul, {x, mask}, {dropped});
    kept.push_back(mask);
    x = dropped;
  }
}

void walk_layers_back(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId g, std::vector<TensorId>& kept,
                      const std::function<TensorId(std::int64_t layer, std::int64_t way, TensorId g)>& direction,
                      const std::function<TensorId(std::int64_t layer, TensorId first, TensorId second)>& sum) {
  for (std::int64_t layer = sizes.layers - 1; layer >= 0; --layer) {
    if (layer + 1 < sizes.layers && sizes.drops) {
      const TensorId dropped = lowering.new_tensor(sizes.result_of(sizes.directions), op.type, op.phase);
      lowering.add(op, OpKind::mul, {g, take_last(kept)}, {dropped});
      g = dropped;
    }
    const TensorId first = direction(layer, sizes.directions - 1, g);
    g = sizes.directions == 1 ? first : sum(layer, first, direction(layer, 0, g));
  }
}

TensorId take_last(std::vector<TensorId>& tensors) {
  const TensorId id = tensors.back();
  tensors.pop_back();
  return id;
}

}  // namespace perfpred
