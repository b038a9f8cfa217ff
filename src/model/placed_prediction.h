// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <functional>

#include "catalogue/links.h"
#include "model/job_estimate.h"

namespace perfpred {

/// Predicts a job on several devices from what its ranks take alone.
/// @param rank     predicts the epoch of a rank, as if it had no others, and says its parts where they are asked for
/// @param devices  whose links it has
/// @throws InputError as `rank` and world_of(), for a cluster that no table of links has, and for layouts that are not
/// timed
[[nodiscard]] JobEstimate predict_placed(const Workload& workload, const Device& device, const DeviceCatalogue& devices,
                                         const std::function<JobEstimate(const Workload& rank, bool explains)>& rank,
                                         bool explains);

}  // namespace perfpred
