// SPDX-License-Identifier: Apache-2.0
#include <perfpred/run_plan.h>

#include <utility>

#include "plan/plan_candidates.h"
#include "text/csv.h"
#include "text/files.h"
#include "workload/workload_columns.h"

namespace perfpred {

namespace {

/// @param candidates  each has one option where devices have no name; it becomes the option of every device
RunPlan plan_on_devices(std::vector<PlanCandidate> candidates, TimedRequest request) {
  const std::size_t devices = request.devices.size();
  const bool alike = request.devices.front().name.empty();
  for (std::size_t d = 0; d < devices; ++d) {
    std::string& name = request.devices[d].name;
    name = alike && devices > 1 ? "gpu" + std::to_string(d) : "";  // options know the full names of named devices
  }
  if (alike) {
    for (PlanCandidate& candidate : candidates) candidate.resize(devices, candidate.front());
  }
  return plan_candidates(candidates, request);
}

}  // namespace

RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request) {
  check(request);
  return plan_on_devices(measured_candidates(rows, request), {request});
}

RunPlan plan_runs(std::span<const AggregateRow> rows, const PlanRequest& request, const TimeRegressor& model) {
  check(request);
  std::vector<PlanCandidate> candidates = predicted_candidates(rows, request, model);
  TimedRequest timed = {request};
  if (request.confidence > 0.5) timed.times = joint_times(candidates, model);
  return plan_on_devices(std::move(candidates), std::move(timed));
}

void write_plan(const std::string& path, const RunPlan& plan) {
  std::vector<std::string> fields = {"key", "cost_sec", "value", "device", "start_sec"};
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.name != "device") fields.emplace_back(column.name);
  }
  AtomicFile file(path);
  file.write(csv_line(fields));
  for (const PlannedRun& run : plan.runs) {
    fields = {run.workload.key(), std::to_string(run.cost_sec), number_text(run.value), run.device,
              std::to_string(run.start_sec)};
    for (const WorkloadColumn& column : workload_columns()) {
      if (column.name != "device") fields.push_back(column.get(run.workload));
    }
    file.write(csv_line(fields));
  }
  file.commit();
}

}  // namespace perfpred
