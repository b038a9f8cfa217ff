// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <functional>

#include "catalogue/links.h"
#include "model/job_estimate.h"
#include "parallel/placed_step.h"
#include "workload/world.h"

namespace perfpred {

/// Predicts the epoch of a rank, as if it had no others, and says its parts where they are asked for.
using RankModel = std::function<JobEstimate(const Workload& rank, bool explains)>;

/// A job on several devices, by what one of its ranks does.
struct PlacedJob {
  World world;
  Links links;
  Workload rank;      ///< with one micro-batch
  JobEstimate alone;  ///< of that
  RankWork work;
  PlacedStep step;
};

/// @param devices  whose links it has
/// @throws InputError as `rank` and world_of(), for a cluster that no table of links has, and for layouts that are not
/// timed
[[nodiscard]] PlacedJob placed_job(const Workload& workload, const Device& device, const DeviceCatalogue& devices,
                                   const RankModel& rank, bool explains);

/// Predicts a job on several devices from what its ranks take alone. @throws InputError as placed_job()
[[nodiscard]] JobEstimate predict_placed(const Workload& workload, const Device& device, const DeviceCatalogue& devices,
                                         const RankModel& rank, bool explains);

}  // namespace perfpred
