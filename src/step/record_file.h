// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include "network/records.h"

namespace perfpred {

/// The operators of one training step of a network that was recorded, with the update of the workload's optimizer. Of
/// fp16 it has those of bf16 with the other type, and the gradient scaler.
/// @throws InputError for an input, precision or other field that was not recorded, and for a file that is cut off,
/// damaged or of another format
[[nodiscard]] OpGraph recorded_step(const Record& record, const Workload& training);

}  // namespace perfpred
