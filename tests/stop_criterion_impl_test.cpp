// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runs/stop_criterion.h"

namespace perfpred {
namespace {

/// Samples fed until the criterion has enough, or `most` were.
std::size_t fed_until_enough(StopCriterion& criterion, const std::function<double(std::size_t)>& sample,
                             std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    if (!criterion.reason().empty()) return i;
    criterion.add(sample(i));
  }
  return most;
}

std::function<double(std::size_t)> noisy(double level, double deviation, unsigned seed) {
  return [level, deviation, random = std::mt19937(seed)](std::size_t) mutable {
    return level * (1 + std::normal_distribution<double>(0, deviation)(random));
  };
}

TEST(MedianInterval, TakesTheRanksOfTheTextbook) {
  // Conover: n = 100, 95 %: ranks 100/2 -+ 1.96 * 10 / 2, rounded outwards: 40 and 61. In an order that looks neither
  // like its neighbours nor different from part to part.
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(1 + i * 37 % 100);
  const MedianInterval interval = median_interval(values);
  EXPECT_DOUBLE_EQ(interval.median, 50.5);
  EXPECT_DOUBLE_EQ(interval.low, 40);
  EXPECT_DOUBLE_EQ(interval.high, 61);
}

TEST(MedianInterval, CoversTheMedianAsOftenAsItSays) {
  int covered = 0;
  constexpr int trials = 1000;
  for (unsigned trial = 0; trial < trials; ++trial) {
    auto sample = noisy(1, 0.1, trial);
    std::vector<double> values;
    for (std::size_t i = 0; i < 40; ++i) values.push_back(sample(i));
    const MedianInterval interval = median_interval(values);
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 930);
}

TEST(MedianInterval, OfFewSamplesIsStudents) {
  constexpr int trials = 4000;
  for (const std::size_t n : {2U, 3U, 4U, 5U}) {
    int covered = 0;
    for (unsigned trial = 0; trial < trials; ++trial) {
      auto sample = noisy(1, 0.05, trial);
      std::vector<double> values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(sample(i));
      const MedianInterval interval = median_interval(values);
      covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
    }
    // Smallest to largest of n samples hold the median with 1 - 2^(1 - n): 50, 75, 88 and 94 %.
    EXPECT_GE(covered, 0.93 * trials) << n;
  }
  EXPECT_TRUE(std::isinf(median_interval(std::vector<double>{1}).relative_half_width()));
}

TEST(RelativeErrorOfMean, CoversTheMeanAsOftenAsItSays) {
  constexpr int trials = 2000;
  constexpr double z = 1.959963984540054;
  for (const std::size_t n : {3U, 10U, 40U}) {
    int covered = 0;
    for (unsigned trial = 0; trial < trials; ++trial) {
      auto sample = noisy(1, 0.1, trial);
      std::vector<double> values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(sample(i));
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
      covered += std::abs(mean - 1) <= z * relative_error_of_mean(values) * mean ? 1 : 0;
    }
    EXPECT_GE(covered, 0.93 * trials) << n;
  }
  EXPECT_TRUE(std::isinf(relative_error_of_mean(std::vector<double>{1})));
}

TEST(MedianInterval, IsWiderForSamplesThatResembleTheirPredecessor) {
  auto noise = noisy(1, 0.05, 3);
  std::vector<double> independent;
  std::vector<double> slow;
  double state = 1;
  for (std::size_t i = 0; i < 400; ++i) {
    const double x = noise(i);
    independent.push_back(x);
    state = 0.9 * state + 0.1 * x;
    slow.push_back(1 + (state - 1) * std::sqrt(19.0));  // the same deviation
  }
  EXPECT_GT(median_interval(slow).relative_half_width(), 2 * median_interval(independent).relative_half_width());
}

/// Noise of 1 % about a level that wanders by 3 % with a memory of 200 samples (autoregressive, of first order).
std::vector<double> wandering(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  constexpr double memory = 1 - 1.0 / 200;
  double level = 0.03 * normal(random);
  std::vector<double> values;
  while (values.size() < n) {
    values.push_back(std::exp(level + 0.01 * normal(random)));
    level = memory * level + 0.03 * std::sqrt(1 - memory * memory) * normal(random);
  }
  return values;
}

TEST(MedianInterval, SeesALevelThatWandersSlowerThanNeighboursTell) {
  constexpr int trials = 400;
  int covered = 0;
  for (unsigned trial = 0; trial < trials; ++trial) {
    const MedianInterval interval = median_interval(wandering(2000, trial));
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.9 * trials);
}

TEST(FindChange, FindsAStepWithPettittsP) {
  // 20 samples of one level, 20 of another: K = 20 * 20, p = 2 exp(-6 K^2 / (n^3 + n^2)).
  std::vector<double> values(20, 1.0);
  for (int i = 0; i < 20; ++i) {
    values[static_cast<std::size_t>(i)] += 0.001 * i;
    values.push_back(1.5 + 0.001 * i);
  }
  const ChangePoint change = find_change(values);
  EXPECT_EQ(change.index, 20U);
  EXPECT_NEAR(change.p_value, 2 * std::exp(-6.0 * 400 * 400 / (40.0 * 40 * 40 + 40.0 * 40)), 1e-12);
  EXPECT_NEAR(change.ratio, 1.5095 / 1.0095, 1e-9);
}

TEST(FindChange, SeesNoneInNoise) {
  int found = 0;
  for (unsigned trial = 0; trial < 200; ++trial) {
    auto sample = noisy(1, 0.02, trial);
    std::vector<double> values;
    for (std::size_t i = 0; i < 60; ++i) values.push_back(sample(i));
    found += find_change(values).p_value < 0.01 ? 1 : 0;
  }
  EXPECT_LE(found, 6);
}

TEST(StopCriterion, SteadySamplesStopAtTheInterval) {
  const auto criterion = make_stop_criterion({.criterion = "stdrel"});
  const std::size_t fed = fed_until_enough(*criterion, noisy(0.01, 0.005, 1), 1000);
  EXPECT_EQ(criterion->reason(), "interval");
  EXPECT_LE(fed, 30U);
  EXPECT_GE(fed, 10U);
}

TEST(StopCriterion, NoisySamplesTakeLongerAndTheMedianHolds) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto criterion = make_stop_criterion({.criterion = "stdrel"});
    const std::size_t fed = fed_until_enough(*criterion, noisy(0.01, 0.05, seed), 5000);
    EXPECT_GT(fed, 30U);
    EXPECT_LT(fed, 5000U);
    EXPECT_NEAR(median_interval(criterion->samples()).median, 0.01, 0.0003);
  }
}

TEST(StopCriterion, HeavyTailsSettle) {
  std::mt19937 random(5);
  const auto criterion = make_stop_criterion({.criterion = "stdrel", .interval = 1e-5});
  const std::size_t fed = fed_until_enough(
      *criterion, [&](std::size_t) { return 0.01 * std::exp(std::normal_distribution<double>(0, 0.5)(random)); },
      20'000);
  EXPECT_EQ(criterion->reason(), "settled");
  EXPECT_LT(fed, 20'000U);
}

TEST(StopCriterion, ADriftIsNotSoonEnough) {
  const auto criterion = make_stop_criterion({.criterion = "stdrel"});
  EXPECT_EQ(fed_until_enough(
                *criterion, [](std::size_t i) { return 0.01 * (1 + 0.01 * static_cast<double>(i)); }, 150),
            150U);
}

TEST(StopCriterion, TwoLevelsEquallyOftenAreNotKnownToOnePercentSoon) {
  const auto criterion = make_stop_criterion({.criterion = "stdrel"});
  std::mt19937 random(7);
  EXPECT_GT(fed_until_enough(
                *criterion, [&](std::size_t) { return random() % 2 == 0 ? 0.010 : 0.013; }, 200),
            150U);
}

TEST(StopCriterion, EntropyStopsWhenTheHistogramIsFull) {
  const auto steady = make_stop_criterion({.criterion = "entropy"});
  EXPECT_LE(fed_until_enough(
                *steady, [](std::size_t) { return 0.01; }, 1000),
            12U);
  EXPECT_EQ(steady->reason(), "entropy");
  const auto wide = make_stop_criterion({.criterion = "entropy"});
  EXPECT_GT(fed_until_enough(*wide, noisy(0.01, 0.1, 2), 5000), 100U);
  EXPECT_EQ(wide->reason(), "entropy");
}

TEST(StopCriterion, SamplesAndTimeCount) {
  const auto samples = make_stop_criterion({.criterion = "samples", .min_samples = 10, .max_samples = 25});
  EXPECT_EQ(fed_until_enough(*samples, noisy(1, 0.1, 1), 1000), 25U);
  EXPECT_EQ(samples->reason(), "samples");
  const auto time = make_stop_criterion({.criterion = "time", .max_sec = 0.5});
  EXPECT_EQ(fed_until_enough(
                *time, [](std::size_t) { return 0.03125; }, 1000),
            16U);
  EXPECT_EQ(time->reason(), "time");
}

TEST(StopCriterion, WhatIsNoTimeIsIgnored) {
  const auto criterion = make_stop_criterion({.criterion = "samples", .min_samples = 1, .max_samples = 2});
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    criterion->add(bad);
  }
  EXPECT_TRUE(criterion->samples().empty());
  EXPECT_EQ(criterion->reason(), "");
}

TEST(StopCriterion, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(static_cast<void>(make_stop_criterion({.criterion = "stddev"})), InputError);
  EXPECT_THROW(static_cast<void>(make_stop_criterion({.criterion = "stdrel", .interval = 0})), InputError);
  EXPECT_THROW(static_cast<void>(make_stop_criterion({.criterion = "time", .max_sec = -1})), InputError);
  for (const double limit : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW(static_cast<void>(make_stop_criterion({.limit_sec = limit})), InputError) << limit;
  }
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    EXPECT_THROW(static_cast<void>(make_stop_criterion({.max_discarded = share})), InputError) << share;
  }
}

}  // namespace
}  // namespace perfpred
