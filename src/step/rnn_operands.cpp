// SPDX-License-Identifier: Apache-2.0
#include "step/rnn_operands.h"

#include <algorithm>

namespace perfpred {

RnnOperands rnn_operands(const OpGraph& step, const Op& op) {
  const auto in = step.inputs(op);
  if (in.empty()) return {};
  const auto state = std::find_if(in.begin() + 1, in.end(), [&](TensorId id) { return step.shape(id).rank() == 3; });
  const auto weights = in.subspan(1, static_cast<std::size_t>(state - in.begin()) - 1);
  const Shape& x = step.shape(in[0]);
  if (state == in.end() || weights.empty() || x.numel() == 0 || step.shape(weights[0]).rank() != 2) return {};
  RnnOperands rnn;
  rnn.weights = weights.size();
  rnn.samples = step.shape(*state)[1];
  if (rnn.samples < 1) return {};
  rnn.positions = x.numel() / x.back() / rnn.samples;
  const std::int64_t gate_rows = step.shape(weights[0])[0];
  bool of_state = false;
  for (const TensorId id : weights) {
    const Shape& weight = step.shape(id);
    if (weight.rank() != 2) continue;  // a bias
    if (!of_state && weight[0] != gate_rows && !rnn.directions.empty()) {
      rnn.directions.back().projected = weight[0];
      rnn.directions.back().hidden = weight[1];
    } else if (of_state) {
      rnn.directions.back().state = weight[1];
      of_state = false;
    } else {
      rnn.directions.push_back({gate_rows, weight[1]});
      of_state = true;
    }
  }
  return rnn;
}

}  // namespace perfpred
