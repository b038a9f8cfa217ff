// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/links.h"
#include "model/job_estimate.h"
#include "optime/timed_kernel.h"
#include "parallel/layout_runs.h"
#include "parallel/placed_step.h"
#include "step/job.h"
#include "workload/workload_hash.h"
#include "workload/world.h"

namespace perfpred {

/// What a rank takes as if it had no others.
struct RankModel {
  /// Of an epoch, with its parts where they are asked for.
  std::function<JobEstimate(const Job& rank, bool explains)> estimate;
  /// Of each kernel of a step, by the op model.
  std::function<std::vector<TimedKernel>(const Job& rank)> kernels;
  ByWorkload<double>& word_shares;  ///< PredictedSteps::word_shares
};

/// A job on several devices, by what one of its ranks does.
struct PlacedJob {
  World world;
  Links links;
  Job rank;           ///< with one micro-batch
  JobEstimate alone;  ///< of that
  RankWork work;
  ScalingRow row;  ///< what rows call it: cluster, network, precision, batch
  PlacedStep step;
};

/// What measured runs on several devices say.
struct PlacedRuns {
  ScalingModel replicas = ScalingModel::fit({}, {});
  LayoutRuns layouts;  ///< of ranks that split the network
};

/// @param runs  what measured ones say
/// @throws InputError as `rank` and world_of(), for a device that is not known, a cluster that no table of links has,
/// and for layouts that are not timed
[[nodiscard]] PlacedJob placed_job(const Job& job, const RankModel& rank, const PlacedRuns& runs, bool explains);

/// Predicts a job on several devices from what its ranks take alone, and from runs. @throws InputError as placed_job()
[[nodiscard]] JobEstimate predict_placed(const Job& job, const RankModel& rank, const PlacedRuns& runs, bool explains);

/// A measured run of a job on several devices.
struct PlacedRun {
  ScalingRow row;                   ///< of replicas, with its seconds
  std::optional<LayoutRun> layout;  ///< where the ranks split the network
  Links links;                      ///< of its cluster, as far as they are known
};

/// @param epoch_sec  measured
/// @throws InputError as placed_job()
[[nodiscard]] PlacedRun placed_run(const Job& job, double epoch_sec, const RankModel& rank);

/// What runs say together.
[[nodiscard]] PlacedRuns together(const std::vector<PlacedRun>& runs);

}  // namespace perfpred
