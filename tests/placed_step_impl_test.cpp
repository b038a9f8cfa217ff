// SPDX-License-Identifier: Apache-2.0
#include "parallel/placed_step.h"

#include <perfpred/device.h>

#include <gtest/gtest.h>

namespace perfpred::testing {
namespace {

World world(const char* parallel, const char* gpus_per_node) {
  const Placement placement = Placement::parse(gpus_per_node);
  return {placement, ParallelLayout::parse(parallel).on(placement)};
}

Links links(double gb_s) {
  Links all;
  for (const LinkScope scope : {LinkScope::intra, LinkScope::inter}) {
    Link link;
    link.scope = scope;
    link.bus_gb_s = gb_s;
    link.source = "probe";
    all.add(link);
  }
  return all;
}

RankWork long_work() {
  RankWork work;
  work.micro_batch_sec = 10;  // beside which hosts and latencies are nothing
  work.micro_batches = 8;
  work.layers = 4;
  work.gradient_bytes = 1e9;
  work.parameter_bytes = 5e8;
  work.hidden_bytes = 1e6;
  return work;
}

PlacedStep step_of(const RankWork& work, const World& of, const Links& links) {
  return placed_step(work, of, links, {}, ScalingModel::fit({}, {}));
}

/// Narayanan et al. 2021, sections 2.2.1 and 2.2.2: a pipeline loses (p - 1) / m of the time, and its v-th with v
/// chunks.
TEST(PlacedStep, APipelineFillsAndDrains) {
  const RankWork work = long_work();
  const PlacedStep plain = step_of(work, world("pp=4", "4"), links(1e6));
  EXPECT_NEAR(plain.bubble / plain.compute, 3.0 / 8, 1e-3);
  const PlacedStep interleaved = step_of(work, world("pp=4,vp=3", "4"), links(1e6));
  EXPECT_NEAR(interleaved.bubble / interleaved.compute, 1.0 / 8, 1e-3);
  EXPECT_EQ(step_of(work, world("tp=4", "4"), links(1e6)).bubble, 0);
}

/// Shoeybi et al. 2019: four all-reduces of a micro-batch's hidden states for each block.
TEST(PlacedStep, TensorParallelismWaitsForFourSumsOfEachBlock) {
  RankWork work = long_work();
  const auto wait = [&](double bytes) {
    work.hidden_bytes = bytes;
    return step_of(work, world("tp=2", "2"), links(10)).links;
  };
  const double of_a_ring = 2.0 * 1 / 2 * 1e9 / 1e10;                      // 2 (n - 1) / n of the bytes
  EXPECT_NEAR(wait(2e9) - wait(1e9), 8 * (4 * 4 + 2) * of_a_ring, 1e-6);  // and those of embedding and head
}

TEST(PlacedStep, ANodesLinksAreSharedByItsDevices) {
  const RankWork work = long_work();
  const auto gradients = [&](const char* parallel, const char* gpus_per_node) {
    const World of = world(parallel, gpus_per_node);
    RankWork without = work;
    without.gradient_bytes = 1e-9;
    return step_of(work, of, links(10)).links - step_of(without, of, links(10)).links;
  };
  // Eight groups of two, one device of each in either node, have an eighth of its links each.
  EXPECT_NEAR(gradients("tp=8", "8x2"), 2.0 * 1 / 2 * 1e9 / (1e10 / 8), 1e-6);
  EXPECT_NEAR(gradients("tp=4", "8"), 2.0 * 1 / 2 * 1e9 / 1e10, 1e-6);  // all within the node
}

/// Rajbhandari et al. 2020, section 7: stages 1 and 2 move what a sum of gradients does, stage 3 half as much again.
TEST(PlacedStep, SharesOfParametersMoveHalfAsMuchAgain) {
  RankWork work = long_work();
  work.micro_batch_sec = 1e-4;  // hides nothing
  work.micro_batches = 1;
  work.gradient_bytes = 1e10;
  work.parameter_bytes = 1e10;
  const auto wait = [&](const char* parallel) { return step_of(work, world(parallel, "8"), links(10)).links; };
  EXPECT_NEAR(wait("zero1") / wait("ddp"), 1, 1e-9);
  EXPECT_NEAR(wait("zero2") / wait("ddp"), 1, 1e-9);
  EXPECT_NEAR(wait("zero3") / wait("ddp"), 1.5, 1e-3);
  EXPECT_NEAR(wait("fsdp") / wait("ddp"), 1.5, 1e-3);
}

TEST(UsualLinks, AreThoseOfDataSheets) {
  const DeviceCatalogue devices;
  const auto intra = [&](const char* name) {
    return usual_links(devices.find(name), 8)->find("", LinkScope::intra, 8, 1)->bus_gb_s;
  };
  EXPECT_EQ(intra("V100-SXM2-32GB"), 150);
  EXPECT_EQ(intra("H100-SXM5-80GB"), 450);
  EXPECT_NEAR(intra("RTX 3090"), 31.5, 0.1);  // PCIe 4.0 x16
  EXPECT_NEAR(intra("T4"), 15.76, 0.1);       // PCIe 3.0 x16
}

}  // namespace
}  // namespace perfpred::testing
