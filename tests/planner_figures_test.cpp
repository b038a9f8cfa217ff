// SPDX-License-Identifier: Apache-2.0
// 2,000 plans against optima that others computed: all plans one by one, and OR-Tools' CP-SAT
// (scripts/planner_figures.py). Every plan is summed again.
#include <gtest/gtest.h>
#include <perfpred/knapsack_planner.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "planner_instances.h"

namespace perfpred {
namespace {

/// A row of the table. A whole number is read as the nearest double, as a plan's value is rounded.
struct Figures {
  std::string family;
  std::uint64_t seed = 0;
  double value = 0;  // -1: there is no plan
  double bound = 0;

  [[nodiscard]] bool proved() const { return value == bound; }
};

std::vector<Figures> read_figures() {
  std::ifstream file(PERFPRED_SOURCE_DIR "/tests/data/planner_figures.csv");
  std::vector<Figures> all;
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "family,seed,value,bound,by");
  while (std::getline(file, line)) {
    std::istringstream row(line);
    Figures& figures = all.emplace_back();
    std::string seed, value, bound;
    std::getline(row, figures.family, ',');
    std::getline(row, seed, ',');
    std::getline(row, value, ',');
    std::getline(row, bound, ',');
    figures.seed = std::stoull(seed);
    figures.value = std::strtod(value.c_str(), nullptr);
    figures.bound = std::strtod(bound.c_str(), nullptr);
  }
  return all;
}

/// The plan of one device, in the form of several.
Assignment planned_on_one(const AssignmentProblem& problem) {
  std::vector<PlanItem> items;
  for (const PlanJob& job : problem.jobs) items.push_back(*job[0]);
  const Plan plan = KnapsackPlanner(problem.budgets[0]).plan(items);
  Assignment assignment{JobDevices(items.size()), plan.value, plan.upper_bound,
                        plan.optimal ? PlanStatus::optimal : PlanStatus::feasible};
  std::int64_t cost = 0;
  for (const std::size_t index : plan.chosen) {
    cost += items[index].cost;
    assignment.device[index] = 0;
  }
  EXPECT_EQ(cost, plan.cost);
  return assignment;
}

bool covers(const AssignmentProblem& problem) {
  return std::any_of(problem.group.begin(), problem.group.end(), [](const auto& group) { return group.has_value(); });
}

Assignment planned(const testing::PlannerInstance& instance) {
  if (!instance.times.empty()) return assign_chance(instance.problem, instance.times, {}, 100'000);
  if (instance.problem.budgets.size() == 1 && !covers(instance.problem)) return planned_on_one(instance.problem);
  return assign(instance.problem, {}, {200, 100, 0, 0});
}

/// Whether the runs of a device keep its budget, from the definition.
bool keeps_budget(const testing::PlannerInstance& instance, const Assignment& plan, std::size_t device) {
  const auto budget = static_cast<double>(instance.problem.budgets[device]);
  Int128 cost = 0;
  double fixed = 0, mean = 0, variance = 0;
  for (std::size_t j = 0; j < plan.device.size(); ++j) {
    if (plan.device[j] != device) continue;
    cost += instance.problem.jobs[j][device]->cost;
    if (instance.times.empty()) continue;
    const ChanceTimes& times = instance.times[device];
    const auto row = static_cast<Eigen::Index>(j);
    fixed += times.fixed[row];
    mean += times.mean[row];
    for (std::size_t k = 0; k < plan.device.size(); ++k) {
      if (plan.device[k] == device) variance += times.covariance(row, static_cast<Eigen::Index>(k));
    }
  }
  if (instance.times.empty()) return cost <= instance.problem.budgets[device];
  const double z = instance.times[device].z;
  return mean == 0 ||
         fixed + mean + z * std::sqrt(variance) + std::max(0.0, z * z - 1) / 2 * variance / mean <= budget * (1 + 1e-9);
}

/// Values are whole numbers below 2^63.
double summed(const AssignmentProblem& problem, const Assignment& plan) {
  Int128 sum = 0;
  for (std::size_t j = 0; j < plan.device.size(); ++j) {
    if (plan.device[j]) sum += static_cast<Int128>(problem.jobs[j][*plan.device[j]].value().value);
  }
  return static_cast<double>(sum);
}

void expect_true(const testing::PlannerInstance& instance, const Figures& figures, const Assignment& plan) {
  if (plan.status == PlanStatus::infeasible) {
    EXPECT_LT(figures.bound, 0);
    return;
  }
  EXPECT_GE(plan.upper_bound, figures.value);
  if (!plan.found()) return;
  for (std::size_t d = 0; d < instance.problem.budgets.size(); ++d) EXPECT_TRUE(keeps_budget(instance, plan, d));
  EXPECT_TRUE(covers_groups(instance.problem.group, plan.device));
  EXPECT_EQ(plan.value, summed(instance.problem, plan));
  EXPECT_LE(plan.value, plan.upper_bound);
  EXPECT_LE(plan.value, figures.bound);
  if (plan.optimal()) {
    EXPECT_GE(plan.value, figures.value);
    EXPECT_EQ(plan.value, plan.upper_bound);
  }
}

TEST(PlannerFigures, AgreeWithWhatOthersProved) {
  struct Count {
    int instances = 0, optimal = 0, proved = 0;
  };
  std::map<std::string, Count> counts;
  int all = 0;
  for (const Figures& figures : read_figures()) {
    SCOPED_TRACE(figures.family + ", seed " + std::to_string(figures.seed));
    const testing::PlannerInstance instance = testing::planner_instance(figures.family, figures.seed);
    const Assignment plan = planned(instance);
    expect_true(instance, figures, plan);
    Count& count = counts[figures.family];
    ++all;
    ++count.instances;
    count.optimal += static_cast<int>(plan.status == PlanStatus::optimal || plan.status == PlanStatus::infeasible);
    count.proved += static_cast<int>(figures.proved());
  }
  EXPECT_EQ(all, 2000);
  for (const auto& [family, count] : counts) {
    std::printf("%-14s %4d instances, proved by others %4d, said to be optimal %4d\n", family.c_str(), count.instances,
                count.proved, count.optimal);
    const bool several = family.starts_with("alike") || family.starts_with("unlike") || family.starts_with("cover");
    EXPECT_GE(count.optimal, several ? 0 : count.instances) << family;
  }
}

}  // namespace
}  // namespace perfpred
