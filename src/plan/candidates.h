// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run_plan.h>

#include <optional>
#include <span>
#include <vector>

namespace perfpred {

/// One run of a candidate on one device.
struct PlanOption {
  Workload workload;
  double sec_per_epoch = 0;                        ///< > 0
  double value = 0;                                ///< >= 0
  DomainViolation reason = DomainViolation::none;  ///< why the predicted time is outside the model's domain
};

/// A run that may be planned: one option for each device of the request, empty where the run cannot go. Devices without
/// a name share one option until the plan is made.
using PlanCandidate = std::vector<std::optional<PlanOption>>;

/// Candidates by measured times, in the order of the rows. @throws as plan_runs
[[nodiscard]] std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows,
                                                             const PlanRequest& request);

/// Candidates by a model's median times. @throws as plan_runs
[[nodiscard]] std::vector<PlanCandidate> predicted_candidates(std::span<const AggregateRow> rows,
                                                              const PlanRequest& request, const TimeRegressor& model);

/// For each option of predicted candidates: the joint distribution of log seconds per epoch, one entry per candidate,
/// including measurement noise and the probability that a run is disturbed.
[[nodiscard]] std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates,
                                                       const TimeRegressor& model);

}  // namespace perfpred
