// SPDX-License-Identifier: Apache-2.0
#include <perfpred/run_plan.h>

#include <algorithm>

#include "plan/plan_problem.h"
#include "text/csv.h"
#include "text/files.h"
#include "workload/workload_columns.h"
#include "workload/workload_labels.h"

namespace perfpred {

namespace {

RunPlan plan_of(const PlanProblem& problem) {
  RunPlan plan = solve(problem);
  std::vector<Workload> workloads;
  for (const PlanCandidate& candidate : problem.candidates) {
    const auto run = std::find_if(candidate.begin(), candidate.end(), [](const auto& one) { return one.has_value(); });
    if (run != candidate.end()) workloads.push_back((*run)->workload);
  }
  for (const WorkloadColumn* field : differing_fields(workloads, {})) plan.fields.emplace_back(field->name);
  return plan;
}

}  // namespace

RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request) {
  return plan_of(to_problem(rows, request, nullptr));
}

RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request, const TimeRegressor& model) {
  return plan_of(to_problem(rows, request, &model));
}

RunPlan plan_jobs(std::span<const QueuedJob> jobs, const PlanRequest& request) {
  return plan_of(to_problem(jobs, false, request, nullptr));
}

RunPlan plan_jobs(std::span<const QueuedJob> jobs, const PlanRequest& request, const TimeRegressor& model) {
  return plan_of(to_problem(jobs, false, request, &model));
}

void write_plan(const std::string& path, const RunPlan& plan) {
  std::vector<std::string> fields = {"key", "cost_sec", "value", "device", "start_sec"};
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.name != "device") fields.emplace_back(column.name);
  }
  fields.insert(fields.end(), {"end_sec", "device_index", "id", "verdict"});
  AtomicFile file(path);
  file.write(csv_line(fields));
  for (const PlannedRun& run : plan.runs) {
    fields = {run.workload.key(), std::to_string(run.cost_sec), number_text(run.value), run.device,
              std::to_string(run.start_sec)};
    for (const WorkloadColumn& column : workload_columns()) {
      if (column.name != "device") fields.push_back(column.get(run.workload));
    }
    fields.insert(fields.end(), {std::to_string(run.start_sec + run.cost_sec), std::to_string(run.device_index), run.id,
                                 std::string(run.verdict ? to_string(*run.verdict) : std::string_view())});
    file.write(csv_line(fields));
  }
  file.commit();
}

}  // namespace perfpred
