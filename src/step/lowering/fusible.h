// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

namespace perfpred {

/// A norm of the last axes or a softmax: a compiler writes it anew, with what is computed before and after it.
[[nodiscard]] bool is_of_rows(OpKind kind);

/// A sum over a batch or an image, whose threads wait for each other as in the framework's own kernel.
[[nodiscard]] bool is_of_batch(const OpGraph& step, const Op& op);

/// Whether a compiler writes the operator itself, so that it may share a kernel with its neighbours.
[[nodiscard]] bool is_fusible(const OpGraph& step, const Op& op);

/// Elements of an operator's largest operand.
[[nodiscard]] std::int64_t largest_operand(const OpGraph& step, const Op& op);

}  // namespace perfpred
