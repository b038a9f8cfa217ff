// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

namespace perfpred {

/// What a training step's network does in evaluation mode without gradients: its forward operators, without dropout and
/// stochastic depth; batch norm reads its running statistics and gives its result alone; nothing is written to buffers.
[[nodiscard]] OpGraph forward_pass(const OpGraph& step);

}  // namespace perfpred
