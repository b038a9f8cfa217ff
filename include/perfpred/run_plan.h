// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/knapsack_planner.h>
#include <perfpred/time_regressor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

enum class PlanValue { accuracy, throughput };

/// `sum` of the values; `best` single run; `cover_*`: the sum, with at least one run for each depth, or for each
/// (depth, base_filters), among the candidates.
enum class PlanObjective { sum, best, cover_depth, cover_architecture };

/// What one run of a candidate takes and is worth on one device.
struct PlanOption {
  Workload workload;
  double sec_per_epoch = 0;  ///< > 0
  double value = 0;          ///< >= 0
};

/// A run that may be planned: one option for each device, empty where nothing is known of it there.
using PlanCandidate = std::vector<std::optional<PlanOption>>;

/// Which measured rows are candidates.
struct PlanFilter {
  PlanValue value = PlanValue::accuracy;  ///< acc_mean (a row without is no candidate) or thr_mean
  std::optional<double> min_acc;          ///< a row without accuracy does not reach it
  std::vector<std::string> devices;       ///< rows of these pair by key without device; empty: all rows, one device
};

/// Candidates by measured times, in the order of the rows. Rows without a time are left out.
/// @throws InputError if a device has no row; Error, naming the best accuracy, if nothing reaches min_acc
[[nodiscard]] PERFPRED_API std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows,
                                                                          const PlanFilter& filter);

/// The same by a model's times: the median for each row's workload (on each device), whether the row has a time or not.
/// The throughput is that of the median. @throws as measured_candidates; as TimeRegressor::predict
[[nodiscard]] PERFPRED_API std::vector<PlanCandidate> predicted_candidates(std::span<const AggregateRow> rows,
                                                                           const PlanFilter& filter,
                                                                           const TimeRegressor& model);

/// For each device: logarithm of seconds per epoch of one run of each candidate, measurement noise and the chance of a
/// disturbed run included. @throws InputError if a candidate lacks a device
[[nodiscard]] PERFPRED_API std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates,
                                                                    const TimeRegressor& model);

struct PlanRequest {
  std::int64_t budget_sec = 0;  ///< of each device, >= 0
  std::int64_t epochs = 1;      ///< of each run, >= 1
  double startup_sec = 0;       ///< of each run, >= 0
  PlanObjective objective = PlanObjective::sum;
  std::vector<std::string> devices = {""};  ///< one name for each option of a candidate; "": the workload's own
  /// Probability that the budget is kept, by all devices together. Above 0.5 it needs `times`; see docs/planning.md.
  double confidence = 0.5;
  std::vector<JointPrediction> times;  ///< of the candidates: one for each device, or one for all if they are alike
  PlanLimits limits;                   ///< of the plan and of what lies near it, together
};

/// A run in its place: a row of the schedule.
struct PlannedRun {
  Workload workload;
  std::int64_t cost_sec = 0;  ///< max(1, round(sec_per_epoch * epochs + startup_sec)), ties to even
  double value = 0;
  std::string device;
  std::int64_t start_sec = 0;
};

/// A candidate that is not in the plan, and by how much the best plan with it falls short.
struct MissedRun {
  PlannedRun run;
  double loss = 0;  ///< >= 0, in units of the value; for several devices or a confidence an upper bound
};

/// The value of the best plan for another budget; for several devices, of the best one that a short search finds.
struct BudgetValue {
  std::int64_t budget_sec = 0;
  double value = 0;
  double value_per_minute = 0;  ///< gained over the plan, for each further minute
};

/// A plan for a time budget, with its proof and what lies near it.
struct RunPlan {
  bool optimal = false;
  std::size_t candidates = 0;
  std::int64_t cost_sec = 0;  ///< of all devices together
  std::int64_t budget_sec = 0;
  double value = 0;
  double upper_bound = 0;
  double confidence = 0.5;
  std::vector<PlannedRun> runs;       ///< by device, then by start
  std::vector<MissedRun> missed;      ///< at most five, least loss first; of an optimal plan
  std::vector<BudgetValue> marginal;  ///< larger budgets, ascending, until everything fits; of an optimal plan
};

/// The best set of candidates for the budget, assigned to devices, with start times.
/// @throws InputError if a number of the request or a candidate is out of range
/// @throws Error if no plan with a cover is found
[[nodiscard]] PERFPRED_API RunPlan plan_runs(std::span<const PlanCandidate> candidates, const PlanRequest& request);

/// Runs that no other beats in both cost and value, cheapest first. The budget plays no part.
[[nodiscard]] PERFPRED_API std::vector<PlannedRun> pareto_runs(std::span<const PlanCandidate> candidates,
                                                               const PlanRequest& request);

/// Writes a plan as a table: the columns of `items`, then the workload's other fields.
PERFPRED_API void write_plan(const std::string& path, const RunPlan& plan);

}  // namespace perfpred
