// SPDX-License-Identifier: Apache-2.0
// Why a measured step does not take the expected time. Answers are made up: a step of 1 s, between 0.8 and 1.25 s, of
// which the device waits 0.2 s for its host.
#include <perfpred/error.h>
#include <perfpred/explanation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::refusal;

/// @param threads  of a CPU; none: a T4, whose boost clock is 1590 MHz (NVIDIA's data sheet)
Answer expected(std::optional<int> threads = {}, std::optional<Bound> bound = Bound::compute) {
  Answer answer{};
  answer.workload = Workload::zoo("resnet18", 32);
  answer.workload.train_images = 32 * 50;
  answer.workload.device = threads ? "some CPU" : "T4";
  answer.workload.threads = threads;
  answer.forecast.step_sec = {0.8, 1, 1.25};
  answer.forecast.prediction.time_sec = {40, 50, 62.5};
  answer.forecast.breakdown = {{"convolution", 40}, {"host", 10}};
  answer.forecast.bound = bound;
  return answer;
}

Explanation explained(const Answer& answer, const MeasuredStep& measured) {
  return explain(answer, measured, DeviceCatalogue());
}

/// All that a step of this time may be measured by, without anything that lengthens it.
MeasuredStep whole(double sec) {
  MeasuredStep step{sec};
  step.median_sec = sec;
  step.data_wait_sec = 0;
  step.host_sec = 0.1;
  step.clock_mhz = 1590;
  step.company = step.throttled = false;
  return step;
}

MATCHER_P2(Takes, cause, sec, "") {
  return arg.cause == cause && arg.sec && std::abs(*arg.sec - static_cast<double>(sec)) < 1e-12;
}
MATCHER_P(IsThere, cause, "") { return arg.cause == cause && !arg.sec; }

TEST(Explanation, SaysFirstWhetherThereIsAnythingToExplain) {
  for (const auto& [sec, finding] : std::vector<std::pair<double, Finding>>{
           {0.79, Finding::below}, {0.81, Finding::within}, {1.24, Finding::within}, {1.26, Finding::above}}) {
    const Explanation found = explained(expected(), whole(sec));
    EXPECT_EQ(found.finding, finding) << sec;
    EXPECT_DOUBLE_EQ(found.ratio(), sec);
    EXPECT_DOUBLE_EQ(found.difference_sec(), sec - 1);
  }
}

TEST(Explanation, OfAnythingThatWasMeasuredTheRestIsKernels) {
  EXPECT_THAT(explained(expected(), whole(1.5)).causes, ElementsAre(Takes(Cause::kernels, 0.5)));
  const Explanation found = explained(expected(), MeasuredStep{1.5});
  EXPECT_THAT(found.causes, ElementsAre(Takes(Cause::unexplained, 0.5)));
  EXPECT_THAT(found.not_measured, ElementsAre(Cause::data, Cause::host, Cause::pauses, Cause::clock, Cause::company));
}

TEST(Explanation, AWaitForDataIsExactOnACpuAndAtMostTheDifferenceOnAGpu) {
  MeasuredStep step = whole(1.5);
  step.data_wait_sec = 0.6;
  EXPECT_THAT(explained(expected(1), step).causes, ElementsAre(Takes(Cause::data, 0.6), Takes(Cause::kernels, -0.1)));
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::data, 0.5)));
  Answer with_loader = expected();
  with_loader.workload.loader = Loader::included;  // the answer has it
  EXPECT_THAT(explained(with_loader, step).causes, ElementsAre(Takes(Cause::kernels, 0.5)));
  step.data_wait_sec = std::nullopt;
  step.note = "company; data-bound";
  EXPECT_THAT(explained(expected(1), step).causes, ElementsAre(IsThere(Cause::data), Takes(Cause::unexplained, 0.5)));
}

TEST(Explanation, AHostIsACauseWhereItAloneTakesLongerThanTheStepShould) {
  MeasuredStep step = whole(1.5);
  step.host_sec = 1.4;
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::host, 0.4), Takes(Cause::kernels, 0.1)));
  EXPECT_THAT(explained(expected(1), step).causes, ElementsAre(Takes(Cause::kernels, 0.5)));  // a CPU has none
  step.host_sec = 0.9;
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::kernels, 0.5)));
}

TEST(Explanation, AFasterStepDoesNotWaitForTheHostWhereThatKeepsUp) {
  MeasuredStep step = whole(0.7);
  step.host_sec = 0.3;
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::host, -0.2), Takes(Cause::kernels, -0.1)));
  step.host_sec = 0.69;  // it may be what the device waits for
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::kernels, -0.3)));
}

TEST(Explanation, OfAFasterStepWhatLengthensStepsIsNotMissed) {
  const Explanation found = explained(expected(), MeasuredStep{0.7});
  EXPECT_THAT(found.causes, ElementsAre(Takes(Cause::unexplained, -0.3)));
  EXPECT_THAT(found.not_measured, ElementsAre(Cause::host));
  EXPECT_THAT(explained(expected(1), MeasuredStep{0.7}).causes, ElementsAre(Takes(Cause::kernels, -0.3)));
}

TEST(Explanation, SlowStepsArePausesUnlessTheyWaitedForData) {
  MeasuredStep step = whole(1.5);
  step.median_sec = 1.1;
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::pauses, 0.4), Takes(Cause::kernels, 0.1)));
  step.data_wait_sec = 0.3;
  EXPECT_THAT(explained(expected(), step).causes,
              ElementsAre(Takes(Cause::data, 0.3), Takes(Cause::pauses, 0.1), Takes(Cause::kernels, 0.1)));
}

TEST(Explanation, ALowClockCountsWhereArithmeticBoundsTheStep) {
  MeasuredStep step = whole(1.5);
  step.clock_mhz = 1272;  // 0.8 of the boost clock: 0.8 s of kernels take 0.2 s longer
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(Takes(Cause::clock, 0.2), Takes(Cause::kernels, 0.3)));
  EXPECT_THAT(explained(expected({}, Bound::memory), step).causes, ElementsAre(Takes(Cause::kernels, 0.5)));
  step.throttled = true;
  EXPECT_THAT(explained(expected({}, Bound::memory), step).causes,
              ElementsAre(Takes(Cause::clock, 0.2), Takes(Cause::kernels, 0.3)));
}

TEST(Explanation, OthersOnTheDeviceTakeAnUnknownTime) {
  MeasuredStep step = whole(1.5);
  step.company = true;
  EXPECT_THAT(explained(expected(), step).causes, ElementsAre(IsThere(Cause::company), Takes(Cause::unexplained, 0.5)));
}

TEST(Explanation, PartsAddUpToTheDifference) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> seconds(0.01, 3);
  const auto maybe = [&]() { return seconds(random) < 2 ? std::optional(seconds(random)) : std::nullopt; };
  for (int i = 0; i < 2000; ++i) {
    MeasuredStep step{seconds(random)};
    step.median_sec = maybe();
    step.data_wait_sec = maybe();
    step.host_sec = maybe();
    if (const auto clock = maybe()) step.clock_mhz = 500 * *clock;
    step.company = seconds(random) < 0.5;
    const Explanation found = explained(expected(i % 2 == 0 ? std::optional(2) : std::nullopt), step);
    double sum = 0;
    for (const CauseOfTime& one : found.causes) sum += one.sec.value_or(0);
    EXPECT_NEAR(sum, step.sec - 1, 1e-9);
  }
}

TEST(Explanation, OfARunIsThatOfItsMeanStep) {
  const Answer answer = expected();
  perfpred::Run run;
  run.workload = answer.workload;
  run.avg_time_sec = 75;  // 50 steps
  MeasuredStep step = measured_step(run, answer);
  EXPECT_DOUBLE_EQ(step.sec, 1.5);
  EXPECT_FALSE(step.company || step.median_sec || step.host_sec || step.data_wait_sec);  // of a log, say
  run.step_p50_ms = 1400;
  run.host_p50_ms = 200;
  run.data_wait_share = 0.2;
  run.clock_mhz = 1500;
  run.note = "throttled; company; known to 2.0 %";
  step = measured_step(run, answer);
  EXPECT_DOUBLE_EQ(*step.median_sec, 1.4);
  EXPECT_DOUBLE_EQ(*step.host_sec, 0.2);
  EXPECT_DOUBLE_EQ(*step.data_wait_sec, 0.3);
  EXPECT_EQ(step.clock_mhz, 1500);
  EXPECT_TRUE(*step.company && *step.throttled);
  run.avg_time_sec = std::nullopt;
  run.outcome = Outcome::oom;
  EXPECT_THAT(refusal([&] { (void)measured_step(run, answer); }), HasSubstr("the run was not timed (oom)"));
  EXPECT_THAT(refusal([&] { (void)explained(answer, MeasuredStep{0}); }), HasSubstr("is not positive"));
}

}  // namespace
}  // namespace perfpred
