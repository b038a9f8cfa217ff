// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/step_timer.h>

#include <gtest/gtest.h>

#include <chrono>

#include "company.h"

namespace perfpred {
namespace {

void compute_for_two_milliseconds() {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
  }
}

// The kernel's counters tell of company only after a second: it was there in that second as well.
TEST(StepTimer, MarksTheSamplesOfItsFirstSecondToo) {
  const testing::Company company;
  ASSERT_FALSE(company.empty());
  const StepTiming timing = StepTimer(c10::Device(c10::kCPU)).measure(compute_for_two_milliseconds);
  EXPECT_TRUE(timing.company);
  ASSERT_GE(timing.samples.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(timing.samples[i].disturbed) << i;
  EXPECT_TRUE(timing.label.disturbed);
}

}  // namespace
}  // namespace perfpred
