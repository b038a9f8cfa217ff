// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/forecast.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "step/job.h"

namespace perfpred {

/// What a job takes of its device's memory, and how large its batch may be: of Forecast the fields of these names.
struct JobLimits {
  std::optional<MemoryEstimate> memory;
  std::optional<std::int64_t> usable_bytes;
  std::optional<MemoryVerdict> verdict;
  std::optional<std::int64_t> largest_batch;
  std::string largest_batch_unknown;  ///< why it is not known where it was asked for; empty if it is
  std::optional<Rank> rank;

  /// What follows from `memory`.
  /// @param largest  the largest batch that fits; empty: not asked for
  void judge(const Device& device, std::int64_t reserved_by_others,
             const std::function<std::optional<std::int64_t>()>& largest);
};

/// @param reserved_by_others  bytes of the device's memory
/// @param find_largest_batch  of a job on one device
/// @throws InputError as Workload::graph()
[[nodiscard]] JobLimits job_limits(const Workload& workload, const Device& device, std::int64_t reserved_by_others,
                                   bool find_largest_batch);

/// forecast() of a job. @throws InputError as that
[[nodiscard]] Forecast forecast(const TimeRegressor& model, const Job& job, const JobTerms& terms);

}  // namespace perfpred
