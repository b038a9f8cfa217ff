// SPDX-License-Identifier: Apache-2.0
// Of plans of one value the first to end, then the cheapest, against all sets in all orders.
#include "plan/second_goals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dated_instances.h"

namespace perfpred {
namespace {

using testing::DatedInstance;
using testing::Dates;

struct Instance {
  DatedInstance dated;
  SecondGoals goals;
};

/// Small values, so that many plans are worth the same.
Instance instance_of(std::uint64_t seed, std::size_t devices, bool has_dates, std::size_t most_jobs) {
  testing::Dice dice(seed + 77);
  Instance one{testing::dated_instance(seed, devices, Dates::both, most_jobs), {}};
  const bool same_everywhere = dice.below(2) == 0;
  for (PlanJob& job : one.dated.problem.jobs) {
    const auto value = static_cast<double>(dice.below(3));
    for (auto& item : job) {
      if (item) item->value = same_everywhere ? value : static_cast<double>(dice.below(3));
    }
  }
  for (std::size_t d = 0; d < devices; ++d) one.goals.free_from.push_back(dice.below(3) == 0 ? dice.below(10) : 0);
  if (has_dates) one.goals.windows = one.dated.windows;
  if (!has_dates) {
    for (auto& job : one.dated.windows) std::fill(job.begin(), job.end(), TimeWindow());
  }
  if (dice.below(2) != 0) return one;
  for (const PlanJob& job : one.dated.problem.jobs) {
    std::vector<double>& prices = one.goals.prices.emplace_back(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      if (job[d]) prices[d] = static_cast<double>(job[d]->cost * (1 + static_cast<std::int64_t>(d))) / 8;
    }
  }
  return one;
}

struct Plan3 {
  double value;
  std::int64_t end;
  double price;
};

/// Every set on every device, where its order ends first.
std::vector<Plan3> all_plans(const Instance& one) {
  const AssignmentProblem& problem = one.dated.problem;
  const unsigned sets = 1U << problem.jobs.size();
  std::vector<std::vector<std::optional<Plan3>>> of(problem.budgets.size());
  for (std::size_t d = 0; d < of.size(); ++d) {
    for (unsigned set = 0; set < sets; ++set) {
      const auto end = testing::first_end(one.dated, d, set);
      auto& plan = of[d].emplace_back();
      if (!end) continue;
      plan = Plan3{testing::value_of(one.dated, d, set), set == 0 ? 0 : one.goals.free_from[d] + *end, 0};
      for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
        if (((set >> j) & 1U) == 0) continue;
        plan->price +=
            one.goals.prices.empty() ? static_cast<double>(problem.jobs[j][d]->cost) : one.goals.prices[j][d];
      }
    }
  }
  std::vector<Plan3> plans;
  for (unsigned all = 0; all < sets; ++all) {
    for (unsigned first = all;; first = (first - 1) & all) {
      if (of.size() == 1 && first == all && of[0][all]) plans.push_back(*of[0][all]);
      if (of.size() == 2 && of[0][first] && of[1][all & ~first]) {
        const Plan3 &a = *of[0][first], &b = *of[1][all & ~first];
        plans.push_back({a.value + b.value, std::max(a.end, b.end), a.price + b.price});
      }
      if (first == 0) break;
    }
  }
  return plans;
}

struct Count {
  int plans = 0, first_to_end = 0, said_first = 0, cheapest = 0, said_cheapest = 0;
};

void compare(const Instance& one, Count& count) {
  const AssignmentProblem& problem = one.dated.problem;
  constexpr PlanEffort quick = {100, 20, 20'000, 0};
  Assignment plan =
      one.goals.windows.empty() ? assign(problem, {}, quick) : assign_dated(problem, one.goals.windows, {}, quick);
  ASSERT_TRUE(plan.found());
  const double value = plan.value;
  const SecondBounds reached = reach_second_goals(problem, one.goals, plan, {});
  EXPECT_EQ(plan.value, value);

  std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
  double least_price = std::numeric_limits<double>::infinity();
  bool exists = false;
  for (const Plan3& other : all_plans(one)) {
    if (other.value < value) continue;
    first_end = std::min(first_end, other.end);
    if (other.end <= reached.makespan) least_price = std::min(least_price, other.price);
    exists = exists || (other.value == value && other.end == reached.makespan && other.price == reached.price);
  }
  EXPECT_TRUE(exists);  // the plan ends when it says, at the price that it says
  EXPECT_LE(reached.makespan_bound, first_end);
  ++count.plans;
  count.first_to_end += reached.makespan == first_end ? 1 : 0;
  if (reached.makespan_bound == reached.makespan) {
    EXPECT_EQ(reached.makespan, first_end);
    ++count.said_first;
  }
  count.cheapest += reached.price == least_price ? 1 : 0;
  if (!reached.price_bound) return;
  EXPECT_LE(*reached.price_bound, least_price);
  if (*reached.price_bound == reached.price) ++count.said_cheapest;
}

TEST(SecondGoals, AreReachedAmongAllPlansOfTheValue) {
  for (const std::size_t devices : {1U, 2U}) {
    for (const bool has_dates : {false, true}) {
      Count count;
      for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", devices " + std::to_string(devices) +
                     (has_dates ? ", dates" : ""));
        compare(instance_of(seed, devices, has_dates, devices == 1 ? 7 : 6), count);
      }
      std::printf("%zu devices%s: of %d plans %d end first (said of %d), %d are cheapest (said of %d)\n", devices,
                  has_dates ? ", dates" : "", count.plans, count.first_to_end, count.said_first, count.cheapest,
                  count.said_cheapest);
      EXPECT_GE(count.said_first, devices == 1 ? count.plans : count.plans * 9 / 10);
      EXPECT_GE(count.first_to_end, count.said_first);
      if (devices == 1 && !has_dates) {
        EXPECT_EQ(count.first_to_end, count.plans);
      }
    }
  }
}

/// n equal devices, jobs of such costs, each worth 1: all fit.
SecondBounds spread(const std::vector<std::int64_t>& costs, std::size_t devices, Assignment& plan) {
  AssignmentProblem problem;
  problem.budgets.assign(devices, 1'000'000);
  problem.group.resize(costs.size());
  for (const std::int64_t cost : costs) problem.jobs.emplace_back(devices, PlanItem{cost, 1});
  plan = assign(problem, {});
  EXPECT_TRUE(plan.optimal());
  return reach_second_goals(problem, {std::vector<std::int64_t>(devices), {}, {}}, plan, {});
}

TEST(SecondGoals, SpreadJobsThatAllFitOverTheDevices) {
  Assignment plan;
  // The longest job first ends at 11 (R. Graham, SIAM J. Appl. Math. 17, 1969); the best at 9.
  const SecondBounds graham = spread({5, 5, 4, 4, 3, 3, 3}, 3, plan);
  EXPECT_EQ(graham.makespan, 9);
  EXPECT_EQ(graham.makespan_bound, 9);
  EXPECT_EQ(graham.price, 27);
  testing::Dice dice(3);
  std::vector<std::int64_t> costs;
  std::int64_t sum = 0;
  for (int i = 0; i < 130; ++i) sum += costs.emplace_back(60 + dice.below(5000));
  const SecondBounds many = spread(costs, 4, plan);
  EXPECT_GE(many.makespan_bound, (sum + 3) / 4);  // what all devices busy to the end take
  EXPECT_LE(static_cast<double>(many.makespan), static_cast<double>(sum) / 4 * 1.001);
}

}  // namespace
}  // namespace perfpred
