// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "knapsack_instances.h"
#include "refusal.h"

namespace perfpred {
namespace {

using testing::KnapsackClass;
using testing::KnapsackInstance;
using testing::make_instance;

/// Values are whole multiples of 2^-shift, so sums of the multiples are exact.
struct WholeItem {
  std::int64_t cost;
  std::int64_t multiple;
};

/// Every subset, in Gray code order.
std::int64_t best_of_all_subsets(const std::vector<WholeItem>& items, std::int64_t budget) {
  std::int64_t best = 0;
  std::int64_t cost = 0;
  std::int64_t multiple = 0;
  for (std::uint32_t code = 1; code < (1U << items.size()); ++code) {
    const auto bit = static_cast<std::size_t>(__builtin_ctz(code));
    const bool added = ((code ^ (code >> 1U)) >> bit & 1U) != 0;
    cost += added ? items[bit].cost : -items[bit].cost;
    multiple += added ? items[bit].multiple : -items[bit].multiple;
    if (cost <= budget && multiple > best) best = multiple;
  }
  return best;
}

void expect_consistent(const Plan& plan, const std::vector<PlanItem>& items, std::int64_t budget) {
  std::int64_t cost = 0;
  double value = 0;
  for (std::size_t i = 0; i < plan.chosen.size(); ++i) {
    ASSERT_LT(plan.chosen[i], items.size());
    if (i > 0) {
      ASSERT_LT(plan.chosen[i - 1], plan.chosen[i]);
    }
    cost += items[plan.chosen[i]].cost;
    value += items[plan.chosen[i]].value;
  }
  EXPECT_EQ(cost, plan.cost);
  EXPECT_NEAR(value, plan.value, 1e-12 * value);  // added in another order
  EXPECT_LE(cost, budget);
  EXPECT_LE(plan.value, plan.upper_bound);
  if (plan.optimal) {
    EXPECT_EQ(plan.value, plan.upper_bound);
  }
}

TEST(KnapsackPlanner, AgreesWithAllSubsets) {
  std::mt19937_64 random(20240607);
  const auto below = [&random](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  constexpr int instances = 100'000;
  for (int instance = 0; instance < instances; ++instance) {
    const std::int64_t dice = below(1000);
    const auto n = static_cast<std::size_t>(dice == 0 ? 17 + below(6) : dice < 40 ? 11 + below(6) : below(11));
    constexpr std::int64_t ranges[] = {4, 30, 1000, 1'000'000};
    const std::int64_t range = ranges[below(4)];
    const std::int64_t form = below(7);
    const int shift = form == 6 ? 50 : static_cast<int>(below(3)) * 10;
    std::vector<WholeItem> whole;
    std::vector<PlanItem> items;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t cost = 1 + below(range);
      std::int64_t multiple = 0;
      switch (form) {
        case 0:
          multiple = below(range);
          break;
        case 1:
          multiple = cost + range / 10;
          break;
        case 2:
          multiple = cost;
          cost += range / 10;
          break;
        case 3:
          multiple = cost + range / 10 + below(1 + range / 250);
          break;
        case 4:
          multiple = cost;
          break;
        case 5:
          multiple = std::max<std::int64_t>(0, cost - range / 10 + below(1 + range / 5));
          break;
        default:
          multiple = below(std::int64_t{1} << 50U);
          break;
      }
      whole.push_back({cost, multiple});
      items.push_back({cost, std::ldexp(static_cast<double>(multiple), -shift)});
      total += cost;
    }
    const std::int64_t budget = below(total + 2);
    const std::int64_t best = best_of_all_subsets(whole, budget);
    const Plan plan = KnapsackPlanner(budget).plan(items);
    expect_consistent(plan, items, budget);
    std::int64_t chosen = 0;
    for (const std::size_t index : plan.chosen) chosen += whole[index].multiple;
    ASSERT_EQ(chosen, best) << "instance " << instance << " of form " << form << ", n " << n << ", budget " << budget;
    ASSERT_TRUE(plan.optimal) << instance;
    ASSERT_EQ(plan.value, std::ldexp(static_cast<double>(best), -shift)) << instance;
  }
}

/// All sums of costs up to the budget: the textbook table, for whole values.
std::int64_t best_by_table(const KnapsackInstance& instance) {
  std::vector<std::int64_t> best(static_cast<std::size_t>(instance.budget) + 1, 0);
  for (const PlanItem& item : instance.items) {
    for (std::int64_t room = instance.budget; room >= item.cost; --room) {
      auto& value = best[static_cast<std::size_t>(room)];
      value = std::max(value, best[static_cast<std::size_t>(room - item.cost)] + static_cast<std::int64_t>(item.value));
    }
  }
  return best.back();
}

class EveryClass : public ::testing::TestWithParam<KnapsackClass> {};

TEST_P(EveryClass, AgreesWithTheTextbookTable) {
  for (const std::size_t n : {50U, 200U}) {
    for (int number = 1; number <= 9; ++number) {
      const std::int64_t range = GetParam() == KnapsackClass::similar_weights ? 10 : 1000;
      const KnapsackInstance instance =
          make_instance(GetParam(), n, range, static_cast<std::uint64_t>(number), number, 9);
      const Plan plan = KnapsackPlanner(instance.budget).plan(instance.items);
      expect_consistent(plan, instance.items, instance.budget);
      EXPECT_TRUE(plan.optimal);
      EXPECT_EQ(plan.value, static_cast<double>(best_by_table(instance))) << "n " << n << ", number " << number;
    }
  }
}

TEST_P(EveryClass, StopsWithAValidBoundWhenItMay) {
  const KnapsackInstance instance = make_instance(GetParam(), 400, 1000, 7);
  const double best = KnapsackPlanner(instance.budget).plan(instance.items).value;
  PlanLimits no_time;
  no_time.time_sec = 0;
  PlanLimits no_memory;
  no_memory.memory_bytes = 4096;
  PlanLimits stopped;
  std::stop_source source;
  source.request_stop();
  stopped.stop = source.get_token();
  for (const PlanLimits& limits : {no_time, no_memory, stopped}) {
    const Plan plan = KnapsackPlanner(instance.budget, limits).plan(instance.items);
    expect_consistent(plan, instance.items, instance.budget);
    EXPECT_LE(plan.value, best);
    EXPECT_GE(plan.upper_bound, best);
    EXPECT_GT(plan.value, 0.5 * best);
  }
}

std::string class_name(const ::testing::TestParamInfo<KnapsackClass>& info) {
  return std::string(testing::name(info.param));
}
INSTANTIATE_TEST_SUITE_P(KnapsackPlanner, EveryClass, ::testing::ValuesIn(testing::knapsack_classes), class_name);

class ClassicClass : public ::testing::TestWithParam<KnapsackClass> {};

TEST_P(ClassicClass, IsProvedForTenThousandItems) {
  for (const int number : {20, 50, 80}) {
    const KnapsackInstance instance = make_instance(GetParam(), 10'000, 100'000, 3, number);
    const Plan plan = KnapsackPlanner(instance.budget).plan(instance.items);
    expect_consistent(plan, instance.items, instance.budget);
    EXPECT_TRUE(plan.optimal);
  }
}
INSTANTIATE_TEST_SUITE_P(KnapsackPlanner, ClassicClass,
                         ::testing::ValuesIn(testing::knapsack_classes.begin(), testing::knapsack_classes.begin() + 8),
                         class_name);

TEST(KnapsackPlanner, ComparesRealValuesWithoutRounding) {
  // 0.1 + 0.2 exceeds 0.3 as doubles are added, and exceeds it exactly by 2^-55 here.
  const std::vector<PlanItem> items = {{2, 0.3}, {1, 0.1}, {1, 0.2}};
  const Plan plan = KnapsackPlanner(2).plan(items);
  EXPECT_EQ(plan.chosen, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(plan.optimal);
  // Doubles cannot tell 1e16 + 1 from 1e16; the plan can.
  const std::vector<PlanItem> large = {{2, 1e16}, {1, 1e16 - 2}, {1, 3}};
  EXPECT_EQ(KnapsackPlanner(2).plan(large).chosen, (std::vector<std::size_t>{1, 2}));
}

TEST(KnapsackPlanner, BoundsValuesThatNoWholeNumberHolds) {
  const std::vector<PlanItem> items = {{1, 1e300}, {1, 5e-324}, {1, 1e-300}, {1, 1.0}};
  const Plan three = KnapsackPlanner(3).plan(items);
  expect_consistent(three, items, 3);
  EXPECT_EQ(three.value, 1e300);
  EXPECT_GE(three.upper_bound, 1e300);
  EXPECT_LE(three.upper_bound, 1e300 * (1 + 1e-15));
  EXPECT_FALSE(three.optimal);                          // which three of these are worth most is not decided
  EXPECT_TRUE(KnapsackPlanner(4).plan(items).optimal);  // all of them
  constexpr double most = std::numeric_limits<double>::max();
  const std::vector<PlanItem> largest = {{2, most}, {1, most / 2}, {1, most / 2}, {3, 1e-300}};
  const Plan plan = KnapsackPlanner(3).plan(largest);
  EXPECT_EQ(plan.chosen.size(), 2U);
  EXPECT_EQ(plan.value, std::numeric_limits<double>::infinity());
}

TEST(KnapsackPlanner, TellsApartWhatDiffersInTheThirtiethDigit) {
  const std::vector<PlanItem> items = {{1, 0x1p50}, {1, 0x1p-50}, {1, 0x1p-49}};
  const Plan plan = KnapsackPlanner(2).plan(items);
  EXPECT_EQ(plan.chosen, (std::vector<std::size_t>{0, 2}));
  EXPECT_TRUE(plan.optimal);
}

/// A set of steps of more than one block of 64 of the dynamic program, which ended in the wrong set or in none.
TEST(KnapsackPlanner, IsWorthWhatItsSetIsWorthAfterManySteps) {
  for (const std::uint64_t seed : {9U, 13U, 14U, 34U, 36U}) {
    std::mt19937_64 random(seed);
    std::vector<PlanItem> items;
    std::int64_t total = 0;
    for (int i = 0; i < 900; ++i) {
      const auto cost = static_cast<std::int64_t>(1 + random() % 10'000'000);
      const auto hundredths = static_cast<double>(random() % 20'972);
      items.push_back({cost, static_cast<double>(cost) * (1 + hundredths / 0x1p20)});
      total += cost;
    }
    for (const int percent : {10, 30, 50, 70}) {
      const Plan plan = KnapsackPlanner(total / 100 * percent).plan(items);
      expect_consistent(plan, items, total / 100 * percent);
      EXPECT_TRUE(plan.optimal);
    }
  }
}

TEST(KnapsackPlanner, AddsManyValuesWithOneRounding) {
  // 2^53 and 2^10 ones: added one by one in doubles, the ones are lost.
  std::vector<PlanItem> items(1025, PlanItem{1, 1.0});
  items[7].value = 0x1p53;
  EXPECT_EQ(KnapsackPlanner(1025).plan(items).value, 0x1p53 + 0x1p10);
  // Just above the middle of two doubles, just below it, and on it: to the even one.
  EXPECT_EQ(KnapsackPlanner(3).plan(std::vector<PlanItem>{{1, 0x1p53}, {1, 1.0}, {1, 0x1p-50}}).value, 0x1p53 + 2);
  EXPECT_EQ(KnapsackPlanner(3).plan(std::vector<PlanItem>{{1, 0x1p53}, {1, 0.5}, {1, 0.25}}).value, 0x1p53);
  EXPECT_EQ(KnapsackPlanner(3).plan(std::vector<PlanItem>{{1, 0x1p53}, {1, 0.5}, {1, 0.5}}).value, 0x1p53);
  EXPECT_EQ(KnapsackPlanner(3).plan(std::vector<PlanItem>{{1, 0x1p53 + 2}, {1, 0.5}, {1, 0.5}}).value, 0x1p53 + 4);
}

TEST(KnapsackPlanner, TakesEveryBudget) {
  constexpr std::int64_t huge = std::int64_t{1} << 62U;
  const std::vector<PlanItem> items = {{huge, 5}, {huge - 1, 3}, {1, 2.5}, {huge / 2, 4}, {huge / 2 + 1, 4.5}};
  EXPECT_TRUE(KnapsackPlanner(0).plan(items).chosen.empty());
  EXPECT_TRUE(KnapsackPlanner(0).plan(items).optimal);
  EXPECT_EQ(KnapsackPlanner(1).plan(items).value, 2.5);
  EXPECT_EQ(KnapsackPlanner(huge).plan(items).chosen, (std::vector<std::size_t>{2, 4}));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(KnapsackPlanner(most).plan(items).chosen, (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_TRUE(KnapsackPlanner(huge).plan({}).optimal);
}

TEST(KnapsackPlanner, LeavesOutWhatIsWorthNothingOrFitsNever) {
  const std::vector<PlanItem> items = {{1, 0.0}, {11, 100.0}, {10, 1.0}, {10, 1.0}};
  const Plan plan = KnapsackPlanner(10).plan(items);
  EXPECT_EQ(plan.chosen.size(), 1U);
  EXPECT_EQ(plan.value, 1.0);
  EXPECT_EQ(KnapsackPlanner(5).plan(items).chosen.size(), 0U);
}

TEST(KnapsackPlanner, RefusesWhatIsNoItem) {
  const auto message = [](const std::vector<PlanItem>& items) {
    return testing::refusal([&] { (void)KnapsackPlanner(10).plan(items); });
  };
  EXPECT_EQ(message({{1, 1.0}, {0, 1.0}}), "item 1: cost 0 is not positive");
  EXPECT_EQ(message({{-5, 1.0}}), "item 0: cost -5 is not positive");
  EXPECT_EQ(message({{1, -1.0}}), "item 0: value -1 is not a number >= 0");
  EXPECT_NE(message({{1, std::nan("")}}), "");
  EXPECT_NE(message({{1, std::numeric_limits<double>::infinity()}}), "");
  EXPECT_THROW(KnapsackPlanner(-1), InputError);
  PlanLimits limits;
  limits.time_sec = std::nan("");
  EXPECT_THROW(KnapsackPlanner(1, limits), InputError);
}

/// Draws that one method alone leaves open for two seconds or ten; together the methods take some 50 ms.
TEST(KnapsackPlanner, ProvesHardDrawsInTwoSeconds) {
  PlanLimits limits;
  limits.time_sec = 2;
  const auto expect_proof = [&](KnapsackClass kind, std::size_t n, std::int64_t range, std::uint64_t seed) {
    const testing::KnapsackInstance instance = testing::make_instance(kind, n, range, seed);
    const Plan plan = KnapsackPlanner(instance.budget, limits).plan(instance.items);
    EXPECT_TRUE(plan.optimal) << testing::name(kind) << ", " << n << " items, seed " << seed;
  };
  for (const KnapsackClass kind :
       {KnapsackClass::strongly_correlated, KnapsackClass::inverse_strongly_correlated, KnapsackClass::subset_sum,
        KnapsackClass::multiple_strongly_correlated, KnapsackClass::profit_ceiling}) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed) expect_proof(kind, 100, 1'000'000, seed);
  }
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    expect_proof(KnapsackClass::multiple_strongly_correlated, 10'000, 100'000, seed);
    expect_proof(KnapsackClass::profit_ceiling, 10'000, 100'000, seed);
  }
}

}  // namespace
}  // namespace perfpred
