#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/run_plan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "atomic_file.h"
#include "csv.h"
#include "plan_solver.h"
#include "workload_columns.h"

namespace perfpred {
namespace {

/// max(1, round(seconds)), ties to even; what no budget can hold becomes the largest cost there is.
std::int64_t whole_seconds(double seconds) {
  const double rounded = std::nearbyint(seconds);
  constexpr double too_long = 9.2e18;
  if (rounded >= too_long) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rounded));
}

std::int64_t cost_of(const PlanOption& option, const PlanRequest& request) {
  return whole_seconds(option.sec_per_epoch * static_cast<double>(request.epochs) + request.startup_sec);
}

PlannedRun planned(const PlanOption& option, std::size_t device, const PlanRequest& request) {
  const std::string& name = request.devices[device];
  return {option.workload, cost_of(option, request), option.value, name.empty() ? option.workload.device : name, 0};
}

void check(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  if (request.budget_sec < 0) throw InputError(fmt::format("budget {} s is negative", request.budget_sec));
  if (request.epochs < 1) throw InputError(fmt::format("{} epochs are not a positive number", request.epochs));
  if (!(request.startup_sec >= 0) || std::isinf(request.startup_sec)) {
    throw InputError(fmt::format("start-up of {} s is not a number >= 0", request.startup_sec));
  }
  if (!(request.confidence > 0 && request.confidence < 1)) {
    throw InputError(fmt::format("confidence {} is not between 0 and 1", request.confidence));
  }
  const bool covers =
      request.objective == PlanObjective::cover_depth || request.objective == PlanObjective::cover_architecture;
  if (covers && request.devices.size() > 1) throw InputError("a cover is planned for one device only");
  if (request.devices.empty()) throw InputError("a plan needs a device");
  for (const PlanCandidate& candidate : candidates) {
    if (candidate.size() != request.devices.size()) throw InputError("a candidate needs one option for each device");
    for (const auto& option : candidate) {
      if (!option) continue;
      if (!(option->sec_per_epoch > 0) || std::isinf(option->sec_per_epoch)) {
        throw InputError(
            fmt::format("{}: {} s an epoch is not a positive number", option->workload.key(), option->sec_per_epoch));
      }
      if (!(option->value >= 0) || std::isinf(option->value)) {
        throw InputError(fmt::format("{}: value {} is not a number >= 0", option->workload.key(), option->value));
      }
    }
  }
}

AssignmentProblem to_problem(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  AssignmentProblem problem;
  problem.budgets.assign(request.devices.size(), request.budget_sec);
  problem.group.resize(candidates.size());
  problem.jobs.reserve(candidates.size());
  std::map<std::pair<std::optional<int>, std::optional<int>>, std::size_t> groups;
  for (std::size_t j = 0; j < candidates.size(); ++j) {
    const PlanCandidate& candidate = candidates[j];
    PlanJob& job = problem.jobs.emplace_back(candidate.size());
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (!candidate[d]) continue;
      job[d] = PlanItem{cost_of(*candidate[d], request), candidate[d]->value};
      const Workload& workload = candidate[d]->workload;
      if (request.objective == PlanObjective::cover_depth && workload.depth) {
        problem.group[j] = groups.emplace(std::pair(workload.depth, std::optional<int>()), groups.size()).first->second;
      } else if (request.objective == PlanObjective::cover_architecture && workload.depth) {
        problem.group[j] =
            groups.emplace(std::pair(workload.depth, workload.base_filters), groups.size()).first->second;
      }
    }
  }
  return problem;
}

/// The one run of the highest value, the cheapest of several.
Assignment assign_best(const AssignmentProblem& problem) {
  const std::vector<PlanJob>& jobs = problem.jobs;
  Assignment best;
  best.device.resize(jobs.size());
  best.optimal = true;
  std::optional<std::pair<std::size_t, std::size_t>> place;
  std::int64_t cost = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t d = 0; d < jobs[j].size(); ++d) {
      const auto& item = jobs[j][d];
      if (!item || item->cost > problem.budgets[d] || !(item->value > 0)) continue;
      if (place && (item->value < best.value || (item->value == best.value && item->cost >= cost))) continue;
      place = {j, d};
      best.value = item->value;
      cost = item->cost;
    }
  }
  if (place) best.device[place->first] = place->second;
  best.upper_bound = best.value;
  return best;
}

/// Nodes of each search that only explains a plan.
constexpr std::int64_t few_nodes = 20'000;

/// The value of the best plan that holds this job on this device.
double value_with(AssignmentProblem problem, std::size_t job, std::size_t device, const PlanRequest& request) {
  const PlanItem item = *problem.jobs[job][device];
  if (request.objective == PlanObjective::best) return item.value;
  problem.budgets[device] -= item.cost;
  problem.jobs[job].assign(problem.budgets.size(), std::nullopt);
  if (const auto covered = problem.group[job]) {
    for (auto& group : problem.group) {
      if (group == covered) group.reset();
    }
  }
  if (least_cover(problem) > problem.budgets[device]) return 0;
  return item.value + assign(problem, request.limits, few_nodes).value;
}

std::int64_t everything(std::span<const PlanJob> jobs) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t total = 0;
  for (const PlanJob& job : jobs) {
    std::int64_t cost = 0;
    for (const auto& item : job) cost = std::max(cost, item ? item->cost : 0);
    if (cost > most - total) return most;
    total += cost;
  }
  return total;
}

/// What larger budgets would buy: some per cent more each, until every candidate fits.
std::vector<BudgetValue> larger_budgets(AssignmentProblem problem, const RunPlan& plan, const PlanRequest& request) {
  std::vector<BudgetValue> values;
  const std::int64_t enough = everything(problem.jobs);
  for (const double factor : {1.05, 1.1, 1.25, 1.5, 2.0}) {
    if (plan.budget_sec >= enough) break;
    const auto budget = std::min(enough, whole_seconds(static_cast<double>(plan.budget_sec) * factor));
    if (budget <= (values.empty() ? plan.budget_sec : values.back().budget_sec)) continue;
    problem.budgets.assign(problem.budgets.size(), budget);
    const double value = request.objective == PlanObjective::best
                             ? assign_best(problem).value
                             : assign(problem, request.limits, few_nodes).value;
    values.push_back({budget, value, 60 * (value - plan.value) / static_cast<double>(budget - plan.budget_sec)});
    if (budget == enough) break;
  }
  return values;
}

/// Candidates that the plan lacks, by what it would lose with them in it. Dantzig's ratio picks those worth solving for.
std::vector<MissedRun> just_missed(std::span<const PlanCandidate> candidates, const AssignmentProblem& problem,
                                   const Assignment& best, const PlanRequest& request) {
  const std::vector<PlanJob>& jobs = problem.jobs;
  constexpr std::size_t shown = 5;
  constexpr std::size_t solved = 40;
  struct Left {
    std::size_t job;
    std::size_t device;
    double ratio;
  };
  std::vector<Left> left;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (best.device[j]) continue;
    std::optional<Left> option;
    for (std::size_t d = 0; d < jobs[j].size(); ++d) {
      const auto& item = jobs[j][d];
      if (!item || item->cost > request.budget_sec || !(item->value > 0)) continue;
      const double ratio = item->value / static_cast<double>(item->cost);
      if (!option || ratio > option->ratio) option = Left{j, d, ratio};
    }
    if (option) left.push_back(*option);
  }
  std::stable_sort(left.begin(), left.end(), [](const Left& a, const Left& b) { return a.ratio > b.ratio; });
  if (left.size() > solved) left.resize(solved);
  std::vector<MissedRun> missed;
  for (const Left& run : left) {
    const double with = value_with(problem, run.job, run.device, request);
    missed.push_back({planned(*candidates[run.job][run.device], run.device, request), std::max(0.0, best.value - with)});
  }
  std::stable_sort(missed.begin(), missed.end(), [](const MissedRun& a, const MissedRun& b) { return a.loss < b.loss; });
  if (missed.size() > shown) missed.resize(shown);
  return missed;
}

}  // namespace

std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows, const PlanFilter& filter) {
  if (rows.empty()) throw InputError("there is no row to plan with");
  const std::size_t devices = std::max<std::size_t>(1, filter.devices.size());
  std::vector<PlanCandidate> candidates;
  std::map<std::string, std::size_t> place;  // by key without device
  std::vector<bool> seen(devices);
  std::optional<double> best_acc;
  for (const AggregateRow& row : rows) {
    std::vector<std::size_t> on;
    if (filter.devices.empty()) on.push_back(0);
    for (std::size_t d = 0; d < filter.devices.size(); ++d) {
      if (filter.devices[d] == row.workload.device) on.push_back(d);
    }
    for (const std::size_t d : on) seen[d] = true;
    if (on.empty() || !row.avg_time_mean) continue;
    if (row.acc_mean) best_acc = std::max(best_acc.value_or(0), *row.acc_mean);
    if (filter.min_acc && !(row.acc_mean && *row.acc_mean >= *filter.min_acc)) continue;
    const std::optional<double> value = filter.value == PlanValue::accuracy ? row.acc_mean : row.thr_mean;
    if (!value) continue;
    std::size_t index = candidates.size();
    if (!filter.devices.empty()) {
      Workload anywhere = row.workload;
      anywhere.device.clear();
      index = place.emplace(anywhere.key(), index).first->second;
    }
    if (index == candidates.size()) candidates.emplace_back(devices);
    for (const std::size_t d : on) candidates[index][d] = PlanOption{row.workload, *row.avg_time_mean, *value};
  }
  for (std::size_t d = 0; d < filter.devices.size(); ++d) {
    if (!seen[d]) throw InputError(fmt::format("no row is of device \"{}\"", filter.devices[d]));
  }
  if (filter.min_acc && candidates.empty()) {
    throw Error(best_acc ? fmt::format("no run reaches an accuracy of {}; the best has {}", *filter.min_acc, *best_acc)
                         : fmt::format("no run reaches an accuracy of {}: none has one", *filter.min_acc));
  }
  return candidates;
}

RunPlan plan_runs(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  check(candidates, request);
  const AssignmentProblem problem = to_problem(candidates, request);
  if (const std::int64_t least = least_cover(problem); least > request.budget_sec) {
    throw Error(fmt::format("a run of each kind takes at least {} s; the budget is {} s", least, request.budget_sec));
  }
  const Assignment best =
      request.objective == PlanObjective::best ? assign_best(problem) : assign(problem, request.limits);
  RunPlan plan;
  plan.optimal = best.optimal;
  plan.candidates = candidates.size();
  plan.budget_sec = request.budget_sec;
  plan.value = best.value;
  plan.upper_bound = best.upper_bound;
  plan.confidence = request.confidence;
  for (std::size_t d = 0; d < request.devices.size(); ++d) {
    std::int64_t start = 0;
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      if (best.device[j] != d) continue;
      PlannedRun run = planned(*candidates[j][d], d, request);
      run.start_sec = start;
      start += run.cost_sec;
      plan.runs.push_back(std::move(run));
    }
    plan.cost_sec += start;
  }
  // With a bound only, differences between plans would be differences between luck.
  if (plan.optimal) {
    plan.missed = just_missed(candidates, problem, best, request);
    plan.marginal = larger_budgets(problem, plan, request);
  }
  return plan;
}

std::vector<PlannedRun> pareto_runs(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  check(candidates, request);
  std::vector<PlannedRun> runs;
  for (const PlanCandidate& candidate : candidates) {
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (candidate[d]) runs.push_back(planned(*candidate[d], d, request));
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const PlannedRun& a, const PlannedRun& b) {
    return a.cost_sec != b.cost_sec ? a.cost_sec < b.cost_sec : a.value > b.value;
  });
  std::vector<PlannedRun> front;
  for (PlannedRun& run : runs) {
    if (front.empty() || run.value > front.back().value) front.push_back(std::move(run));
  }
  return front;
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
