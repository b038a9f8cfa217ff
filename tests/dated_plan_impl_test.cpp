// SPDX-License-Identifier: Apache-2.0
// Plans whose jobs have earliest times and deadlines, against all sets in all orders.
#include "plan/dated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "dated_instances.h"

namespace perfpred {
namespace {

using testing::DatedInstance;
using testing::Dates;
using testing::Dice;
using testing::first_end;

/// The best value of all plans on one or two devices. @param must  jobs that every plan has; -1 if there is no plan
double best_of_all(const DatedInstance& one, unsigned must) {
  const unsigned sets = 1U << one.problem.jobs.size();
  const std::size_t devices = one.problem.budgets.size();
  std::vector<std::vector<double>> worth(devices, std::vector<double>(sets, -1));
  for (std::size_t d = 0; d < devices; ++d) {
    for (unsigned set = 0; set < sets; ++set)
      worth[d][set] = first_end(one, d, set) ? testing::value_of(one, d, set) : -1;
  }
  double best = -1;
  for (unsigned all = 0; all < sets; ++all) {
    if ((all & must) != must) continue;
    for (unsigned first = all;; first = (first - 1) & all) {
      const double a = worth[0][first], b = devices == 1 ? (first == all ? 0 : -1) : worth[1][all & ~first];
      if (a >= 0 && b >= 0) best = std::max(best, a + b);
      if (first == 0) break;
    }
  }
  return best;
}

/// From the definition: the starts that a plan gets keep all windows, and no two runs of a device overlap.
void expect_keeps_windows(const DatedInstance& one, const Assignment& plan) {
  for (std::size_t d = 0; d < one.problem.budgets.size(); ++d) {
    const Sequence order = sequence(jobs_on(one.problem, one.windows, plan.device, d), sequence_nodes);
    ASSERT_TRUE(order.found());
    std::int64_t free = 0;
    std::size_t count = 0;
    for (const StartedJob& run : order.starts) {
      EXPECT_EQ(plan.device[run.job], d);
      EXPECT_GE(run.start, free);
      EXPECT_GE(run.start, one.windows[run.job][d].earliest);
      free = run.start + one.problem.jobs[run.job][d]->cost;
      EXPECT_LE(free, one.windows[run.job][d].deadline);
      EXPECT_LE(free, one.problem.budgets[d]);
      ++count;
    }
    EXPECT_EQ(count, static_cast<std::size_t>(std::count(plan.device.begin(), plan.device.end(), std::optional(d))));
  }
}

struct Count {
  int instances = 0, optimal = 0;
};

void compare(const DatedInstance& one, const PlanEffort& effort, Count& count) {
  unsigned must = 0;
  for (std::size_t j = 0; j < one.problem.group.size(); ++j) must |= one.problem.group[j] ? 1U << j : 0U;
  const double best = best_of_all(one, must);
  const Assignment plan = assign_dated(one.problem, one.windows, {}, effort);
  ++count.instances;
  if (plan.status == PlanStatus::infeasible) {
    EXPECT_LT(best, 0);
    ++count.optimal;
    return;
  }
  EXPECT_GE(plan.upper_bound, best);
  if (!plan.found()) return;
  expect_keeps_windows(one, plan);
  EXPECT_LE(plan.value, best);
  if (!plan.optimal()) return;
  ++count.optimal;
  EXPECT_EQ(plan.value, best);
}

constexpr PlanEffort quick = {100, 20, 20'000, 0};

TEST(DatedPlan, IsTheBestOfAllSetsInAllOrders) {
  for (const std::size_t devices : {1U, 2U}) {
    for (const Dates dates : {Dates::deadlines, Dates::earliest, Dates::both}) {
      Count count;
      for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", devices " + std::to_string(devices) + ", dates " +
                     std::to_string(static_cast<int>(dates)));
        compare(testing::dated_instance(seed, devices, dates, devices == 1 ? 7 : 6), quick, count);
      }
      std::printf("%zu devices: %d of %d proved\n", devices, count.optimal, count.instances);
      EXPECT_EQ(count.optimal, count.instances);  // few jobs are always proved
    }
  }
}

TEST(DatedPlan, HoldsTheJobsThatEveryPlanMustHave) {
  for (const std::size_t devices : {1U, 2U}) {
    Count count;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      DatedInstance one = testing::dated_instance(seed, devices, Dates::both, 6);
      one.problem.group[seed % one.problem.group.size()] = 0;
      compare(one, quick, count);
    }
    EXPECT_EQ(count.optimal, count.instances);
  }
}

TEST(DatedPlan, BoundsWhatItDoesNotProve) {
  Count count;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    compare(testing::dated_instance(seed, 1 + seed % 2, Dates::both, 6), {1, 0, 0, 0}, count);
  }
  EXPECT_LT(count.optimal, count.instances);
}

TEST(DatedPlan, WithoutTimesThatBindIsThePlanWithoutThem) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    DatedInstance one = testing::dated_instance(seed, 1 + seed % 2, Dates::both, 12);
    for (auto& job : one.windows) std::fill(job.begin(), job.end(), TimeWindow());
    const Assignment plain = assign(one.problem, {}, quick), dated = assign_dated(one.problem, one.windows, {}, quick);
    if (!plain.optimal()) continue;
    EXPECT_EQ(plain.device, dated.device);
    EXPECT_TRUE(dated.optimal());
  }
}

/// A queue of a day: runs of minutes to hours, some with a deadline or an earliest time.
DatedInstance queue(std::size_t jobs, std::size_t devices, Dates dates) {
  Dice dice(jobs);
  DatedInstance one;
  one.problem.budgets.assign(devices, 86'400);
  one.problem.group.resize(jobs);
  for (std::size_t j = 0; j < jobs; ++j) {
    const std::int64_t cost = 300 + dice.below(14'000);
    const double value = static_cast<double>(cost) * (0.5 + static_cast<double>(dice.below(1000)) / 1000);
    one.problem.jobs.emplace_back(devices, PlanItem{cost, value});
    TimeWindow window;
    if (dates != Dates::deadlines && dice.below(3) == 0) window.earliest = dice.below(70'000);
    if (dates != Dates::earliest && dice.below(3) == 0) window.deadline = window.earliest + cost + dice.below(40'000);
    one.windows.emplace_back(devices, window);
  }
  return one;
}

TEST(DatedPlan, ProvesTheQueueOfADayOnOneDevice) {
  for (const Dates dates : {Dates::deadlines, Dates::earliest}) {
    for (const std::size_t jobs : {20U, 100U, 200U}) {
      const DatedInstance one = queue(jobs, 1, dates);
      const Assignment plan = assign_dated(one.problem, one.windows, {});
      expect_keeps_windows(one, plan);
      EXPECT_TRUE(plan.optimal()) << jobs;
    }
  }
}

TEST(DatedPlan, ComesCloseToItsBoundOnAQueueOfADay) {
  for (const std::size_t devices : {1U, 2U}) {
    for (const std::size_t jobs : {20U, 40U, 100U}) {
      const DatedInstance one = queue(jobs, devices, Dates::both);
      const Assignment plan = assign_dated(one.problem, one.windows, {}, {200, 300, 50'000, 0});
      expect_keeps_windows(one, plan);
      std::printf("%3zu jobs, %zu devices: %s, gap %.3g %%\n", jobs, devices, plan.optimal() ? "optimal" : "bounded",
                  100 * (plan.upper_bound / plan.value - 1));
      EXPECT_GE(plan.value, 0.97 * plan.upper_bound);
    }
  }
}

TEST(Sequences, AreFoundIfThereIsOne) {
  int impossible = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const DatedInstance one = testing::dated_instance(seed, 1, Dates::both, 7);
    const auto all = static_cast<unsigned>((1U << one.problem.jobs.size()) - 1);
    std::vector<WindowedJob> jobs;
    for (std::size_t j = 0; j < one.problem.jobs.size(); ++j) {
      TimeWindow window = one.windows[j][0];
      window.deadline = std::min(window.deadline, one.problem.budgets[0]);
      jobs.push_back({j, one.problem.jobs[j][0]->cost, window});
    }
    const bool possible = first_end(one, 0, all).has_value();
    const Sequence order = sequence(jobs, sequence_nodes);
    EXPECT_EQ(order.status, possible ? Sequence::Status::found : Sequence::Status::impossible) << seed;
    EXPECT_TRUE(!sequence(jobs, 0).found() || possible) << seed;
    impossible += possible ? 0 : 1;
  }
  EXPECT_GT(impossible, 500);
  EXPECT_LT(impossible, 2900);
}

}  // namespace
}  // namespace perfpred
