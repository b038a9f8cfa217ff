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
  options.stop.interval = interval;
  options.stop.min_samples = fewest;
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
  EXPECT_TRUE(label.trusted());
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
  EXPECT_TRUE(label.trusted());
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
  EXPECT_FALSE(label.trusted());
}

TEST(StepSamples, ADriftEndsAtTheLimitAndIsSaid) {
  StepSamples samples(within(2));
  int taken = 0;
  while (!samples.finished()) samples.add(0.01 * (1 + 0.005 * taken++));
  const StepLabel label = samples.label();
  EXPECT_TRUE(label.drift || label.relative_half_width() > 0.05);
  EXPECT_FALSE(label.trusted());
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

TEST(StepSamples, WithoutSamplesThereIsNoLabel) {
  const StepSamples samples;
  EXPECT_THROW(static_cast<void>(samples.label()), Error);
}

}  // namespace
}  // namespace perfpred
