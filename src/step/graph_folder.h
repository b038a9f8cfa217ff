// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <string>

namespace perfpred {

/// The step file of a network in the folders of add_graphs(), read at the first call; nothing if none has it.
/// @throws InputError as StepFile does
[[nodiscard]] PERFPRED_API std::optional<StepFile> find_graph(const std::string& network);

/// Batches whose gradients a step accumulates: StepFile::batches() of a captured step whose file is known, else
/// Workload::accumulate.
[[nodiscard]] PERFPRED_API std::int64_t batches_per_step(const Workload& workload);

/// Of a sample that is a sequence, also of a captured step whose words are known; else 0.
[[nodiscard]] std::int64_t positions_of_sample(const Workload& workload);

}  // namespace perfpred
