// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/device.h>
#include <perfpred/knapsack_planner.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/prediction.h>
#include <perfpred/time_regressor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// What a run is worth; `own`: what its job says.
enum class PlanValue { accuracy, throughput, own };

/// `sum`: the sum of the values. `best`: one run, the most valuable. `cover_depth`, `cover_architecture`: the sum, with
/// at least one run of each depth, or of each (depth, base_filters), that the candidates have.
enum class PlanObjective { sum, best, cover_depth, cover_architecture };

/// A device and the time that it may be used.
struct PlanDevice {
  /// A name or an alias: runs of other devices may go there. Empty: a run stays on the kind of device that its row has;
  /// several of these are called gpu0, gpu1, ...
  std::string name = {};
  std::int64_t budget_sec = 0;     ///< >= 0; from the begin of the plan, by when the last run ends
  std::int64_t free_from_sec = 0;  ///< >= 0; no run begins before it
};

struct PlanRequest {
  PlanValue value = PlanValue::accuracy;  ///< rows without it are left out
  std::optional<double> min_acc = {};     ///< rows below it, and rows without an accuracy, are left out
  std::vector<PlanDevice> devices = {};   ///< at least one; all of them have a name, or none
  DeviceCatalogue catalogue = {};         ///< resolves names of devices that are neither in the rows nor in the model
  std::int64_t epochs = 1;                ///< of each run that does not say its own, >= 1
  double startup_sec = 0;                 ///< of each run, >= 0
  PlanObjective objective = PlanObjective::sum;
  /// Probability, at least 0.5, that all devices together keep their budgets. Above 0.5 it needs a model.
  double confidence = 0.5;
  /// Whether runs may go to devices whose memory, by the model's forecast, does not hold them.
  bool ignore_memory = false;
  /// Of devices by name, >= 0: plans of one value that end at the same time are told apart by their price. Empty, or
  /// without a device of a run: by the seconds of all devices together.
  std::map<std::string, double, std::less<>> price_per_hour = {};
  PlanLimits limits = {};  ///< for the plan, the missed runs and the larger budgets together
};

/// A row of a queue of jobs.
struct QueuedJob {
  AggregateRow row;
  std::string id = {};                      ///< its user's name for it
  std::optional<std::int64_t> epochs = {};  ///< of this run, >= 1; empty: the request's
  std::optional<double> value = {};         ///< >= 0, for PlanValue::own; jobs without are left out
  /// Seconds from the begin of the plan, >= 0: the run begins not before, and ends not after. With a confidence above
  /// 0.5, or a cover as objective, they are refused.
  std::optional<std::int64_t> earliest_sec = {}, deadline_sec = {};
};

/// A run in the schedule.
struct PlannedRun {
  Workload workload;
  std::string id = {};        ///< of its job
  std::int64_t epochs = 1;    ///< of this run
  std::int64_t cost_sec = 0;  ///< max(1, round(sec_per_epoch * epochs + startup_sec)), ties to even
  double value = 0;
  std::string device;            ///< two devices of one name are told apart by the index
  std::size_t device_index = 0;  ///< into PlanRequest::devices
  std::int64_t start_sec = 0;
  std::optional<std::int64_t> earliest_sec = {}, deadline_sec = {};  ///< of its job
  std::optional<MemoryVerdict> verdict = {};                         ///< of a predicted time; empty if it is not known
  DomainViolation reason = DomainViolation::none;  ///< why a predicted time is outside the model's domain
  std::optional<Provenance> provenance = {};       ///< of a predicted time
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

/// A row that cannot run on a device of the request, or on none.
struct RowLeftOut {
  std::string key;  ///< of its workload
  std::string reason;
  std::string device = {};  ///< that alone cannot run it; empty: none can, the reason is that of the first
};

/// Which runs to do, where and when, and what lies near that plan.
struct RunPlan {
  PlanStatus status = PlanStatus::unknown;
  std::size_t candidates = 0;
  std::int64_t cost_sec = 0;   ///< of all devices together
  std::int64_t cover_sec = 0;  ///< what the cheapest run of each kind takes together; 0 unless the objective is a cover
  double value = 0;
  double upper_bound = 0;         ///< no plan is worth more; equals value if optimal
  std::int64_t makespan_sec = 0;  ///< when the last run ends; 0 without a run
  /// No plan that is worth as much ends sooner; equals makespan_sec if that is proved. With a confidence 0.
  std::int64_t makespan_lower_bound_sec = 0;
  double cost = 0;  ///< in the unit of PlanRequest::price_per_hour; without prices cost_sec
  /// No plan that is worth as much and ends as soon costs less, in that unit; equals cost if that is proved. Empty if
  /// nothing is known.
  std::optional<double> cost_lower_bound = {};
  std::vector<PlannedRun> runs;        ///< by device, then by start
  std::vector<PlannedRun> missed;      ///< candidates not in the plan: at most five, least loss first; only if optimal
  std::vector<LargerBudget> marginal;  ///< ascending, until all candidates fit; only if optimal and not all are planned
  /// The Pareto front: candidates for which no other costs as little and is worth as much. Cheapest first, whatever
  /// the budget.
  std::vector<PlannedRun> pareto;
  std::vector<std::string> fields;   ///< of a workload, in which candidates differ
  std::vector<RowLeftOut> left_out;  ///< rows that the model cannot predict, or whose memory a device does not hold
  /// Names of the request's devices, a repeated one with its number: `T4 #2`; empty for the only one without a name.
  std::vector<std::string> devices;
};

/// The best set of runs for the budgets, assigned to devices, with start times. Of plans of one value it is the first
/// to end, then the cheapest, as far as it is found; with a confidence, any. Times are measured: rows without one are
/// left out, and a run may go to the devices that it was measured on. Rows that differ in the device only, and in its
/// threads, are one candidate where the devices have names, else every row is one.
/// @throws InputError if a number of the request or a row is out of range; if no row has a time; if a named device
///                    has none; if no row has the value; if the objective is a cover and no candidate has a depth.
///                    Error, naming the best accuracy, if no row reaches min_acc
[[nodiscard]] PERFPRED_API RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request);

/// The same by a model's median times, whether the rows have times or not; every run may go to every device that the
/// model predicts it for and whose memory holds it. A row whose workload does not know its epoch is left out. A
/// throughput is that of the median. With a confidence, the joint distribution of the times counts, the noise of single
/// runs and the chance of disturbed ones included.
/// @throws as above; as TimeRegressor::predict if no row can be predicted; InputError if a device is neither in the
///         rows, nor in the model, nor in the catalogue
[[nodiscard]] PERFPRED_API RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request,
                                             const TimeRegressor& model);

/// The same of a queue: equal rows are as many jobs. Rows that differ in the device only, and in its threads, are one
/// job if they have the same id, epochs, value, earliest time and deadline. Of one device whose jobs are sorted by
/// earliest time when they are sorted by deadline, the plan is exact; else it is a plan and an upper bound, proved
/// where they are few.
/// @throws as plan_runs(); InputError if a job's epochs, value or times are out of range, or if a job has a time and
/// the
///         request a confidence or a cover
[[nodiscard]] PERFPRED_API RunPlan plan_jobs(std::span<const QueuedJob> jobs, const PlanRequest& request);
[[nodiscard]] PERFPRED_API RunPlan plan_jobs(std::span<const QueuedJob> jobs, const PlanRequest& request,
                                             const TimeRegressor& model);

/// Writes the runs as CSV: key, cost_sec, value, device, start_sec, then the workload's other columns, then end_sec,
/// device_index, id and verdict.
/// @throws as write_aggregate() does
PERFPRED_API void write_plan(const std::string& path, const RunPlan& plan);

}  // namespace perfpred
