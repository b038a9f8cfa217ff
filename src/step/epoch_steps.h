// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>

#include "step/graph_folder.h"

namespace perfpred {

/// Beside so many full steps the last, smaller one takes less than 1 % of the epoch: it counts by its share of the
/// samples.
inline constexpr std::int64_t steps_that_hide_the_last = 100;

/// The steps of an epoch: full ones, and a last one of the samples that are left.
struct EpochSteps {
  std::int64_t samples;     ///< of a full step
  std::int64_t full, rest;  ///< full steps; samples of the last, smaller one

  [[nodiscard]] bool hide_the_last() const { return full >= steps_that_hide_the_last; }
  [[nodiscard]] double by_samples() const {
    return static_cast<double>(full) + static_cast<double>(rest) / static_cast<double>(samples);
  }
};

[[nodiscard]] inline EpochSteps epoch_steps(const Workload& workload) {
  const std::int64_t samples = workload.batch_size * batches_per_step(workload);
  return {samples, workload.train_images / samples, workload.train_images % samples};
}

}  // namespace perfpred
