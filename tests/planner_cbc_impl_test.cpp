// SPDX-License-Identifier: Apache-2.0
// Plans against CBC, a branch-and-cut solver by others, and plans with its help, if the component cbc is built.
#include <gtest/gtest.h>
#include <perfpred/knapsack_planner.h>

#include <cmath>
#include <random>
#include <vector>

#include "knapsack_instances.h"
#include "plan/assignment.h"

#ifdef PERFPRED_TEST_CBC
#include <coin/Cbc_C_Interface.h>
#include <perfpred/cbc/enable_cbc.h>
#endif

namespace perfpred {
namespace {

#ifdef PERFPRED_TEST_CBC

struct Answer {
  double value = 0;
  bool proved = false;
};

/// Values are whole numbers here, so that the optimum is the nearest one to what CBC computes.
Answer solve_by_cbc(const AssignmentProblem& problem) {
  Cbc_Model* model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  Cbc_setObjSense(model, -1);
  std::vector<std::vector<int>> on_device(problem.budgets.size());
  std::vector<std::vector<double>> costs(problem.budgets.size());
  int columns = 0;
  for (const PlanJob& job : problem.jobs) {
    std::vector<int> places;
    for (std::size_t d = 0; d < job.size(); ++d) {
      if (!job[d]) continue;
      Cbc_addCol(model, "", 0, 1, job[d]->value, 1, 0, nullptr, nullptr);
      on_device[d].push_back(columns);
      costs[d].push_back(static_cast<double>(job[d]->cost));
      places.push_back(columns++);
    }
    if (places.size() < 2) continue;
    const std::vector<double> ones(places.size(), 1.0);
    Cbc_addRow(model, "", static_cast<int>(places.size()), places.data(), ones.data(), 'L', 1);
  }
  for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
    Cbc_addRow(model, "", static_cast<int>(on_device[d].size()), on_device[d].data(), costs[d].data(), 'L',
               static_cast<double>(problem.budgets[d]));
  }
  Cbc_setAllowableGap(model, 0.5);
  Cbc_setAllowableFractionGap(model, 0);
  Cbc_setMaximumSeconds(model, 10);
  Cbc_solve(model);
  const Answer answer{std::round(Cbc_getObjValue(model)), Cbc_isProvenOptimal(model) != 0};
  Cbc_deleteModel(model);
  return answer;
}

class KnapsackBesideCbc : public ::testing::TestWithParam<testing::KnapsackClass> {};

TEST_P(KnapsackBesideCbc, HasTheSameOptimum) {
  int proved = 0;
  for (int number = 1; number <= 4; ++number) {
    const auto instance = testing::make_instance(GetParam(), 60, 1000, static_cast<std::uint64_t>(number), 20 * number);
    AssignmentProblem problem;
    problem.budgets = {instance.budget};
    for (const PlanItem& item : instance.items) problem.jobs.push_back({item});
    const Plan plan = KnapsackPlanner(instance.budget).plan(instance.items);
    ASSERT_TRUE(plan.optimal);
    const Answer cbc = solve_by_cbc(problem);
    if (cbc.proved) {
      ++proved;
      EXPECT_EQ(plan.value, cbc.value) << number;
    } else {
      EXPECT_GE(plan.value, cbc.value) << number;
    }
  }
  std::printf("CBC proved %d of 4\n", proved);
}
INSTANTIATE_TEST_SUITE_P(EveryClass, KnapsackBesideCbc, ::testing::ValuesIn(testing::knapsack_classes),
                         [](const auto& parameter) { return std::string(testing::name(parameter.param)); });

TEST(DevicesBesideCbc, HaveTheSameOptimumOrABoundAboveIt) {
  std::mt19937_64 random(17);
  const auto below = [&random](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  int optimal = 0;
  int proved = 0;
  constexpr int instances = 24;
  for (int instance = 0; instance < instances; ++instance) {
    const bool alike = instance % 2 == 0;
    const auto devices = static_cast<std::size_t>(2 + below(3));
    const auto jobs = static_cast<std::size_t>(8 + below(30));
    AssignmentProblem problem;
    problem.group.resize(jobs);
    problem.budgets.assign(devices, 200 + below(400));
    for (std::size_t j = 0; j < jobs; ++j) {
      PlanJob& job = problem.jobs.emplace_back(devices);
      const PlanItem item{20 + below(180), static_cast<double>(500 + below(500))};
      for (std::size_t d = 0; d < devices; ++d) {
        job[d] = item;
        if (!alike) job[d]->cost = item.cost * (60 + below(80)) / 100;
      }
    }
    PlanEffort alone = thorough;
    alone.cut_sec = 0;
    const Assignment assignment = assign(problem, {}, alone);
    const Answer cbc = solve_by_cbc(problem);
    optimal += assignment.optimal() ? 1 : 0;
    proved += cbc.proved ? 1 : 0;
    EXPECT_GE(assignment.upper_bound, cbc.value) << instance;
    if (cbc.proved) {
      EXPECT_LE(assignment.value, cbc.value) << instance;
    }
    if (cbc.proved && assignment.optimal()) {
      EXPECT_EQ(assignment.value, cbc.value) << instance;
    }
  }
  std::printf("optimal: %d, by CBC %d of %d\n", optimal, proved, instances);
}

TEST(BranchAndCut, ProvesWhatTheTreeLeavesOpen) {
  // Four devices, each its own way slow.
  std::mt19937_64 random(11);
  AssignmentProblem problem;
  problem.budgets.assign(4, 400);
  problem.group.resize(32);
  for (std::size_t j = 0; j < problem.group.size(); ++j) {
    PlanJob& job = problem.jobs.emplace_back(4);
    const auto cost = static_cast<std::int64_t>(20 + random() % 180);
    const auto value = static_cast<double>(500 + random() % 500);
    for (auto& item : job) item = PlanItem{cost * static_cast<std::int64_t>(60 + random() % 80) / 100, value};
  }
  enable_cbc();
  PlanEffort little = brief;
  const Assignment before = assign(problem, {}, little);
  ASSERT_FALSE(before.optimal());
  little.cut_sec = 60;
  const Assignment after = assign(problem, {}, little);
  EXPECT_GE(after.value, before.value);
  EXPECT_LT(after.upper_bound, before.upper_bound);
  EXPECT_TRUE(after.optimal());
  const Answer cbc = solve_by_cbc(problem);
  if (cbc.proved) {
    EXPECT_EQ(after.value, cbc.value);
  }
}

#else

TEST(PlansBesideCbc, NeedCbc) { GTEST_SKIP() << "this build found no CBC (Debian: coinor-libcbc-dev)"; }

#endif

}  // namespace
}  // namespace perfpred
