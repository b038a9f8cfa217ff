// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "step/job.h"
#include "step/program.h"
#include "workload/world.h"

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

/// Of a step that accumulates so many batches. @throws InputError for more than can be counted
[[nodiscard]] inline std::int64_t samples_of(std::int64_t batch_size, std::int64_t batches) {
  const std::int64_t samples = Shape::product(std::array{batch_size, batches});
  if (samples <= Shape::max_numel) return samples;
  throw InputError(fmt::format("accumulate {} is too large for batches of {} samples", batches, batch_size));
}

/// @throws InputError as samples_of(); a valid workload of the zoo has no such step
[[nodiscard]] inline std::int64_t samples_per_step(const Workload& workload, const Program& program) {
  return samples_of(samples_of(workload.batch_size, program.batches(workload)), replicas_of(workload));
}
[[nodiscard]] inline std::int64_t samples_per_step(const Job& job) {
  return samples_per_step(job.workload(), job.program());
}
[[nodiscard]] inline std::int64_t samples_per_step(const Workload& workload) {  // one that no job holds
  return samples_per_step(workload, Program(workload.network));
}

/// @throws InputError as samples_per_step()
[[nodiscard]] inline EpochSteps epoch_steps(const Workload& workload, const Program& program) {
  const std::int64_t samples = samples_per_step(workload, program);
  return {samples, workload.train_images / samples, workload.train_images % samples};
}
[[nodiscard]] inline EpochSteps epoch_steps(const Job& job) { return epoch_steps(job.workload(), job.program()); }
[[nodiscard]] inline EpochSteps epoch_steps(const Workload& workload) {
  return epoch_steps(workload, Program(workload.network));
}

}  // namespace perfpred
