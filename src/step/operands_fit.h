// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <span>

namespace perfpred {

/// Whether an operator of this kind has the operands that counting and timing it read.
[[nodiscard]] bool operands_fit(OpKind kind, const OpGraph& graph, std::span<const TensorId> in,
                                std::span<const TensorId> out);

}  // namespace perfpred
