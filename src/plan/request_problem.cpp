// SPDX-License-Identifier: Apache-2.0
#include "plan/request_problem.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plan/chance/chance_assignment.h"
#include "plan/chance/chance_solver.h"
#include "plan/limits.h"
#include "statistics/confidence.h"

namespace perfpred {
namespace {

std::int64_t cost_of(const PlanOption& option, const PlanRequest& request) {
  return whole_seconds(option.sec_per_epoch * static_cast<double>(request.epochs) + request.startup_sec);
}

void check(const PlanOption& option) {
  if (!(option.sec_per_epoch > 0) || std::isinf(option.sec_per_epoch)) {
    throw InputError(
        fmt::format("{}: {} s an epoch is not a positive number", option.workload.key(), option.sec_per_epoch));
  }
  if (!(option.value >= 0) || std::isinf(option.value)) {
    throw InputError(fmt::format("{}: value {} is not a number >= 0", option.workload.key(), option.value));
  }
}

void check(std::span<const JointPrediction> all) {
  if (all.empty()) throw InputError("a confidence above 0.5 needs predicted times");
  for (const JointPrediction& times : all) {
    const auto is_finite = [](double number) { return std::isfinite(number); };
    if (!std::all_of(times.mean.begin(), times.mean.end(), is_finite) ||
        !std::all_of(times.covariance.begin(), times.covariance.end(), is_finite)) {
      throw InputError("the times hold a value that is not a finite number");
    }
  }
}

/// The run of the highest value; the cheapest of several.
Assignment assign_best(const AssignmentProblem& problem) {
  const std::vector<PlanJob>& jobs = problem.jobs;
  Assignment best;
  best.device.resize(jobs.size());
  best.status = PlanStatus::optimal;
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

/// A budget that the chance problem accepts: positive, and too short for any run if it was 0.
double positive_budget(std::int64_t budget_sec) {
  constexpr double shorter_than_any_run = 1e-3;
  return budget_sec == 0 ? shorter_than_any_run : static_cast<double>(budget_sec);
}

/// Log-normal times on a device. A run counts at least with its whole seconds, so that the costs in the schedule keep
/// the budget too.
ChanceProblem to_chance_problem(const AssignmentProblem& jobs, const TimedRequest& request, std::size_t device,
                                double confidence) {
  const auto n = static_cast<Eigen::Index>(jobs.jobs.size());
  const JointPrediction& times = request.times[device];
  const Eigen::Map<const Eigen::VectorXd> log_mean(times.mean.data(), n);
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> log_covariance(
      times.covariance.data(), n, n);
  ChanceProblem problem;
  problem.mean =
      static_cast<double>(request.epochs) * (log_mean + log_covariance.diagonal() / 2).array().exp().matrix();
  problem.fixed = Eigen::VectorXd::Constant(n, request.startup_sec);
  problem.budget = positive_budget(jobs.budgets[device]);
  problem.z = normal_quantile(confidence);
  for (Eigen::Index i = 0; i < n; ++i) {
    const PlanItem& item = *jobs.jobs[static_cast<std::size_t>(i)][device];
    problem.values.push_back(item.value);
    problem.fixed[i] += std::max(0.0, static_cast<double>(item.cost) - problem.mean[i] - problem.fixed[i]);
  }
  problem.covariance = (problem.mean * problem.mean.transpose()).array() * log_covariance.array().expm1();
  return problem;
}

/// The most valuable run among those that keep a device's budget with the wanted probability.
Assignment assign_best_safely(AssignmentProblem jobs, const TimedRequest& request) {
  for (std::size_t k = 0; k < request.times.size(); ++k) {
    const ChanceProblem problem = to_chance_problem(jobs, request, k, request.confidence);
    for (std::size_t j = 0; j < jobs.jobs.size(); ++j) {
      const auto i = static_cast<Eigen::Index>(j);
      const double needed =
          ChanceProblem::needed(problem.fixed[i], problem.mean[i], problem.covariance(i, i), problem.z);
      const auto drop_from = [&](std::size_t d) {
        if (needed > static_cast<double>(jobs.budgets[d])) jobs.jobs[j][d].reset();
      };
      if (request.times.size() == jobs.budgets.size()) {
        drop_from(k);
      } else {
        for (std::size_t d = 0; d < jobs.budgets.size(); ++d) drop_from(d);
      }
    }
  }
  return assign_best(jobs);
}

Assignment assign_safely(const AssignmentProblem& jobs, const TimedRequest& request, const PlanLimits& limits,
                         const PlanEffort& effort) {
  if (request.objective == PlanObjective::best) return assign_best_safely(jobs, request);
  const std::size_t devices = jobs.budgets.size();
  Assignment assignment;
  assignment.device.resize(jobs.jobs.size());
  if (jobs.jobs.empty()) {
    assignment.status = PlanStatus::optimal;
    return assignment;
  }
  // Boole's inequality: each device fails with its share of the probability at most, whatever their errors have in
  // common.
  const double each = 1 - (1 - request.confidence) / static_cast<double>(devices);
  std::vector<ChanceProblem> problems;
  for (std::size_t k = 0; k < request.times.size(); ++k) problems.push_back(to_chance_problem(jobs, request, k, each));
  if (devices > 1 || has_groups(jobs.group)) {
    std::vector<double> budgets;
    for (const std::int64_t budget : jobs.budgets) budgets.push_back(positive_budget(budget));
    return assign_chance(problems, budgets, jobs.group, limits, brief.nodes);
  }
  const Plan plan = solve_chance(problems.front(), limits, effort.nodes);
  for (const std::size_t index : plan.chosen) assignment.device[index] = 0;
  assignment.value = plan.value;
  assignment.upper_bound = plan.upper_bound;
  assignment.status = plan.optimal ? PlanStatus::optimal : PlanStatus::feasible;
  return assignment;
}

}  // namespace

std::int64_t whole_seconds(double seconds) {
  const double rounded = std::nearbyint(seconds);
  constexpr double too_long = 9.2e18;
  if (rounded >= too_long) return max_cost;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rounded));
}

void check(const PlanRequest& request) {
  if (request.devices.empty()) throw InputError("a plan needs a device");
  for (const PlanDevice& device : request.devices) {
    if (device.budget_sec < 0) throw InputError(fmt::format("budget {} s is negative", device.budget_sec));
    if (device.name.empty() != request.devices.front().name.empty()) {
      throw InputError("some devices of a plan have no name");
    }
  }
  if (request.epochs < 1) throw InputError(fmt::format("{} epochs are not a positive number", request.epochs));
  if (!(request.startup_sec >= 0) || std::isinf(request.startup_sec)) {
    throw InputError(fmt::format("start-up of {} s is not a number >= 0", request.startup_sec));
  }
  if (request.min_acc && std::isnan(*request.min_acc)) throw InputError("the least accuracy is not a number");
  if (!(request.confidence >= 0.5 && request.confidence < 1)) {
    throw InputError(fmt::format("confidence {} is not at least 0.5 and below 1", request.confidence));
  }
}

void check(std::span<const PlanCandidate> candidates, const TimedRequest& request) {
  for (const PlanCandidate& candidate : candidates) {
    for (const auto& option : candidate) {
      if (option) check(*option);
    }
  }
  if (request.confidence > 0.5) check(request.times);
}

AssignmentProblem to_problem(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  const bool covers_depth = request.objective == PlanObjective::cover_depth;
  const bool covers = covers_depth || request.objective == PlanObjective::cover_architecture;
  AssignmentProblem problem;
  for (const PlanDevice& device : request.devices) problem.budgets.push_back(device.budget_sec);
  problem.group.resize(candidates.size());
  problem.jobs.reserve(candidates.size());
  std::map<std::pair<int, std::optional<int>>, std::size_t> groups;
  for (std::size_t j = 0; j < candidates.size(); ++j) {
    const PlanCandidate& candidate = candidates[j];
    PlanJob& job = problem.jobs.emplace_back(candidate.size());
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (!candidate[d]) continue;
      job[d] = PlanItem{cost_of(*candidate[d], request), candidate[d]->value};
      const Workload& workload = candidate[d]->workload;
      if (!covers || !workload.depth()) continue;
      const auto filters = covers_depth ? std::nullopt : std::optional<int>(workload.base_filters());
      problem.group[j] = groups.emplace(std::pair(*workload.depth(), filters), groups.size()).first->second;
    }
  }
  if (covers && groups.empty() && !candidates.empty()) {
    throw InputError("no candidate has a depth: there is nothing to cover");
  }
  return problem;
}

PlannedRun planned(const PlanOption& option, std::size_t device, const PlanRequest& request) {
  const std::string& name = request.devices[device].name;
  return {option.workload, cost_of(option, request), option.value, name.empty() ? option.workload.device : name, 0,
          option.reason};
}

Assignment solve(const AssignmentProblem& problem, const TimedRequest& request, const PlanLimits& limits,
                 const PlanEffort& effort) {
  if (request.confidence > 0.5) return assign_safely(problem, request, limits, effort);
  if (request.objective == PlanObjective::best) return assign_best(problem);
  return assign(problem, limits, effort);
}

}  // namespace perfpred
