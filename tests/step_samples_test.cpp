// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/step_samples.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace perfpred {
namespace {

double noise(std::mt19937& random) { return std::normal_distribution<double>(1, 0.005)(random); }

StepSamplesOptions within(double sec) {
  StepSamplesOptions options;
  options.limit_sec = sec;
  return options;
}

StepSamplesOptions until(double interval, std::int64_t fewest) {
  StepSamplesOptions options;
  options.interval = interval;
  options.min_samples = fewest;
  return options;
}

TEST(StepSamples, SlowFirstStepsAreWarmUp) {
  std::mt19937 random(1);
  StepSamples samples;
  for (int i = 0; i < 1000 && !samples.finished(); ++i) samples.add(noise(random) * (i < 4 ? 0.2 : 0.01));
  const StepLabel label = samples.label();
  EXPECT_EQ(label.warmup, 4);
  EXPECT_NEAR(label.median, 0.01, 0.0001);
  EXPECT_EQ(label.stopped_by, "interval");
  EXPECT_FALSE(label.disturbed);
}

TEST(StepSamples, ALevelThatLastsAWhileIsWarmUpToo) {
  std::mt19937 random(2);
  StepSamples samples(until(0.0005, 80));
  for (int i = 0; i < 1000 && !samples.finished(); ++i) samples.add(noise(random) * (i < 25 ? 0.0108 : 0.01));
  const StepLabel label = samples.label();
  EXPECT_NEAR(static_cast<double>(label.warmup), 25, 3);
  EXPECT_NEAR(label.median, 0.01, 0.0001);
}

TEST(StepSamples, AFewDisturbedSamplesAreDiscarded) {
  std::mt19937 random(3);
  StepSamples samples(until(0.001, 10));
  for (int i = 0; i < 4000 && !samples.finished(); ++i) {
    const bool throttled = i % 10 >= 7;
    samples.add(noise(random) * (throttled ? 0.02 : 0.01), throttled);
  }
  const StepLabel label = samples.label();
  EXPECT_NEAR(label.median, 0.01, 0.0001);
  EXPECT_NEAR(label.disturbed_share, 0.3, 0.06);
  EXPECT_GT(label.discarded, 0);
  EXPECT_FALSE(label.disturbed);
}

TEST(StepSamples, WhenAllAreDisturbedAllAreKeptAndFlagged) {
  std::mt19937 random(4);
  StepSamples samples;
  for (int i = 0; i < 1000 && !samples.finished(); ++i) samples.add(noise(random) * 0.02, true);
  const StepLabel label = samples.label();
  EXPECT_NEAR(label.median, 0.02, 0.0002);
  EXPECT_EQ(label.discarded, 0);
  EXPECT_DOUBLE_EQ(label.disturbed_share, 1);
  EXPECT_TRUE(label.disturbed);
}

TEST(StepSamples, BelowTwentyAShareSaysLittle) {
  const auto label_of = [](int quiet) {
    StepSamples samples(within(3));
    for (int i = 0; !samples.finished(); ++i) samples.add(i < quiet ? 0.1 : 0.2, i >= quiet);
    return samples.label();
  };
  EXPECT_FALSE(label_of(3).disturbed);
  EXPECT_EQ(label_of(3).samples, 3);
  EXPECT_TRUE(label_of(2).disturbed);
}

TEST(StepSamples, ADisturbedBeginningIsForgottenOnceMostSamplesAreQuiet) {
  std::mt19937 random(6);
  StepSamples samples(until(0.0005, 10));
  int taken = 0;
  while (!samples.finished()) {
    for (int end = taken + 15; taken < end; ++taken)
      samples.add(noise(random) * (taken < 30 ? 0.02 : 0.01), taken < 30);
  }
  const StepLabel label = samples.label();
  EXPECT_GT(label.samples, 60);
  EXPECT_NEAR(label.median, 0.01, 0.0001);
  EXPECT_EQ(label.discarded + label.warmup, 30);
  EXPECT_FALSE(label.disturbed);
}

TEST(StepSamples, ADriftEndsAtTheLimitAndIsSaid) {
  StepSamples samples(within(2));
  int taken = 0;
  while (!samples.finished()) samples.add(0.01 * (1 + 0.005 * taken++));
  const StepLabel label = samples.label();
  EXPECT_TRUE(label.drift);
  EXPECT_GT(label.change, 1.1);  // 1 at the start, 1.6 at the limit
  EXPECT_FALSE(label.disturbed);
}

StepLabel label_of_all(const std::vector<double>& times) {
  StepSamplesOptions options = within(1e9);
  options.criterion = "samples";
  options.max_samples = static_cast<std::int64_t>(times.size());
  StepSamples samples(options);
  for (const double sec : times) samples.add(sec);
  EXPECT_TRUE(samples.finished());
  return samples.label();
}

TEST(StepSamples, TheMeanHoldsSlowStepsAndAStallAsThreeMedians) {
  std::vector<double> times;
  for (int i = 0; i < 100; ++i) times.push_back(i % 10 == 7 ? 0.02 : 0.01);
  StepLabel label = label_of_all(times);
  EXPECT_DOUBLE_EQ(label.median, 0.01);
  EXPECT_NEAR(label.mean, 0.011, 1e-12);
  EXPECT_NEAR(label.cv, 0.003 * std::sqrt(100.0 / 99) / 0.011, 1e-9);
  times[50] = 10;
  label = label_of_all(times);
  EXPECT_NEAR(label.mean, 0.011 + 0.02 / 100, 1e-12);
}

TEST(StepSamples, AWideLabelSaysHowWideAndIsNotCalledDisturbed) {
  std::mt19937 random(5);
  std::normal_distribution<double> tenth(1, 0.1);
  std::vector<double> times;
  for (int i = 0; i < 10; ++i) times.push_back(tenth(random));
  const StepLabel label = label_of_all(times);
  EXPECT_FALSE(label.disturbed);
  EXPECT_GT(label.relative_half_width(), 0.02);
  // 10 % / sqrt(10) = 3.2 %, times 2.26 / 1.96 for so few; the sample's own deviation scatters about 10 %.
  EXPECT_NEAR(label.mean_rel_sem, 0.036, 0.018);
}

TEST(StepSamples, SlowStepsEndAtTheLimitWithThree) {
  StepSamples samples(within(3));
  int taken = 0;
  while (!samples.finished()) {
    samples.add(2.0 + 0.001 * taken);
    ++taken;
  }
  EXPECT_EQ(taken, 3);
  EXPECT_EQ(samples.label().stopped_by, "limit");
}

TEST(StepSamples, WhenNoMoreWillComeTheFirstLevelIsStillWarmUp) {
  StepSamples samples(within(1000));
  for (int i = 0; i < 12; ++i) samples.add(i < 5 ? 2.0 + 0.01 * i : 1.0 + 0.01 * (i % 3));
  samples.end();
  const StepLabel label = samples.label();
  EXPECT_EQ(label.warmup, 5);
  EXPECT_EQ(label.stopped_by, "limit");
  EXPECT_NEAR(label.median, 1.01, 0.011);
  StepSamples few;
  few.add(1);
  few.add(1);
  EXPECT_THROW(few.end(), Error);
}

/// A rank whose steps took a little less than those of the rank that ends the measurement.
TEST(StepSamples, WhenNoMoreWillComeDisturbedOnesHaveToDo) {
  StepSamples samples(StepSamplesOptions{.limit_sec = 10});
  for (int i = 0; i < 9; ++i) samples.add(1, true);
  EXPECT_FALSE(samples.finished());
  samples.end();
  EXPECT_EQ(samples.label().median, 1);
  EXPECT_TRUE(samples.label().disturbed);
}

TEST(StepSamples, WithoutSamplesThereIsNoLabel) {
  const StepSamples samples;
  EXPECT_THROW(static_cast<void>(samples.label()), Error);
}

}  // namespace
}  // namespace perfpred
