// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/run_plan.h>
#include <perfpred/throughput_deriver.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "model/lognormal.h"
#include "plan/chance_solver.h"
#include "plan/knapsack/knapsack_solver.h"
#include "plan/plan_solver.h"
#include "text/files.h"
#include "text/csv.h"
#include "workload/workload_columns.h"

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
  if (!(request.limits.time_sec >= 0)) {
    throw InputError(fmt::format("time limit {} is not a number >= 0", request.limits.time_sec));
  }
  if (request.confidence > 0.5) {
    if (request.times.empty()) throw InputError("a confidence above 0.5 needs predicted times");
    if (request.times.size() != 1 && request.times.size() != request.devices.size()) {
      throw InputError("the times are of another number of devices");
    }
    for (const JointPrediction& times : request.times) {
      if (times.mean.size() != candidates.size()) {
        throw InputError("the times are of other candidates");
      }
    }
  }
  if (request.devices.empty()) throw InputError("a plan needs a device");
  for (const PlanCandidate& candidate : candidates) {
    if (candidate.size() != request.devices.size()) throw InputError("a candidate needs one option for each device");
    for (const auto& option : candidate) {
      if (!option && request.confidence > 0.5)
        throw InputError("a confidence above 0.5 needs every time on every device");
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

/// Quantile of the standard normal distribution for p in (0.5, 1), by Newton's method on the error function.
double normal_quantile(double p) {
  double z = 1;
  constexpr int rounds = 60;
  for (int i = 0; i < rounds; ++i) {
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    const double step = (std::erfc(z / std::sqrt(2.0)) / 2 - (1 - p)) / density;
    z += std::clamp(step, -1.0, 1.0);
  }
  return std::max(0.0, z);
}

/// Log-normal times on a device as the chance problem has them. A run counts at least with its whole seconds, so that
/// the costs that are shown keep the budget too.
ChanceProblem to_chance_problem(const AssignmentProblem& jobs, const PlanRequest& request, std::size_t device,
                                double confidence) {
  const JointPrediction& times = request.times[device];
  const auto n = static_cast<Eigen::Index>(times.mean.size());
  const Eigen::Map<const Eigen::VectorXd> log_mean(times.mean.data(), n);
  const Eigen::Map<const Eigen::MatrixXd> log_covariance(times.covariance.data(), n, n);
  const auto epochs = static_cast<double>(request.epochs);
  ChanceProblem problem;
  problem.mean.resize(n);
  problem.fixed = Eigen::VectorXd::Constant(n, request.startup_sec);
  problem.covariance.resize(n, n);
  problem.budget = static_cast<double>(jobs.budgets[device]);
  problem.z = normal_quantile(confidence);
  for (Eigen::Index i = 0; i < n; ++i) {
    const PlanItem& item = *jobs.jobs[static_cast<std::size_t>(i)][device];
    problem.values.push_back(item.value);
    problem.mean[i] = epochs * std::exp(log_mean[i] + log_covariance(i, i) / 2);
    problem.fixed[i] += std::max(0.0, static_cast<double>(item.cost) - problem.mean[i] - problem.fixed[i]);
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index k = 0; k < n; ++k) {
      problem.covariance(i, k) = problem.mean[i] * problem.mean[k] * std::expm1(log_covariance(i, k));
    }
  }
  return problem;
}

Assignment assign_safely(const AssignmentProblem& jobs, const PlanRequest& request, const PlanLimits& limits,
                         const PlanEffort& effort) {
  const std::size_t devices = request.devices.size();
  if (request.objective == PlanObjective::best) {
    // One run: what does not fit alone is no job, the rest is as ever.
    AssignmentProblem fitting = jobs;
    for (std::size_t d = 0; d < devices; ++d) {
      const ChanceProblem problem = to_chance_problem(jobs, request, d % request.times.size(), request.confidence);
      for (Eigen::Index i = 0; i < problem.mean.size(); ++i) {
        const double needed =
            ChanceProblem::needed(problem.fixed[i], problem.mean[i], problem.covariance(i, i), problem.z);
        if (needed > problem.budget) fitting.jobs[static_cast<std::size_t>(i)][d].reset();
      }
    }
    return assign_best(fitting);
  }
  Assignment assignment;
  assignment.device.resize(jobs.jobs.size());
  if (jobs.jobs.empty() || jobs.budgets.front() == 0) {
    assignment.optimal = true;
    return assignment;
  }
  // Boole's inequality: each device fails with its share of the probability at most, whatever they have in common.
  const double each = 1 - (1 - request.confidence) / static_cast<double>(devices);
  std::vector<ChanceProblem> problems;
  for (std::size_t d = 0; d < request.times.size(); ++d) problems.push_back(to_chance_problem(jobs, request, d, each));
  if (devices > 1 || has_groups(jobs.group)) return assign_chance(problems, devices, jobs.group, limits, brief.nodes);
  const Plan plan = solve_chance(problems.front(), limits, effort.nodes);
  for (const std::size_t index : plan.chosen) assignment.device[index] = 0;
  assignment.value = plan.value;
  assignment.upper_bound = plan.upper_bound;
  assignment.optimal = plan.optimal;
  return assignment;
}

/// The value of the best plan that holds this job on this device; empty if none was found.
std::optional<double> value_with(AssignmentProblem problem, std::size_t job, std::size_t device,
                                 const PlanRequest& request, const PlanLimits& limits) {
  PlanItem& item = *problem.jobs[job][device];
  if (request.confidence > 0.5) {
    // An uncertain time leaves no rest of the budget to plan for, so the run gets a value that outweighs all others.
    const double own = item.value;
    double all = 0;
    for (const PlanJob& other : problem.jobs) all += other[device]->value;
    item.value += all;
    const Assignment with = assign_safely(problem, request, limits, brief);
    if (with.device[job] != device) return std::nullopt;
    item.value = own;
    double value = 0;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      if (const auto place = with.device[j]) value += problem.jobs[j][*place]->value;
    }
    return value;
  }
  if (request.objective == PlanObjective::best) return item.value;
  const PlanItem taken = item;
  problem.budgets[device] -= taken.cost;
  problem.jobs[job].assign(problem.budgets.size(), std::nullopt);
  if (const auto covered = problem.group[job]) {
    for (auto& group : problem.group) {
      if (group == covered) group.reset();
    }
  }
  const Assignment rest = assign(problem, limits, brief);
  return rest.covers ? std::optional(taken.value + rest.value) : std::nullopt;
}

/// What the request asks for, with another budget.
Assignment solve(AssignmentProblem problem, const PlanRequest& request, std::int64_t budget, const PlanLimits& limits,
                 const PlanEffort& effort) {
  problem.budgets.assign(problem.budgets.size(), budget);
  if (request.confidence > 0.5) return assign_safely(problem, request, limits, effort);
  if (request.objective == PlanObjective::best) return assign_best(problem);
  return assign(problem, limits, effort);
}

std::int64_t everything(std::span<const PlanJob> jobs) {
  std::int64_t total = 0;
  for (const PlanJob& job : jobs) {
    std::int64_t cost = 0;
    for (const auto& item : job) cost = std::max(cost, item ? item->cost : 0);
    total = saturated_sum(total, cost);
  }
  return total;
}

std::int64_t cheapest(std::span<const PlanJob> jobs) {
  std::int64_t cost = std::numeric_limits<std::int64_t>::max();
  for (const PlanJob& job : jobs) {
    for (const auto& item : job) cost = std::min(cost, item ? item->cost : cost);
  }
  return cost;
}

/// What larger budgets would buy: what takes the first run, then some per cent more each, until every candidate fits or
/// the time is up.
std::vector<BudgetValue> larger_budgets(const AssignmentProblem& problem, const RunPlan& plan,
                                        const PlanRequest& request, const knapsack::Limits& limits) {
  std::vector<BudgetValue> values;
  const std::int64_t enough =
      request.confidence > 0.5 ? std::numeric_limits<std::int64_t>::max() : everything(problem.jobs);
  const auto base = static_cast<double>(std::max(plan.budget_sec, cheapest(problem.jobs)));
  for (const double factor : {1.0, 1.05, 1.1, 1.25, 1.5, 2.0}) {
    if (plan.budget_sec >= enough) break;
    const auto budget = std::min(enough, whole_seconds(base * factor));
    if (budget <= (values.empty() ? plan.budget_sec : values.back().budget_sec)) continue;
    const Assignment larger = solve(problem, request, budget, limits.remaining(), brief);
    if (limits.expired()) break;
    // What fits a smaller budget fits this one, too.
    const double value = std::max(values.empty() ? plan.value : values.back().value, larger.value);
    values.push_back({budget, value, 60 * (value - plan.value) / static_cast<double>(budget - plan.budget_sec)});
    if (budget == enough) break;
  }
  return values;
}

/// Candidates that the plan lacks, by what it would lose with them in it. Dantzig's ratio picks those worth solving
/// for; where a plan is one run, its value does.
std::vector<MissedRun> just_missed(std::span<const PlanCandidate> candidates, const AssignmentProblem& problem,
                                   const Assignment& best, const PlanRequest& request, const knapsack::Limits& limits) {
  const std::vector<PlanJob>& jobs = problem.jobs;
  constexpr std::size_t shown = 5;
  constexpr std::size_t solved = 40;
  struct Left {
    std::size_t job;
    std::size_t device;
    double rank;
  };
  std::vector<Left> left;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (best.device[j]) continue;
    std::optional<Left> option;
    for (std::size_t d = 0; d < jobs[j].size(); ++d) {
      const auto& item = jobs[j][d];
      if (!item || item->cost > request.budget_sec || !(item->value > 0)) continue;
      const bool one = request.objective == PlanObjective::best;
      const double rank = one ? item->value : item->value / static_cast<double>(item->cost);
      if (!option || rank > option->rank) option = Left{j, d, rank};
    }
    if (option) left.push_back(*option);
  }
  std::stable_sort(left.begin(), left.end(), [](const Left& a, const Left& b) { return a.rank > b.rank; });
  if (left.size() > solved) left.resize(solved);
  std::vector<MissedRun> missed;
  for (const Left& run : left) {
    const auto with = value_with(problem, run.job, run.device, request, limits.remaining());
    if (limits.expired()) return {};
    if (!with) continue;
    const double loss = std::max(0.0, best.value - *with);
    missed.push_back({planned(*candidates[run.job][run.device], run.device, request), loss});
  }
  std::stable_sort(missed.begin(), missed.end(),
                   [](const MissedRun& a, const MissedRun& b) { return a.loss < b.loss; });
  if (missed.size() > shown) missed.resize(shown);
  return missed;
}

/// Gathers options into candidates; with named devices, by the workload apart from its device. The first of two options
/// for one place stays.
class CandidateTable {
 public:
  CandidateTable(std::span<const AggregateRow> rows, const PlanFilter& filter) : filter_(filter) {
    if (rows.empty()) throw InputError("there is no row to plan with");
  }

  [[nodiscard]] bool passes(const AggregateRow& row) {
    if (row.acc_mean) best_acc_ = std::max(best_acc_.value_or(0), *row.acc_mean);
    return !filter_.min_acc || (row.acc_mean && *row.acc_mean >= *filter_.min_acc);
  }

  void add(std::size_t device, PlanOption option) {
    std::size_t index = candidates_.size();
    if (!filter_.devices.empty()) {
      Workload anywhere = option.workload;
      anywhere.device.clear();
      index = place_.emplace(anywhere.key(), index).first->second;
    }
    if (index == candidates_.size()) candidates_.emplace_back(std::max<std::size_t>(1, filter_.devices.size()));
    auto& place = candidates_[index][device];
    if (!place) place = std::move(option);
  }

  [[nodiscard]] std::vector<PlanCandidate> finish() {
    if (filter_.min_acc && candidates_.empty()) {
      throw Error(best_acc_
                      ? fmt::format("no run reaches an accuracy of {}; the best has {}", *filter_.min_acc, *best_acc_)
                      : fmt::format("no run reaches an accuracy of {}: none has one", *filter_.min_acc));
    }
    return std::move(candidates_);
  }

 private:
  const PlanFilter& filter_;
  std::vector<PlanCandidate> candidates_;
  std::map<std::string, std::size_t> place_;  // by key without device
  std::optional<double> best_acc_;
};

/// Mean and variance that the chance of a disturbance gives the logarithm of a run's time.
struct Disturbance {
  double mean;
  double variance;
};

/// A run is disturbed with a chance that the fitted rows tell: those far above their interval, by Jeffreys' rule, so
/// that it is never nil. A run that shares its device with another job takes up to twice as long, every part of that
/// alike.
Disturbance disturbance_of(const TimeRegressor& model) {
  constexpr double far_above = 1.1;  // as two repeats of one run may differ before they count as disagreeing
  const std::vector<AggregateRow> rows = model.fitted_rows();
  const auto disturbed = std::count_if(rows.begin(), rows.end(), [&](const AggregateRow& row) {
    return *row.avg_time_mean > far_above * model.predict(row.workload).time_sec.p95;
  });
  const double chance = (static_cast<double>(disturbed) + 0.5) / (static_cast<double>(rows.size()) + 1);
  constexpr double ln2 = 0.6931471805599453;
  constexpr double mean = 2 * ln2 - 1;                    // of ln(1 + u), u uniform in [0, 1]
  constexpr double square = 2 * ln2 * ln2 - 4 * ln2 + 2;  // of its square
  return {chance * mean, chance * square - chance * mean * chance * mean};
}

}  // namespace

std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows, const PlanFilter& filter) {
  CandidateTable table(rows, filter);
  std::vector<bool> seen(filter.devices.size());
  for (const AggregateRow& row : rows) {
    std::vector<std::size_t> on;
    if (filter.devices.empty()) on.push_back(0);
    for (std::size_t d = 0; d < filter.devices.size(); ++d) {
      if (filter.devices[d] != row.workload.device) continue;
      on.push_back(d);
      seen[d] = true;
    }
    if (on.empty() || !row.avg_time_mean || !table.passes(row)) continue;
    const auto value = filter.value == PlanValue::accuracy ? row.acc_mean : row.thr_mean;
    if (!value) continue;
    for (const std::size_t d : on) table.add(d, {row.workload, *row.avg_time_mean, *value});
  }
  for (std::size_t d = 0; d < seen.size(); ++d) {
    if (!seen[d]) throw InputError(fmt::format("no row is of device \"{}\"", filter.devices[d]));
  }
  return table.finish();
}

std::vector<PlanCandidate> predicted_candidates(std::span<const AggregateRow> rows, const PlanFilter& filter,
                                                const TimeRegressor& model) {
  CandidateTable table(rows, filter);
  for (const AggregateRow& row : rows) {
    if (!table.passes(row) || (filter.value == PlanValue::accuracy && !row.acc_mean)) continue;
    for (std::size_t d = 0; d < std::max<std::size_t>(1, filter.devices.size()); ++d) {
      Workload workload = row.workload;
      if (!filter.devices.empty()) workload.device = filter.devices[d];
      const double sec = model.predict(workload).time_sec.p50;
      const double value =
          filter.value == PlanValue::accuracy ? *row.acc_mean : ThroughputDeriver(workload.train_images).derive(sec);
      table.add(d, {workload, sec, value});
    }
  }
  return table.finish();
}

std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates, const TimeRegressor& model) {
  const Disturbance disturbance = disturbance_of(model);
  std::vector<JointPrediction> all;
  const std::size_t devices = candidates.empty() ? 1 : candidates.front().size();
  for (std::size_t d = 0; d < devices; ++d) {
    std::vector<Workload> workloads;
    for (const PlanCandidate& candidate : candidates) {
      if (candidate.size() != devices || !candidate[d]) throw InputError("joint times need every time on every device");
      workloads.push_back(candidate[d]->workload);
    }
    JointPrediction& times = all.emplace_back(model.joint(workloads));
    for (std::size_t j = 0; j < workloads.size(); ++j) {
      // The interval of one run holds the noise of its measurement, the joint distribution does not.
      const double deviation = log_deviation(model.predict(workloads[j]).time_sec);
      double& variance = times.covariance[j * workloads.size() + j];
      variance = std::max(variance, deviation * deviation) + disturbance.variance;
      times.mean[j] += disturbance.mean;
    }
  }
  return all;
}

RunPlan plan_runs(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  check(candidates, request);
  const AssignmentProblem problem = to_problem(candidates, request);
  if (const std::int64_t least = least_cover(problem); least > summed(problem.budgets)) {
    throw Error(
        fmt::format("a run of each kind takes at least {} s; the budget is {} s", least, summed(problem.budgets)));
  }
  const auto limits = knapsack::Limits::from(request.limits);
  const Assignment best = solve(problem, request, request.budget_sec, request.limits, thorough);
  if (!best.covers) {
    throw Error(fmt::format("no plan with a run of each kind was found within {} s{}{}", request.budget_sec,
                            request.devices.size() > 1 ? " of each device" : "",
                            request.confidence > 0.5 ? fmt::format(" at confidence {}", request.confidence) : ""));
  }
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
    plan.missed = just_missed(candidates, problem, best, request, limits);
    plan.marginal = larger_budgets(problem, plan, request, limits);
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
