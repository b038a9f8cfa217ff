// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/device.h>
#include <perfpred/knapsack_planner.h>
#include <perfpred/prediction.h>
#include <perfpred/time_regressor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// What a run is worth.
enum class PlanValue { accuracy, throughput };

/// `sum`: the sum of the values. `best`: one run, the most valuable. `cover_depth`, `cover_architecture`: the sum, with
/// at least one run of each depth, or of each (depth, base_filters), that the candidates have.
enum class PlanObjective { sum, best, cover_depth, cover_architecture };

/// One run of a candidate on one device.
struct PlanOption {
  Workload workload;
  double sec_per_epoch = 0;                        ///< > 0
  double value = 0;                                ///< >= 0
  DomainViolation reason = DomainViolation::none;  ///< why the predicted time is outside the model's domain
};

/// A run that may be planned: one option for each device, empty where the run cannot go.
using PlanCandidate = std::vector<std::optional<PlanOption>>;

/// Which rows become candidates.
struct PlanFilter {
  PlanValue value = PlanValue::accuracy;  ///< rows without acc_mean have no accuracy and are left out
  std::optional<double> min_acc;          ///< rows below it, and rows without an accuracy, are left out
  /// Names or aliases. Rows of these devices that differ in the device only become one candidate. Empty: every row is
  /// a candidate, for one device.
  std::vector<std::string> devices;
  DeviceCatalogue catalogue;  ///< resolves names of devices that are neither in the rows nor in the model
};

/// Candidates by measured times, in the order of the rows. Rows without a time are left out.
/// @throws InputError if there is no row, or none of a device; Error, naming the best accuracy, if no row reaches
/// min_acc
[[nodiscard]] PERFPRED_API std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows,
                                                                          const PlanFilter& filter);

/// Candidates by a model's median times: one for each row's workload, on each device of the filter, whether the row has
/// a time or not. The throughput is that of the median.
/// @throws InputError if there is no row, or if a device is neither in the rows, nor in the model, nor in the
/// catalogue; Error as measured_candidates; as TimeRegressor::predict
[[nodiscard]] PERFPRED_API std::vector<PlanCandidate> predicted_candidates(std::span<const AggregateRow> rows,
                                                                           const PlanFilter& filter,
                                                                           const TimeRegressor& model);

/// For each device: the joint distribution of log seconds per epoch, one entry per candidate, including measurement
/// noise and the probability that a run is disturbed.
/// @throws InputError if a candidate has no option for a device
[[nodiscard]] PERFPRED_API std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates,
                                                                    const TimeRegressor& model);

/// A device and the time that it may be used.
struct PlanDevice {
  std::string name;             ///< for the schedule; empty: the workload's own device
  std::int64_t budget_sec = 0;  ///< >= 0
};

struct PlanRequest {
  std::vector<PlanDevice> devices;  ///< at least one; device d runs option d of a candidate
  std::int64_t epochs = 1;          ///< of each run, >= 1
  double startup_sec = 0;           ///< of each run, >= 0
  PlanObjective objective = PlanObjective::sum;
  /// Probability, at least 0.5, that all devices together keep their budgets. Above 0.5 it needs `times`.
  double confidence = 0.5;
  /// Times of the candidates as joint_times() gives them: one entry for each device, or one for all devices if every
  /// candidate has the same seconds and value on each.
  std::vector<JointPrediction> times;
  PlanLimits limits;  ///< for the plan, the missed runs and the larger budgets together
};

/// A run in the schedule.
struct PlannedRun {
  Workload workload;
  std::int64_t cost_sec = 0;  ///< max(1, round(sec_per_epoch * epochs + startup_sec)), ties to even
  double value = 0;
  std::string device;
  std::int64_t start_sec = 0;
  DomainViolation reason = DomainViolation::none;  ///< as that of the option
  /// Of a run that is not in the plan: how much less the best plan that contains it is worth, >= 0; an upper bound for
  /// several devices or a confidence.
  double loss = 0;
};

/// The value of the best plan if every device had more time; with several devices, of the best plan of a short search.
struct LargerBudget {
  std::int64_t extra_sec = 0;  ///< added to the budget of each device, > 0
  double value = 0;
  double value_per_minute = 0;  ///< value gained for each extra minute
};

/// Which runs to do, where and when, and what lies near that plan.
struct RunPlan {
  PlanStatus status = PlanStatus::unknown;
  std::size_t candidates = 0;
  std::int64_t cost_sec = 0;   ///< of all devices together
  std::int64_t cover_sec = 0;  ///< what the cheapest run of each kind takes together; 0 unless the objective is a cover
  double value = 0;
  double upper_bound = 0;              ///< no plan is worth more; equals value if optimal
  std::vector<PlannedRun> runs;        ///< by device, then by start
  std::vector<PlannedRun> missed;      ///< candidates not in the plan: at most five, least loss first; only if optimal
  std::vector<LargerBudget> marginal;  ///< ascending, until all candidates fit; only if optimal
};

/// The best set of candidates for the budgets, assigned to devices, with start times.
/// @throws InputError if a number of the request or a candidate is out of range, if sizes differ, or if the objective
/// is a cover and no candidate has a depth
[[nodiscard]] PERFPRED_API RunPlan plan_runs(std::span<const PlanCandidate> candidates, const PlanRequest& request);

/// The Pareto front: the runs for which no other costs as little and is worth as much. Cheapest first, whatever the
/// budget. @throws as plan_runs
[[nodiscard]] PERFPRED_API std::vector<PlannedRun> pareto_runs(std::span<const PlanCandidate> candidates,
                                                               const PlanRequest& request);

/// Writes the runs as CSV: key, cost_sec, value, device, start_sec, then the workload's other columns.
/// @throws Error if the file cannot be written
PERFPRED_API void write_plan(const std::string& path, const RunPlan& plan);

}  // namespace perfpred
