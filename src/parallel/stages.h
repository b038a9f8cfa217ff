// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

namespace perfpred {

/// Micro-batches whose activations a pipeline stage holds when its first backward pass begins, for each of its chunks
/// of layers, which is when it holds the most.
///
/// One chunk: 1F1B, min(stages - stage, micro-batches) (Narayanan et al. 2021, section 2.2.1). Several: the interleaved
/// schedule of section 2.2.2, in which the stage warms up with 2 (stages - 1 - stage) + (chunks - 1) G forward passes
/// of chunks, G at a time of each, as forward_backward_pipelining_with_interleaving of megatron/core/pipeline_parallel/
/// schedules.py has it. G is the number of stages; if the micro-batches are no multiple of it, all of them.
/// @param stage  0 is the first
[[nodiscard]] std::vector<std::int64_t> in_flight(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                                  std::int64_t micro_batches);

}  // namespace perfpred
