// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "dice.h"
#ifdef PERFPRED_TEST_CBC
#include <perfpred/cbc/enable_cbc.h>
#endif

namespace perfpred {
namespace {

using testing::Dice;

AssignmentProblem random_problem(Dice& dice, std::size_t jobs, std::size_t devices, bool alike) {
  AssignmentProblem problem;
  const std::int64_t range = dice.below(2) == 0 ? 10 : 100;
  const std::int64_t budget = range + dice.below(range * static_cast<std::int64_t>(jobs) / 3);
  for (std::size_t d = 0; d < devices; ++d) problem.budgets.push_back(alike ? budget : 1 + dice.below(budget));
  problem.group.resize(jobs);
  for (std::size_t j = 0; j < jobs; ++j) {
    PlanJob& job = problem.jobs.emplace_back(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      if (alike && d > 0) {
        job[d] = job[0];
      } else if (alike || dice.below(8) != 0) {
        job[d] = PlanItem{1 + dice.below(range), static_cast<double>(dice.below(range)) / 4};
      }
    }
  }
  return problem;
}

/// Two or three devices, few enough jobs to try every place.
AssignmentProblem small_problem(Dice& dice, bool alike) {
  const std::size_t devices = 2 + static_cast<std::size_t>(dice.below(2));
  return random_problem(dice, 1 + static_cast<std::size_t>(dice.below(devices == 2 ? 9 : 7)), devices, alike);
}

/// Tries every place of every job.
double best_of_all(const AssignmentProblem& problem) {
  const std::size_t devices = problem.budgets.size();
  std::vector<std::size_t> place(problem.jobs.size(), devices);
  std::size_t groups = 0;
  for (const auto& group : problem.group) groups = std::max(groups, group ? *group + 1 : 0);
  double best = -1;
  while (true) {
    std::vector<std::int64_t> left = problem.budgets;
    std::vector<bool> covered(groups);
    double value = 0;
    bool valid = true;
    for (std::size_t j = 0; j < place.size() && valid; ++j) {
      if (place[j] == devices) continue;
      const auto& item = problem.jobs[j][place[j]];
      valid = item && (left[place[j]] -= item->cost) >= 0;
      if (!valid) break;
      value += item->value;
      if (problem.group[j]) covered[*problem.group[j]] = true;
    }
    if (valid && std::count(covered.begin(), covered.end(), false) == 0) best = std::max(best, value);
    std::size_t j = 0;
    while (j < place.size() && place[j] == 0) place[j++] = devices;
    if (j == place.size()) return best;
    --place[j];
  }
}

void expect_valid(const AssignmentProblem& problem, const Assignment& assignment) {
  std::vector<std::int64_t> left = problem.budgets;
  double value = 0;
  ASSERT_EQ(assignment.device.size(), problem.jobs.size());
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (!assignment.device[j]) continue;
    const auto& item = problem.jobs[j][*assignment.device[j]];
    ASSERT_TRUE(item.has_value());
    left[*assignment.device[j]] -= item->cost;
    value += item->value;
  }
  for (const std::int64_t one : left) EXPECT_GE(one, 0);
  EXPECT_EQ(value, assignment.value);  // quarters: exact
  EXPECT_LE(assignment.value, assignment.upper_bound);
}

/// Whether what several devices leave open is proved: a build without CBC only bounds it.
bool proves_several_devices() {
#ifdef PERFPRED_TEST_CBC
  enable_cbc();
  return true;
#else
  return false;
#endif
}

/// @param best  the value of the best plan; negative if there is none
void expect_bounded(const AssignmentProblem& problem, const Assignment& assignment, double best) {
  expect_valid(problem, assignment);
  if (assignment.status == PlanStatus::infeasible) {
    EXPECT_LT(best, 0);
  } else {
    EXPECT_GE(assignment.upper_bound, best);
  }
  if (assignment.found()) {
    EXPECT_LE(assignment.value, best);
  }
}

/// @param best  the value of the best plan; negative if there is none
void expect_solved(const AssignmentProblem& problem, const Assignment& assignment, double best) {
  EXPECT_EQ(assignment.status, best >= 0 ? PlanStatus::optimal : PlanStatus::infeasible);
  expect_valid(problem, assignment);
  if (best >= 0) {
    EXPECT_EQ(assignment.value, best);
  }
}

TEST(Assign, AgreesWithAllPlacesOnSeveralDevices) {
  Dice dice(5);
  const bool proved = proves_several_devices();
  for (int instance = 0; instance < 400; ++instance) {
    const bool alike = instance % 2 == 0;
    const AssignmentProblem problem = small_problem(dice, alike);
    const double best = best_of_all(problem);
    ASSERT_NO_FATAL_FAILURE(expect_bounded(problem, assign(problem, {}, brief), best)) << instance;
    if (!proved) continue;
    ASSERT_NO_FATAL_FAILURE(expect_solved(problem, assign(problem, {}), best)) << instance;
  }
}

TEST(Assign, BoundsWhatItCannotProve) {
  Dice dice(6);
  for (const bool alike : {true, false}) {
    const AssignmentProblem problem = random_problem(dice, 300, 4, alike);
    const Assignment assignment = assign(problem, {}, brief);
    expect_valid(problem, assignment);
    EXPECT_GE(assignment.value, 0.98 * assignment.upper_bound);
  }
}

/// Puts most jobs into one of a few groups.
void group_randomly(AssignmentProblem& problem, Dice& dice) {
  const std::int64_t groups = 1 + dice.below(4);
  std::map<std::size_t, std::size_t> names;
  for (auto& group : problem.group) {
    if (dice.below(5) == 0) continue;
    const auto drawn = static_cast<std::size_t>(dice.below(groups));
    group = names.emplace(drawn, names.size()).first->second;
  }
}

TEST(Assign, CoversEveryGroup) {
  Dice dice(7);
  int infeasible = 0;
  for (int instance = 0; instance < 1000; ++instance) {
    AssignmentProblem problem = random_problem(dice, 1 + static_cast<std::size_t>(dice.below(12)), 1, true);
    group_randomly(problem, dice);
    const double best = best_of_all(problem);
    ASSERT_EQ(best<0, cheapest_cover(problem)> problem.budgets[0]) << instance;
    const Assignment assignment = assign(problem, {});
    ASSERT_NO_FATAL_FAILURE(expect_solved(problem, assignment, best)) << instance;
    if (best < 0) ++infeasible;
  }
  EXPECT_GT(infeasible, 50);
}

TEST(Assign, CoversEveryGroupOnSeveralDevices) {
  Dice dice(8);
  const bool proved = proves_several_devices();
  int infeasible = 0;
  for (int instance = 0; instance < 600; ++instance) {
    AssignmentProblem problem = small_problem(dice, instance % 2 == 0);
    group_randomly(problem, dice);
    const double best = best_of_all(problem);
    if (best < 0) ++infeasible;
    ASSERT_NO_FATAL_FAILURE(expect_bounded(problem, assign(problem, {}, brief), best)) << instance;
    if (!proved) continue;
    ASSERT_NO_FATAL_FAILURE(expect_solved(problem, assign(problem, {}), best)) << instance;
  }
  EXPECT_GT(infeasible, 30);
}

TEST(Assign, CoversHundredsOfJobsOnDifferentDevices) {
  Dice dice(9);
  AssignmentProblem problem = random_problem(dice, 300, 4, false);
  for (std::size_t j = 0; j < problem.group.size(); ++j) problem.group[j] = j % 40;
  const Assignment assignment = assign(problem, {}, brief);
  ASSERT_TRUE(assignment.found());
  EXPECT_TRUE(covers_groups(problem.group, assignment.device));
  expect_valid(problem, assignment);
  EXPECT_GE(assignment.value, 0.98 * assignment.upper_bound);
}

/// A cover whose partial plans multiply: costs and values of nine digits, so that hardly any dominates another. The
/// jobs of one group are worth too little to be chosen without a cover.
AssignmentProblem large_cover() {
  Dice dice(12);
  AssignmentProblem problem;
  std::int64_t total = 0;
  for (std::size_t j = 0; j < 60; ++j) {
    const std::int64_t cost = 100'000'000 + dice.below(900'000'000);
    const auto value = static_cast<double>(cost + dice.below(50'000'000));
    problem.jobs.push_back({PlanItem{cost, j % 6 == 0 ? value / 2 : value}});
    problem.group.push_back(j % 6);
    total += cost;
  }
  problem.budgets = {total / 2};
  return problem;
}

TEST(Assign, KeepsTheMemoryLimitOfACover) {
  const AssignmentProblem problem = large_cover();
  PlanLimits little;
  little.memory_bytes = 100'000;
  const Assignment assignment = assign(problem, Limits(little));
  EXPECT_EQ(assignment.status, PlanStatus::feasible);  // a search without a limit makes millions of partial plans
  EXPECT_TRUE(covers_groups(problem.group, assignment.device));
  EXPECT_LE(assignment.value, assignment.upper_bound);
  EXPECT_GE(assignment.value, 0.95 * assignment.upper_bound);
}

TEST(Assign, TellsALimitFromACoverThatCannotBe) {
  // Every job must run, and only an exact partition of the costs fits: there is one, but no search finds it at once.
  Dice dice(13);
  AssignmentProblem problem;
  std::int64_t left_over = 0;
  for (std::size_t j = 0; j < 40; ++j) {
    const std::int64_t drawn = (j % 2 == 0 ? 500'000'000 : 300'000'000) + dice.below(400'000'000);
    const std::int64_t cost = j + 1 < 40 ? drawn : left_over;
    left_over += j % 2 == 0 ? cost : -cost;
    problem.jobs.push_back(PlanJob(2, PlanItem{cost, 1}));
    problem.group.push_back(j);
    if (j % 2 == 0) problem.budgets.assign(2, (problem.budgets.empty() ? 0 : problem.budgets[0]) + cost);
  }
  ASSERT_EQ(left_over, 0);
  PlanLimits no_time;
  no_time.time_sec = 0;
  const Assignment stopped = assign(problem, Limits(no_time));
  EXPECT_EQ(stopped.status, PlanStatus::unknown);
  EXPECT_GE(stopped.upper_bound, 40);
  // One job that no device holds.
  problem.jobs[0].assign(2, PlanItem{problem.budgets[0] + 1, 1});
  EXPECT_EQ(assign(problem, Limits(no_time)).status, PlanStatus::infeasible);
}

TEST(Assign, BoundsValuesThatNoWholeNumberHolds) {
  AssignmentProblem problem;
  problem.budgets = {10, 10};
  problem.group.resize(3);
  problem.jobs = {PlanJob(2, PlanItem{10, 1e-200}), PlanJob(2, PlanItem{10, 1e200}), PlanJob(2, PlanItem{10, 2e-200})};
  const Assignment assignment = assign(problem, {}, brief);
  EXPECT_EQ(assignment.status, PlanStatus::feasible);
  EXPECT_EQ(assignment.value, 1e200);
  EXPECT_GE(assignment.upper_bound, 1e200);
  EXPECT_LE(assignment.upper_bound, 1e200 * (1 + 1e-15));
}

TEST(Assign, SumsTheValuesOfItsJobsWhereTheUnitIsTooCoarse) {
  // The first job must run, so that the last does not fit; in a unit that holds the last, the others are one each.
  AssignmentProblem problem;
  problem.jobs = {{PlanItem{3, 1e-30}}, {PlanItem{2, 3e-30}}, {PlanItem{5, 1e30}}};
  problem.group = {0, std::nullopt, std::nullopt};
  for (const std::size_t devices : {1U, 2U}) {
    problem.budgets.assign(devices, 5);
    for (PlanJob& job : problem.jobs) job.resize(devices);
    const Assignment assignment = assign(problem, {}, brief);
    ASSERT_TRUE(assignment.found());
    EXPECT_EQ(assignment.value, 1e-30 + 3e-30);
    EXPECT_GE(assignment.upper_bound, assignment.value);
  }
}

}  // namespace
}  // namespace perfpred
