// SPDX-License-Identifier: Apache-2.0
// Intervals of steps of devices, networks and families that a fit has not seen, on measurements by others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "evaluate/step_evaluation.h"

namespace perfpred {
namespace {

class StepIntervals : public ::testing::TestWithParam<StepProtocol> {};

TEST_P(StepIntervals, HoldWhatWasLeftOut) {
  const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
  if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const StepTable file = read_step_table(std::string(folder) + "/cnn_training/single_gpu_training.csv");
  const double covered = *evaluate_steps(file, GetParam(), {}).all.coverage();
  EXPECT_GE(covered, 0.8);
  EXPECT_LE(covered, 0.98);
}

INSTANTIATE_TEST_SUITE_P(Of, StepIntervals,
                         ::testing::Values(StepProtocol::device, StepProtocol::lono, StepProtocol::family),
                         [](const auto& protocol) {
                           return protocol.param == StepProtocol::device ? "Devices"
                                  : protocol.param == StepProtocol::lono ? "Networks"
                                                                         : "Families";
                         });

}  // namespace
}  // namespace perfpred
