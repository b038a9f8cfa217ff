// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>
#include <vector>

namespace perfpred {

/// The weights of a layer in one direction of a recurrent operator.
struct RnnDirection {
  std::int64_t gate_rows = 0;  ///< gates x hidden units
  std::int64_t inputs = 0;     ///< columns of the input's weight
  std::int64_t state = 0;      ///< columns of the state's weight
  std::int64_t projected = 0;  ///< rows of the weight that projects the hidden units to the state; 0: there is none
  std::int64_t hidden = 0;     ///< its columns
};

/// What an operator `rnn` or `rnn_backward` works on: x, the weights of each layer and direction, the first states.
struct RnnOperands {
  std::int64_t samples = 0, positions = 0;
  std::size_t weights = 0;               ///< tensors of weights and biases, which follow x
  std::vector<RnnDirection> directions;  ///< layer by layer; empty for operands of another form
};

[[nodiscard]] RnnOperands rnn_operands(const OpGraph& step, const Op& op);

}  // namespace perfpred
