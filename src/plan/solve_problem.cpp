// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "plan/assignment.h"
#include "plan/chance.h"
#include "plan/dated.h"
#include "plan/limits.h"
#include "plan/plan_problem.h"
#include "plan/second_goals.h"
#include "statistics/confidence.h"

namespace perfpred {
namespace {

AssignmentProblem to_assignment_problem(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  const bool covers_depth = request.objective == PlanObjective::cover_depth;
  const bool covers = covers_depth || request.objective == PlanObjective::cover_architecture;
  AssignmentProblem problem;
  for (const PlanDevice& device : request.devices) {
    problem.budgets.push_back(std::max<std::int64_t>(0, device.budget_sec - device.free_from_sec));
  }
  problem.group.resize(candidates.size());
  problem.jobs.reserve(candidates.size());
  std::map<std::pair<int, std::optional<int>>, std::size_t> groups;
  for (std::size_t j = 0; j < candidates.size(); ++j) {
    const PlanCandidate& candidate = candidates[j];
    PlanJob& job = problem.jobs.emplace_back(candidate.size());
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (!candidate[d]) continue;
      job[d] = PlanItem{candidate[d]->cost_sec, candidate[d]->value};
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

/// From where each device is free, as the budgets. Empty if no job has an earliest time or a deadline.
JobWindows to_windows(std::span<const PlanCandidate> candidates, const PlanRequest& request) {
  JobWindows windows;
  bool any = false;
  for (const PlanCandidate& candidate : candidates) {
    std::vector<TimeWindow>& job = windows.emplace_back(candidate.size());
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      if (!candidate[d]) continue;
      const std::int64_t from = request.devices[d].free_from_sec;
      job[d].earliest = std::max<std::int64_t>(0, candidate[d]->earliest_sec.value_or(0) - from);
      if (candidate[d]->deadline_sec) job[d].deadline = std::max<std::int64_t>(0, *candidate[d]->deadline_sec - from);
      any = any || job[d].earliest > 0 || candidate[d]->deadline_sec;
    }
  }
  return any ? windows : JobWindows();
}

/// The jobs outside a plan that may enter it, by falling value per cost on the best device, or by value where a plan is
/// one run.
std::vector<std::size_t> jobs_outside(const AssignmentProblem& problem, const Assignment& plan,
                                      PlanObjective objective) {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    double rank = 0;
    for (std::size_t d = 0; d < problem.budgets.size() && !plan.device[j]; ++d) {
      const auto& item = problem.jobs[j][d];
      if (!item || item->cost > problem.budgets[d]) continue;
      rank = std::max(rank, item->value / (objective == PlanObjective::best ? 1 : static_cast<double>(item->cost)));
    }
    if (rank > 0) ranked.emplace_back(rank, j);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::size_t> jobs;
  for (const auto& [rank, job] : ranked) jobs.push_back(job);
  return jobs;
}

/// What a job takes where it takes the longest, summed, after the last one may begin.
std::int64_t cost_of_all(std::span<const PlanJob> jobs, const JobWindows& windows) {
  std::int64_t total = 0;
  for (const std::vector<TimeWindow>& job : windows) {
    for (const TimeWindow& window : job) total = std::max(total, window.earliest);
  }
  for (const PlanJob& job : jobs) {
    std::int64_t cost = 0;
    for (const auto& item : job) cost = std::max(cost, item ? item->cost : 0);
    total = saturated_sum(total, cost);
  }
  return total;
}

/// max_cost if there is no job.
std::int64_t cheapest(std::span<const PlanJob> jobs) {
  std::int64_t cost = max_cost;
  for (const PlanJob& job : jobs) {
    for (const auto& item : job) cost = std::min(cost, item ? item->cost : cost);
  }
  return cost;
}

class ProblemSolver {
 public:
  explicit ProblemSolver(const PlanProblem& given)
      : request_(given.request),
        candidates_(given.candidates),
        times_(given.times),
        safely_(request_.confidence > 0.5),
        limits_(request_.limits),
        problem_(to_assignment_problem(candidates_, request_)),
        windows_(to_windows(candidates_, request_)) {
    // Boole's inequality: each device fails with its share of the probability at most, whatever their errors have in
    // common.
    if (safely_) {
      const bool one_run = request_.objective == PlanObjective::best;
      const double devices = one_run ? 1 : static_cast<double>(request_.devices.size());
      const double z = normal_quantile(1 - (1 - request_.confidence) / devices);
      for (std::size_t k = 0; k < times_.size(); ++k) chance_times_.push_back(to_chance_times(k, z));
    }
  }

  RunPlan solve() {
    RunPlan plan;
    plan.candidates = candidates_.size();
    plan.pareto = pareto_front();
    plan.cover_sec = cheapest_cover(problem_);
    if (plan.cover_sec > summed(problem_.budgets)) {
      plan.status = PlanStatus::infeasible;
      return plan;
    }
    Assignment best = assigned(problem_, thorough);
    sum_again(problem_, best);
    reach(best, plan);
    plan.status = best.status;
    plan.value = best.value;
    plan.upper_bound = best.upper_bound;
    for (std::size_t d = 0; d < request_.devices.size(); ++d) add_runs(d, best.device, plan);
    // Without a proof of optimality, differences between plans would be noise of the heuristic.
    if (plan.status == PlanStatus::optimal) {
      plan.missed = missed_runs(best);
      if (plan.runs.size() < candidates_.size()) plan.marginal = larger_budgets(best.value);
    }
    return plan;
  }

 private:
  /// Of the plans of this value the one that ends first, then the cheapest.
  void reach(Assignment& best, RunPlan& plan) const {
    SecondGoals goals = {{}, windows_, prices()};
    for (const PlanDevice& device : request_.devices) goals.free_from.push_back(device.free_from_sec);
    SecondBounds reached = request_.objective == PlanObjective::best || safely_ || !best.found()
                               ? second_goals_of(problem_, goals, best)
                               : reach_second_goals(problem_, goals, best, limits_);
    if (request_.objective == PlanObjective::best) reached.makespan_bound = reached.makespan;  // as best_run() chooses
    plan.makespan_sec = reached.makespan;
    plan.makespan_lower_bound_sec = reached.makespan_bound;
    plan.cost = reached.price;
    const bool lacks_prices = goals.prices.empty() && !request_.price_per_hour.empty();
    if (!lacks_prices) plan.cost_lower_bound = reached.price_bound;
  }

  /// Of each job on each device; empty if one is not known.
  [[nodiscard]] std::vector<std::vector<double>> prices() const {
    std::vector<std::vector<double>> all;
    constexpr double hour = 3600;
    for (const PlanCandidate& candidate : candidates_) {
      std::vector<double>& job = all.emplace_back(candidate.size());
      for (std::size_t d = 0; d < candidate.size(); ++d) {
        if (!candidate[d]) continue;
        const auto known = request_.price_per_hour.find(candidate[d]->workload.device);
        if (known == request_.price_per_hour.end()) return {};
        job[d] = known->second * static_cast<double>(candidate[d]->cost_sec) / hour;
      }
    }
    return all;
  }

  /// One after another in the order of the candidates, or where they have times in an order that keeps those.
  void add_runs(std::size_t d, const JobDevices& device, RunPlan& plan) const {
    std::vector<StartedJob> starts;
    std::int64_t start = 0;
    for (std::size_t j = 0; j < candidates_.size() && windows_.empty(); ++j) {
      if (device[j] != d) continue;
      starts.push_back({j, start});
      start += candidates_[j][d]->cost_sec;
    }
    if (!windows_.empty()) starts = sequence(jobs_on(problem_, windows_, device, d), sequence_nodes).starts;
    for (const StartedJob& one : starts) {
      PlannedRun& run = plan.runs.emplace_back(*candidates_[one.job][d]);
      run.start_sec = request_.devices[d].free_from_sec + one.start;
      plan.cost_sec += run.cost_sec;
    }
  }

  /// Log-normal times on a device. A run counts at least with its whole seconds, so that the costs in the schedule keep
  /// the budget too.
  [[nodiscard]] ChanceTimes to_chance_times(std::size_t device, double z) const {
    const auto n = static_cast<Eigen::Index>(candidates_.size());
    const JointPrediction& joint = times_[device];
    const auto is_finite = [](double number) { return std::isfinite(number); };
    if (!std::all_of(joint.mean.begin(), joint.mean.end(), is_finite) ||
        !std::all_of(joint.covariance.begin(), joint.covariance.end(), is_finite)) {
      throw InputError("the times hold a value that is not a finite number");
    }
    const Eigen::Map<const Eigen::VectorXd> log_mean(joint.mean.data(), n);
    const Eigen::Map<const Eigen::MatrixXd> log_covariance(joint.covariance.data(), n, n);  // symmetric
    ChanceTimes times;
    times.z = z;
    times.mean = (log_mean + log_covariance.diagonal() / 2).array().exp().matrix();
    times.fixed = Eigen::VectorXd::Constant(n, request_.startup_sec);
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto& run = candidates_[static_cast<std::size_t>(i)][device];
      if (!run) continue;
      times.mean[i] *= static_cast<double>(run->epochs);
      times.fixed[i] = std::max(times.fixed[i], static_cast<double>(run->cost_sec) - times.mean[i]);
    }
    times.covariance = (times.mean * times.mean.transpose()).array() * log_covariance.array().expm1();
    return times;
  }

  [[nodiscard]] bool fits(std::size_t job, std::size_t device, std::int64_t budget) const {
    const PlanItem& item = *problem_.jobs[job][device];
    if (!windows_.empty()) {
      const TimeWindow& window = windows_[job][device];
      return TimeWindow{window.earliest, std::min(budget, window.deadline)}.holds(item.cost);
    }
    if (!safely_) return item.cost <= budget;
    const ChanceTimes& times = chance_times_[chance_times_.size() == 1 ? 0 : device];
    const auto i = static_cast<Eigen::Index>(job);
    return times.needed(times.fixed[i], times.mean[i], times.covariance(i, i)) <= static_cast<double>(budget);
  }

  /// When a job alone ends.
  [[nodiscard]] std::int64_t end_of(std::size_t job, std::size_t device) const {
    const std::int64_t begin =
        request_.devices[device].free_from_sec + (windows_.empty() ? 0 : windows_[job][device].earliest);
    return saturated_sum(begin, problem_.jobs[job][device]->cost);
  }

  /// The run of the highest value; the first to end of several.
  [[nodiscard]] Assignment best_run(const AssignmentProblem& problem) const {
    Assignment best;
    best.device.resize(problem.jobs.size());
    best.status = PlanStatus::optimal;
    std::optional<std::pair<std::size_t, std::size_t>> place;
    std::int64_t end = 0;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
        const auto& item = problem.jobs[j][d];
        if (!item || !(item->value > 0) || !fits(j, d, problem.budgets[d])) continue;
        if (place && (item->value < best.value || (item->value == best.value && end_of(j, d) >= end))) continue;
        place = {j, d};
        best.value = item->value;
        end = end_of(j, d);
      }
    }
    if (place) best.device[place->first] = place->second;
    best.upper_bound = best.value;
    return best;
  }

  /// The best assignment by the objective and the confidence of the request.
  /// @param problem  the request's, or with other budgets, with groups or without some jobs
  [[nodiscard]] Assignment assigned(const AssignmentProblem& problem, const PlanEffort& effort) const {
    if (request_.objective == PlanObjective::best) return best_run(problem);
    if (!windows_.empty()) return assign_dated(problem, windows_, limits_, effort);
    if (!safely_) return assign(problem, limits_, effort);
    return assign_chance(problem, chance_times_, limits_, problem.budgets.size() == 1 ? effort.nodes : brief.nodes);
  }

  /// The best plan that holds this job, as far as a short search finds it.
  [[nodiscard]] Assignment plan_with(std::size_t job) const {
    AssignmentProblem problem = problem_;
    for (std::size_t j = 0; j < problem.jobs.size() && request_.objective == PlanObjective::best; ++j) {
      if (j != job) problem.jobs[j].assign(problem.budgets.size(), std::nullopt);
    }
    if (const auto covered = problem.group[job]) {
      std::replace(problem.group.begin(), problem.group.end(), JobGroups::value_type(covered), JobGroups::value_type());
    }
    problem.group[job] = problem.jobs.size();  // a group of its own
    return assigned(problem, brief);
  }

  /// The five candidates outside an optimal plan whose inclusion costs it the least value. Empty if the time is up.
  [[nodiscard]] std::vector<PlannedRun> missed_runs(const Assignment& best) const {
    constexpr std::size_t max_shown = 5;
    constexpr std::size_t max_solved = 40;
    std::vector<std::size_t> outside = jobs_outside(problem_, best, request_.objective);
    if (outside.size() > max_solved) outside.resize(max_solved);
    std::vector<PlannedRun> missed;
    for (const std::size_t job : outside) {
      const Assignment with = plan_with(job);
      if (limits_.expired()) return {};
      if (!with.device[job]) continue;
      missed.push_back(*candidates_[job][*with.device[job]]);
      missed.back().loss = std::max(0.0, best.value - with.value);
    }
    std::stable_sort(missed.begin(), missed.end(),
                     [](const PlannedRun& a, const PlannedRun& b) { return a.loss < b.loss; });
    if (missed.size() > max_shown) missed.resize(max_shown);
    return missed;
  }

  /// Values for larger budgets. The first holds the cheapest run if the request's budgets do not; then come steps of 5
  /// to 100 per cent, until all candidates fit or the time is up.
  [[nodiscard]] std::vector<LargerBudget> larger_budgets(double value) const {
    std::vector<LargerBudget> values;
    const auto [smallest, largest] = std::minmax_element(problem_.budgets.begin(), problem_.budgets.end());
    const std::int64_t first_run = cheapest(problem_.jobs);
    if (first_run == max_cost) return values;
    const std::int64_t enough = safely_ ? max_cost : cost_of_all(problem_.jobs, windows_);
    if (*smallest >= enough) return values;
    const std::int64_t max_extra = std::min(enough - *smallest, max_cost - *largest);
    const auto base = static_cast<double>(std::max(*largest, first_run));
    for (const double factor : {1.0, 1.05, 1.1, 1.25, 1.5, 2.0}) {
      const std::int64_t before = values.empty() ? 0 : values.back().extra_sec;
      const std::int64_t extra = std::min(max_extra, whole_seconds(base * factor) - *largest);
      if (extra <= before) continue;
      AssignmentProblem more = problem_;
      for (std::int64_t& budget : more.budgets) budget += extra;
      const Assignment assignment = assigned(more, brief);
      if (limits_.expired()) break;
      // A plan for a smaller budget keeps this one, too.
      const double best = std::max(values.empty() ? value : values.back().value, assignment.value);
      values.push_back({extra, best, 60 * (best - value) / static_cast<double>(extra)});
    }
    return values;
  }

  [[nodiscard]] std::vector<PlannedRun> pareto_front() const {
    std::vector<PlannedRun> runs;
    for (const PlanCandidate& candidate : candidates_) {
      for (const auto& run : candidate) {
        if (run) runs.push_back(*run);
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

  const PlanRequest& request_;
  std::span<const PlanCandidate> candidates_;
  std::span<const JointPrediction> times_;
  bool safely_;
  Limits limits_;
  AssignmentProblem problem_;
  JobWindows windows_;  // empty: no job has an earliest time or a deadline
  std::vector<ChanceTimes> chance_times_;
};

}  // namespace

RunPlan solve(const PlanProblem& problem) {
  RunPlan plan = ProblemSolver(problem).solve();
  plan.left_out = problem.left_out;
  plan.devices = problem.devices;
  return plan;
}

}  // namespace perfpred
