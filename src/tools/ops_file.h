// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <string>

namespace perfpred {

/// Writes the operators in the order of execution as CSV: phase, op, layer, type, shapes of what it reads and writes
/// ("-" for an output that was not requested, "1" for a scalar), FLOPs, bytes.
/// @throws InputError if the file cannot be made, Error if writing fails
void write_ops(const OpGraph& step, const std::string& path);

}  // namespace perfpred
