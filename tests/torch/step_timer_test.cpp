// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/step_timer.h>

#include <gtest/gtest.h>

#include <chrono>

#include "company.h"

namespace perfpred {
namespace {

bool compute_for_two_milliseconds() {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
  }
  return true;
}

TEST(StepTimer, MarksDisturbedSamplesFromTheFirstOn) {
  const testing::Company company;
  ASSERT_FALSE(company.empty());
  const StepTiming timing = StepTimer(c10::Device(c10::kCPU)).measure(compute_for_two_milliseconds).value();
  EXPECT_TRUE(timing.company);
  ASSERT_GE(timing.samples.size(), 10U);
  // Windows of a tenth of a second: the scheduler may give a whole one to this thread, but not most of them.
  EXPECT_GT(timing.label.disturbed_share, 0.5);
  EXPECT_TRUE(timing.label.disturbed);
}

TEST(StepTimer, ReturnsNothingOnceAStepSaysSo) {
  int steps = 0;
  EXPECT_FALSE(StepTimer(c10::Device(c10::kCPU)).measure([&] {
    compute_for_two_milliseconds();
    return ++steps < 3;
  }));
  EXPECT_EQ(steps, 3);
}

}  // namespace
}  // namespace perfpred
