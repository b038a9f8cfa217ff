// SPDX-License-Identifier: Apache-2.0
#include "plan/second_goals.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace perfpred {
namespace {

class SecondGoalSolver {
 public:
  SecondGoalSolver(const AssignmentProblem& problem, const SecondGoals& goals, Assignment& plan, const Limits& limits)
      : problem_(problem),
        goals_(goals),
        plan_(plan),
        limits_(limits),
        jobs_(problem.jobs.size()),
        devices_(problem.budgets.size()) {}

  SecondBounds solve() {
    if (devices_ == 1 && goals_.windows.empty() && plan_.optimal() && fewest_seconds()) {
      bounds_.makespan = bounds_.makespan_bound = last_end(plan_.device);
      if (goals_.prices.empty()) bounds_.price_bound = price_of(plan_.device);
    } else {
      if (devices_ > 1 && goals_.windows.empty()) rebalance();
      bounds_.makespan = last_end(plan_.device);
      probe_smaller_budgets();
      lower_price();
    }
    bounds_.price = price_of(plan_.device);
    return bounds_;
  }

  [[nodiscard]] SecondBounds as_it_is() const { return {last_end(plan_.device), 0, price_of(plan_.device), {}}; }

 private:
  static constexpr PlanEffort effort = {100, 10, 3'000, 0};

  [[nodiscard]] const PlanItem& at(std::size_t job, std::size_t d) const { return *problem_.jobs[job][d]; }

  [[nodiscard]] double price(std::size_t job, std::size_t d) const {
    return goals_.prices.empty() ? static_cast<double>(at(job, d).cost) : goals_.prices[job][d];
  }
  [[nodiscard]] double price_of(const JobDevices& device) const {
    std::vector<double> prices;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (device[j]) prices.push_back(price(j, *device[j]));
    }
    return rounded_sum(prices);
  }

  /// Of each device the end of its last run; where it has none, its begin.
  [[nodiscard]] std::vector<std::int64_t> ends(const JobDevices& device) const {
    std::vector<std::int64_t> end = goals_.free_from;
    for (std::size_t d = 0; d < devices_ && !goals_.windows.empty(); ++d) {
      const Sequence order = sequence(jobs_on(problem_, goals_.windows, device, d), sequence_nodes);
      if (!order.starts.empty()) end[d] += order.starts.back().start + at(order.starts.back().job, d).cost;
    }
    for (std::size_t j = 0; j < jobs_ && goals_.windows.empty(); ++j) {
      if (device[j]) end[*device[j]] += at(j, *device[j]).cost;
    }
    return end;
  }

  [[nodiscard]] std::int64_t last_end(const JobDevices& device) const {
    const std::vector<std::int64_t> end = ends(device);
    std::int64_t last = 0;
    for (const auto& place : device) last = std::max(last, place ? end[*place] : 0);
    return last;
  }

  /// One device: the knapsack whose profits hold the value in their high bits, less the seconds.
  /// @returns whether the plan is proved to have the fewest
  bool fewest_seconds() {
    const WholeProblem whole(problem_);
    if (whole.groups > 0) return false;
    std::vector<Candidate> candidates;
    Int128 sum = 0;
    for (const Candidate& item : whole.candidates_on(0)) {
      if (item.profit == 0) continue;
      candidates.push_back(item);
      sum += item.profit;
    }
    constexpr int most_bits = 118;  // of a knapsack's profits
    const int shift = bits_of(problem_.budgets[0]);
    if (bits_of(sum) + shift > most_bits) return false;
    for (Candidate& item : candidates) item.profit = (item.profit << shift) - item.cost;
    const Chosen chosen = solve_knapsack(candidates, problem_.budgets[0], limits_);
    if (chosen.bound > chosen.profit) return false;
    JobDevices device(jobs_);
    for (const std::size_t job : chosen.jobs) device[job] = 0;
    return replace(device);
  }

  /// Takes a plan of the same value.
  /// @returns whether it has that value
  bool replace(const JobDevices& device) {
    Assignment other = plan_;
    other.device = device;
    sum_again(problem_, other);
    if (other.value != plan_.value) return false;
    plan_ = std::move(other);
    return true;
  }

  [[nodiscard]] bool may_move(std::size_t job, std::size_t to) const {
    const auto& there = problem_.jobs[job][to];
    return there && there->value == at(job, *plan_.device[job]).value;
  }

  /// Several devices without windows: the longest job to where it ends first; then moves and exchanges of jobs of the
  /// device that ends last. The jobs and their values stay.
  void rebalance() {
    const JobDevices longest_first = by_length();
    if (!longest_first.empty() && last_end(longest_first) < last_end(plan_.device)) replace(longest_first);
    JobDevices device = plan_.device;
    while (shorten(device) && !limits_.expired()) {
    }
    replace(device);
  }

  /// Empty if a device's budget does not hold what comes to it.
  [[nodiscard]] JobDevices by_length() const {
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (plan_.device[j]) order.push_back(j);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return at(a, *plan_.device[a]).cost > at(b, *plan_.device[b]).cost;
    });
    JobDevices device(jobs_);
    std::vector<std::int64_t> end = goals_.free_from;
    for (const std::size_t job : order) {
      std::optional<std::size_t> best;
      for (std::size_t d = 0; d < devices_; ++d) {
        if (!may_move(job, d) || at(job, d).cost > latest(d) - end[d]) continue;
        if (!best || end[d] + at(job, d).cost < end[*best] + at(job, *best).cost) best = d;
      }
      if (!best) return {};
      device[job] = best;
      end[*best] += at(job, *best).cost;
    }
    return device;
  }

  [[nodiscard]] std::int64_t latest(std::size_t d) const {
    return saturated_sum(goals_.free_from[d], problem_.budgets[d]);
  }

  /// One move or exchange after which the device that ended last ends sooner, and no other one as late.
  bool shorten(JobDevices& device) const {
    const std::vector<std::int64_t> end = ends(device);
    std::size_t last = 0;
    for (std::size_t d = 0; d < devices_; ++d) last = end[d] > end[last] ? d : last;
    const auto is_better = [&](std::size_t d, std::int64_t out, std::int64_t in, std::int64_t gain) {
      return gain > 0 && end[d] - out + in < end[last] && end[d] - out + in <= latest(d);
    };
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (device[j] != last) continue;
      for (std::size_t d = 0; d < devices_; ++d) {
        if (d == last || !may_move(j, d)) continue;
        if (is_better(d, 0, at(j, d).cost, at(j, last).cost)) {
          device[j] = d;
          return true;
        }
        for (std::size_t k = 0; k < jobs_; ++k) {
          if (device[k] != d || !may_move(k, last)) continue;
          if (!is_better(d, at(k, d).cost, at(j, d).cost, at(j, last).cost - at(k, last).cost)) continue;
          std::swap(device[j], device[k]);
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] AssignmentProblem until(std::int64_t end) const {
    AssignmentProblem problem = problem_;
    for (std::size_t d = 0; d < devices_; ++d) {
      problem.budgets[d] = std::clamp<std::int64_t>(end - goals_.free_from[d], 0, problem.budgets[d]);
    }
    return problem;
  }

  [[nodiscard]] Assignment assigned(const AssignmentProblem& problem) const {
    return goals_.windows.empty() ? assign(problem, limits_, effort)
                                  : assign_dated(problem, goals_.windows, limits_, effort);
  }

  /// Plans that end sooner, or proofs that there is none: first just before the end that is known, then in larger
  /// steps, then between the two.
  void probe_smaller_budgets() {
    std::int64_t step = 1;
    std::int64_t open = bounds_.makespan;  // from here on, nothing is to be proved
    constexpr int most_probes = 40;
    for (int i = 0; i < most_probes && bounds_.makespan_bound < open && !limits_.expired(); ++i) {
      const std::int64_t end = std::max(bounds_.makespan_bound, open - step);
      const Assignment other = assigned(until(end));
      if (other.found() && other.value == plan_.value && replace(other.device)) {
        if (devices_ > 1 && goals_.windows.empty()) rebalance();
        open = bounds_.makespan = last_end(plan_.device);
        step *= 2;
      } else if (other.status == PlanStatus::infeasible || other.upper_bound < plan_.value) {
        bounds_.makespan_bound = end + 1;
        step = std::max<std::int64_t>(1, (open - bounds_.makespan_bound + 1) / 2);
      } else {
        open = end;
        step *= 2;
      }
    }
  }

  /// Whether every plan of this value has the same jobs: all that are worth something, each worth the same everywhere.
  [[nodiscard]] bool has_only_set() const {
    for (std::size_t j = 0; j < jobs_; ++j) {
      const PlanItem* first = nullptr;
      for (const auto& item : problem_.jobs[j]) {
        if (!item || !(item->value > 0)) continue;
        if (!plan_.device[j] || (first != nullptr && first->value != item->value)) return false;
        first = &*item;
      }
    }
    return true;
  }

  static constexpr double steps = 0x1p40;  // whole units of the price of all

  /// So small that all prices together are at most `steps`; 0 if they are too large to be added.
  [[nodiscard]] double unit_of_price() const {
    double all = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      double most = 0;
      for (std::size_t d = 0; d < devices_ && plan_.device[j]; ++d) {
        if (problem_.jobs[j][d]) most = std::max(most, price(j, d));
      }
      all += most;
    }
    if (!std::isfinite(all)) return 0;
    constexpr double least = 1e-300;
    return goals_.prices.empty() && all < steps ? 1 : std::max(all, least) / steps;
  }

  /// The jobs of the plan, where each is worth more than all prices, less its own price there; none ends later.
  [[nodiscard]] AssignmentProblem by_price(double unit) const {
    AssignmentProblem problem = until(bounds_.makespan);
    for (std::size_t j = 0; j < jobs_; ++j) {
      for (std::size_t d = 0; d < devices_; ++d) {
        auto& item = problem.jobs[j][d];
        if (!plan_.device[j] || !may_move(j, d)) item.reset();
        if (item) item->value = 2 * steps - std::round(price(j, d) / unit);
      }
    }
    return problem;
  }

  void lower_price() {
    const double unit = unit_of_price();
    if (unit == 0 || limits_.expired()) return;
    const auto left_out = std::count(plan_.device.begin(), plan_.device.end(), std::nullopt);
    const auto count = static_cast<double>(static_cast<std::ptrdiff_t>(jobs_) - left_out);
    const Assignment other = assigned(by_price(unit));
    const bool has_all = std::count(other.device.begin(), other.device.end(), std::nullopt) == left_out;
    if (other.found() && has_all && price_of(other.device) < price_of(plan_.device)) replace(other.device);
    if (!has_only_set()) return;
    const double bound = (2 * steps * count - other.upper_bound) * unit;
    const double of_plan = price_of(plan_.device);
    const double rounded = unit * (count + 1);  // half a unit of each job, and of the bound
    bounds_.price_bound = bound + rounded >= of_plan ? of_plan : std::max(0.0, bound - rounded);
  }

  const AssignmentProblem& problem_;
  const SecondGoals& goals_;
  Assignment& plan_;
  const Limits& limits_;
  std::size_t jobs_, devices_;
  SecondBounds bounds_;
};

}  // namespace

SecondBounds second_goals_of(const AssignmentProblem& problem, const SecondGoals& goals, const Assignment& plan) {
  Assignment same = plan;
  const Limits none;
  return SecondGoalSolver(problem, goals, same, none).as_it_is();
}

SecondBounds reach_second_goals(const AssignmentProblem& problem, const SecondGoals& goals, Assignment& plan,
                                const Limits& limits) {
  return SecondGoalSolver(problem, goals, plan, limits).solve();
}

}  // namespace perfpred
