// SPDX-License-Identifier: Apache-2.0
// What an op model says of a device from the machines of it that were measured: their hosts, their memory layouts.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "made_up_machines.h"

namespace perfpred {
namespace {

using testing::job;
using testing::standard_and;
using testing::step_sec;

/// Steps of a T4 that a source measured.
MachineKey t4(const char* source, Precision precision = Precision::fp32, Layout layout = Layout::nchw) {
  return {source, "T4", precision, StepArithmetic::as_graph, layout};
}

TEST(OpModelHosts, TheUsualHostIsExpectedAndTheIntervalReachesToTheMeasuredOnes) {
  const Workload light = job("resnet18", 1, "T4"), heavy = job("vgg16", 64, "T4");
  const auto one = [](double host) { return standard_and({{t4("a"), {0.2, 0.1, host}}}); };
  const OpTimeModel two = standard_and({{t4("a"), {0.1, 0.1, -0.2}}, {t4("b"), {0.3, 0.1, 1.6}}});
  const Quantiles answer = step_sec(two, light);
  EXPECT_NEAR(answer.p50, step_sec(one(0), light).p50, 1e-9 * answer.p50);
  EXPECT_GE(answer.p95, step_sec(one(1.6), light).p50);
  EXPECT_LE(answer.p05, step_sec(one(-0.2), light).p50);
  // Where the device is slower than any of the hosts, they do not matter.
  const Quantiles slow = step_sec(two, heavy), known = step_sec(one(0), heavy);
  EXPECT_NEAR(slow.p95 / slow.p05, known.p95 / known.p05, 0.02);
  // Hosts that agree are the card's.
  const OpTimeModel agree = standard_and({{t4("a"), {0.2, 0.1, 1.0}}, {t4("b"), {0.2, 0.1, 1.1}}});
  EXPECT_NEAR(step_sec(agree, light).p50, step_sec(one(1.0), light).p50, 1e-9);
}

TEST(OpModelLayouts, StepsInTheLayoutThatIsAskedForCount) {
  const std::pair<const MachineKey, MachineEffects> nchw = {t4("a", Precision::fp16), {0.3, 0.3, 0}};
  const std::pair<const MachineKey, MachineEffects> nhwc = {t4("a", Precision::fp16, Layout::nhwc), {-0.3, -0.3, 0}};
  Workload asked = job("resnet18", 64, "T4");
  asked.precision = Precision::fp16;
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    asked.layout = layout;
    const double of_nchw = step_sec(standard_and({nchw}), asked).p50;
    const double of_nhwc = step_sec(standard_and({nhwc}), asked).p50;
    EXPECT_GT(of_nhwc, 1.3 * of_nchw);  // where only one is known, it is better than none
    EXPECT_DOUBLE_EQ(step_sec(standard_and({nchw, nhwc}), asked).p50, layout == Layout::nchw ? of_nchw : of_nhwc);
    const auto in_layout = [&](const OpTimeModel& model) {
      return model.predict(asked.graph(), DeviceCatalogue().find(asked.device), asked.precision).in_layout;
    };
    EXPECT_TRUE(in_layout(standard_and({nchw, nhwc})));
    EXPECT_EQ(in_layout(standard_and({nchw})), layout == Layout::nchw);
    EXPECT_EQ(in_layout(standard_and({nhwc})), layout == Layout::nhwc);
    EXPECT_EQ(in_layout(standard_and({{probe_key("T4", Precision::fp16), {}}})), layout == Layout::nchw);
  }
}

TEST(OpModelLayouts, ChannelsLastMemorySavesTheCopiesOfMatrixUnits) {
  const auto gain = [](const char* device, Precision precision) {
    Workload asked = job("resnet50", 64, device);
    asked.precision = precision;
    const double apart = step_sec(OpTimeModel::standard(), asked).p50;
    asked.layout = Layout::nhwc;
    return apart / step_sec(OpTimeModel::standard(), asked).p50;
  };
  for (const char* device : {"T4", "A100-80GB-PCIe"}) {
    EXPECT_GT(gain(device, Precision::fp16), 1.1) << device;
    EXPECT_LT(gain(device, Precision::fp16), 2) << device;
    EXPECT_NEAR(gain(device, Precision::fp32), 1, 0.05) << device;  // nothing is copied; batch norm reads otherwise
  }
}

TEST(OpModelHosts, ACardWithOneMeasuredHostMayHaveAnyUsualOne) {
  const Workload light = job("resnet18", 1, "T4");
  const auto probed = [&](double host) {
    return step_sec(standard_and({{probe_key("T4", Precision::fp32), {0.2, 0.1, host}}}), light).p50;
  };
  // 90 of 100 hosts have effects of up to 0.82 in size.
  for (const double measured : {-0.3, 0.0, 1.6}) {
    const Quantiles answer = step_sec(standard_and({{t4("a"), {0.2, 0.1, measured}}}), light);
    EXPECT_NEAR(answer.p50, probed(measured), 1e-9 * answer.p50);
    EXPECT_LE(answer.p05, probed(-0.82)) << measured;
    EXPECT_GE(answer.p95, probed(0.82)) << measured;
  }
}

}  // namespace
}  // namespace perfpred
