// SPDX-License-Identifier: Apache-2.0
#include "plan/chance.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace perfpred {
namespace {

constexpr double z_95 = 1.6448536269514722;

/// Runs for one device.
struct ChanceProblem : ChanceTimes {
  std::vector<double> values;
  double budget = 0;  // whole seconds
};

/// @param problems  one for each device, or one for all devices
Assignment assign_chance(std::span<const ChanceProblem> problems, std::span<const double> budgets,
                         const JobGroups& group, const Limits& limits, std::int64_t max_nodes) {
  AssignmentProblem assignment{std::vector<PlanJob>(group.size(), PlanJob(budgets.size())), {}, group};
  for (std::size_t d = 0; d < budgets.size(); ++d) {
    assignment.budgets.push_back(static_cast<std::int64_t>(budgets[d]));
    for (std::size_t j = 0; j < group.size(); ++j) {
      assignment.jobs[j][d] = PlanItem{1, problems[problems.size() == 1 ? 0 : d].values[j]};
    }
  }
  const std::vector<ChanceTimes> times(problems.begin(), problems.end());
  return assign_chance(assignment, times, limits, max_nodes);
}

Plan solve_chance(const ChanceProblem& problem, const Limits& limits, std::int64_t max_nodes) {
  const Assignment assignment = assign_chance(std::span(&problem, 1), std::span(&problem.budget, 1),
                                              JobGroups(problem.values.size()), limits, max_nodes);
  Plan plan;
  for (std::size_t j = 0; j < problem.values.size(); ++j) {
    if (assignment.device[j]) plan.chosen.push_back(j);
  }
  plan.value = assignment.value;
  plan.upper_bound = assignment.upper_bound;
  plan.optimal = assignment.optimal();
  return plan;
}

/// Log-normal times with a common part and parts of their own, as a fitted model has them.
ChanceProblem random_problem(std::mt19937_64& random, Eigen::Index n, Eigen::MatrixXd* log_covariance = nullptr) {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  Eigen::MatrixXd factors = Eigen::MatrixXd::NullaryExpr(n, 3, [&] { return 0.15 * (uniform(random) - 0.3); });
  Eigen::MatrixXd logs = factors * factors.transpose();
  for (Eigen::Index i = 0; i < n; ++i) logs(i, i) += std::pow(0.01 + 0.1 * uniform(random), 2);
  ChanceProblem problem;
  problem.z = z_95;
  problem.mean = Eigen::VectorXd::NullaryExpr(n, [&] { return 10 + 190 * uniform(random); });
  problem.fixed = Eigen::VectorXd::Constant(n, uniform(random) < 0.5 ? 0.0 : 5.0);
  problem.covariance.resize(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    problem.values.push_back(std::round(1000 * uniform(random)) / 1024);
    for (Eigen::Index k = 0; k < n; ++k) {
      problem.covariance(i, k) = problem.mean[i] * problem.mean[k] * std::expm1(logs(i, k));
    }
  }
  problem.budget = std::floor((0.2 + 0.6 * uniform(random)) * (problem.mean.sum() + problem.fixed.sum()));
  if (log_covariance != nullptr) *log_covariance = logs;
  return problem;
}

TEST(SolveChance, AgreesWithAllSubsets) {
  std::mt19937_64 random(11);
  for (int instance = 0; instance < 200; ++instance) {
    const auto n = static_cast<Eigen::Index>(1 + random() % 11);
    const ChanceProblem problem = random_problem(random, n);
    double best = 0;
    for (std::uint32_t code = 0; code < (1U << n); ++code) {
      double mean = 0;
      double fixed = 0;
      double variance = 0;
      double value = 0;
      for (Eigen::Index i = 0; i < n; ++i) {
        if ((code >> i & 1U) == 0) continue;
        mean += problem.mean[i];
        fixed += problem.fixed[i];
        value += problem.values[static_cast<std::size_t>(i)];
        for (Eigen::Index k = 0; k < n; ++k) {
          if ((code >> k & 1U) != 0) variance += problem.covariance(i, k);
        }
      }
      const double needed =
          code == 0 ? 0 : fixed + mean + z_95 * std::sqrt(variance) + (z_95 * z_95 - 1) / 2 * variance / mean;
      if (needed <= problem.budget) best = std::max(best, value);
    }
    const Plan plan = solve_chance(problem, {}, 1'000'000);
    ASSERT_TRUE(plan.optimal) << instance;
    ASSERT_DOUBLE_EQ(plan.value, best) << instance;
    double value = 0;
    for (const std::size_t index : plan.chosen) value += problem.values[index];
    ASSERT_DOUBLE_EQ(value, plan.value);
  }
}

class AssignChanceOf : public ::testing::TestWithParam<bool> {};

TEST_P(AssignChanceOf, BoundsWhatAllPlacesReach) {
  const bool grouped = GetParam();
  std::mt19937_64 random(14);
  double shortfall = 0;
  int missed = 0;
  constexpr int instances = 60;
  for (int instance = 0; instance < instances; ++instance) {
    const bool alike = instance % 2 == 0;
    const auto n = static_cast<Eigen::Index>(2 + random() % 6);
    std::vector<ChanceProblem> problems = {random_problem(random, n)};
    problems[0].budget = std::floor(problems[0].budget / 2);
    if (!alike) {
      problems.push_back(random_problem(random, n));
      problems[1].budget = std::floor(problems[1].budget / 2);
    }
    const ChanceProblem& first = problems.front();
    const ChanceProblem& second = problems.back();
    JobGroups group(static_cast<std::size_t>(n));
    if (grouped) group[0] = group[1] = 0;
    double best = -1;
    std::uint32_t places = 1;
    for (Eigen::Index i = 0; i < n; ++i) places *= 3;
    for (std::uint32_t code = 0; code < places; ++code) {
      Eigen::VectorXd on_first = Eigen::VectorXd::Zero(n);
      Eigen::VectorXd on_second = Eigen::VectorXd::Zero(n);
      double value = 0;
      if (grouped && code % 9 == 0) continue;  // neither of the first two
      std::uint32_t rest = code;
      for (Eigen::Index i = 0; i < n; ++i, rest /= 3) {
        if (rest % 3 == 1) on_first[i] = 1;
        if (rest % 3 == 2) on_second[i] = 1;
        if (rest % 3 == 1) value += first.values[static_cast<std::size_t>(i)];
        if (rest % 3 == 2) value += second.values[static_cast<std::size_t>(i)];
      }
      if (first.needed(on_first) <= first.budget && second.needed(on_second) <= second.budget)
        best = std::max(best, value);
    }
    const std::array budgets = {first.budget, second.budget};
    const Assignment assignment = assign_chance(problems, budgets, group, {}, 100'000);
    if (!assignment.found()) {
      missed += best >= 0 ? 1 : 0;
      continue;
    }
    EXPECT_TRUE(covers_groups(group, assignment.device));
    double value = 0;
    for (std::size_t d = 0; d < 2; ++d) {
      const ChanceProblem& problem = d == 0 ? first : second;
      Eigen::VectorXd set = Eigen::VectorXd::Zero(n);
      for (Eigen::Index i = 0; i < n; ++i) {
        if (assignment.device[static_cast<std::size_t>(i)] != d) continue;
        set[i] = 1;
        value += problem.values[static_cast<std::size_t>(i)];
      }
      EXPECT_LE(problem.needed(set), problem.budget) << instance;
    }
    EXPECT_DOUBLE_EQ(assignment.value, value) << instance;
    EXPECT_GE(assignment.upper_bound, best * (1 - 1e-12)) << instance;
    EXPECT_LE(assignment.value, best * (1 + 1e-12)) << instance;
    if (assignment.optimal()) {
      EXPECT_NEAR(assignment.value, best, 1e-12 * best) << instance;
    }
    shortfall += best > 0 ? 1 - assignment.value / best : 0;
  }
  EXPECT_LT(shortfall / instances, 0.02);
  EXPECT_EQ(missed, 0);
}
INSTANTIATE_TEST_SUITE_P(WithAndWithoutGroups, AssignChanceOf, ::testing::Bool());

TEST(SolveChance, IsProvedOrBoundedForAHundredRuns) {
  std::mt19937_64 random(12);
  for (int instance = 0; instance < 10; ++instance) {
    const ChanceProblem problem = random_problem(random, 120);
    const Plan plan = solve_chance(problem, {}, 200'000);
    Eigen::VectorXd set = Eigen::VectorXd::Zero(120);
    for (const std::size_t index : plan.chosen) set[static_cast<Eigen::Index>(index)] = 1;
    EXPECT_LE(problem.needed(set), problem.budget);
    EXPECT_GE(plan.value, 0.99 * plan.upper_bound);
  }
}

TEST(SolveChance, NeedsTheTimeThatIsKeptAsOftenAsItSays) {
  std::mt19937_64 random(13);
  std::normal_distribution<double> normal;
  constexpr Eigen::Index n = 30;
  constexpr int draws = 20'000;
  struct Level {
    double probability;
    double z;
  };
  for (const Level& level :
       {Level{0.5, 0.0}, Level{0.9, 1.2815515655446004}, Level{0.95, z_95}, Level{0.99, 2.3263478740408408}}) {
    Eigen::MatrixXd logs;
    ChanceProblem problem = random_problem(random, n, &logs);
    problem.z = level.z;
    const Plan plan = solve_chance(problem, {}, 100'000);
    const Eigen::MatrixXd root = logs.llt().matrixL();
    Eigen::VectorXd set = Eigen::VectorXd::Zero(n);
    for (const std::size_t index : plan.chosen) set[static_cast<Eigen::Index>(index)] = 1;
    const double needed = problem.needed(set);
    EXPECT_LE(needed, problem.budget);
    int kept = 0;
    for (int draw = 0; draw < draws; ++draw) {
      const Eigen::VectorXd errors = root * Eigen::VectorXd::NullaryExpr(n, [&] { return normal(random); });
      double total = 0;
      for (const std::size_t index : plan.chosen) {
        const auto i = static_cast<Eigen::Index>(index);
        total += problem.fixed[i] + problem.mean[i] * std::exp(errors[i] - logs(i, i) / 2);
      }
      if (total <= needed) ++kept;
    }
    const double deviation = std::sqrt(level.probability * (1 - level.probability) / draws);
    EXPECT_GE(kept / double{draws}, level.probability - 4 * deviation);
    EXPECT_LE(kept / double{draws}, level.probability + 0.25 * (1 - level.probability)) << "wasteful";
  }
}

TEST(SolveChance, StopsWithABoundWhenTheTimeIsUp) {
  std::mt19937_64 random(15);
  for (int instance = 0; instance < 20; ++instance) {
    const ChanceProblem problem = random_problem(random, instance == 0 ? 1 : 40);
    const double all = std::accumulate(problem.values.begin(), problem.values.end(), 0.0);
    const double best = solve_chance(problem, {}, 1'000'000).value;
    for (const double time_sec : {0.0, 1e-5, 1e-4, 1e-3}) {
      PlanLimits limits;
      limits.time_sec = time_sec;
      const Plan plan = solve_chance(problem, Limits(limits), 1'000'000);
      EXPECT_LE(plan.value, best * (1 + 1e-12));
      EXPECT_GE(plan.upper_bound, best * (1 - 1e-12));
      EXPECT_LE(plan.upper_bound, all * (1 + 1e-12));
      EXPECT_GE(plan.value, 0.5 * best);
    }
  }
}

TEST(AssignChance, StopsWithABoundWhenTheTimeIsUp) {
  std::mt19937_64 random(16);
  PlanLimits no_time;
  no_time.time_sec = 0;
  for (int instance = 0; instance < 20; ++instance) {
    const std::vector<ChanceProblem> problem = {random_problem(random, 20)};
    const std::array budgets = {problem[0].budget, std::floor(0.5 * problem[0].budget),
                                std::floor(0.1 * problem[0].budget)};
    JobGroups group(20);
    if (instance % 2 == 1) group[0] = group[1] = 0;
    const Assignment stopped = assign_chance(problem, budgets, group, Limits(no_time), 100'000);
    const Assignment best = assign_chance(problem, budgets, group, {}, 100'000);
    EXPECT_GE(stopped.upper_bound, best.value);
    EXPECT_LE(stopped.value, best.upper_bound);
    for (std::size_t d = 0; d < budgets.size(); ++d) {
      Eigen::VectorXd set = Eigen::VectorXd::Zero(20);
      for (std::size_t j = 0; j < 20; ++j) {
        if (stopped.device[j] == d) set[static_cast<Eigen::Index>(j)] = 1;
      }
      EXPECT_LE(problem[0].needed(set), budgets[d]);
    }
  }
}

TEST(SolveChance, CertainTimesAreAKnapsack) {
  ChanceProblem problem;
  problem.values = {0.5, 0.7, 0.9, 0.95};
  problem.mean = Eigen::Vector4d(10, 20, 30, 45);
  problem.fixed = Eigen::Vector4d::Zero();
  problem.covariance = Eigen::Matrix4d::Zero();
  problem.z = z_95;
  problem.budget = 50;
  const Plan plan = solve_chance(problem, {}, 1000);
  EXPECT_EQ(plan.chosen, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(plan.optimal);
}

}  // namespace
}  // namespace perfpred
