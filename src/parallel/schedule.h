// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

namespace perfpred {

/// A pipeline stage's forward or backward pass of one micro-batch through one of its chunks of layers.
struct StagePass {
  std::int64_t stage = 0, micro_batch = 0, chunk = 0;  ///< from 0
  bool forward = true;
  double begin_sec = 0;
};

/// When the stages of a pipeline compute what, each as soon as it can: 1F1B, with several chunks interleaved (Narayanan
/// et al. 2021, section 2.2), in the order of megatron/core/pipeline_parallel/schedules.py. One stage computes one
/// micro-batch after the other.
/// @param forward_sec, backward_sec  of a pass through a chunk, with the transfer to the next stage, >= 0
/// @returns the passes of each stage in its order, stage 0 first
[[nodiscard]] std::vector<StagePass> pipeline_schedule(std::int64_t stages, std::int64_t chunks,
                                                       std::int64_t micro_batches, double forward_sec,
                                                       double backward_sec);

}  // namespace perfpred
