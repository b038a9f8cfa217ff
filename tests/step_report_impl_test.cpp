// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "tools/complexity_tables.h"
#include "tools/step_report.h"

namespace perfpred {
namespace {

/// y = x W of n x n matrices, forward only: 2 n^3 FLOPs, three matrices of 4 n^2 bytes.
NetworkSteps product(std::int64_t n) {
  NetworkSteps network;
  network.network = "product";
  network.step = [n](std::int64_t) {
    OpGraph step;
    const TensorId x = step.add_tensor({n, n}, DataType::f32, TensorRole::input);
    const TensorId w = step.add_tensor({n, n}, DataType::f32, TensorRole::parameter);
    const TensorId y = step.add_tensor({n, n}, DataType::f32, TensorRole::activation);
    const std::array<TensorId, 2> inputs = {x, w};
    step.add_op(OpKind::mm, Phase::forward, -1, inputs, std::array{y});
    const std::int32_t name = step.add_op_name("mystery");
    step.add_op(OpKind::unknown, Phase::forward, -1, std::array{y}, std::array{y}).name = name;
    return step;
  };
  return network;
}

Device device_of(double gigabytes) {
  Device device;
  device.name = "made up";
  device.mem_gb = gigabytes;
  device.mem_bw_gbs = 100;
  device.fp32_tflops = 10;
  return device;
}

TEST(StepReport, CountsOperatorsByNameAndTellsThoseThatItDoesNotKnow) {
  const StepReport report = report_step(product(64), 7, Precision::fp32, std::nullopt);
  EXPECT_EQ(report.network, "product");
  EXPECT_EQ(report.batch_size, 7);
  EXPECT_FALSE(report.device);
  ASSERT_EQ(report.kinds().size(), 2U);
  EXPECT_EQ(report.kinds().at("mm").flops, 2 * 64 * 64 * 64);
  EXPECT_EQ(report.kinds().at("mm").intensity(), 64 / 6.0);
  EXPECT_EQ(report.unknown_ops(), (std::map<std::string, std::int64_t>{{"mystery", 1}}));
}

TEST(StepReport, HasARowForEachLayer) {
  // ResNet-18 as He et al. 2016, table 1, and torchvision have it: 11,689,512 parameters.
  const StepReport report = report_step(steps_of(Workload::zoo("resnet18", 2)), 2, Precision::fp32, std::nullopt);
  std::int64_t params = 0;
  double flops = 0;
  std::map<std::string, LayerSummary> layers;
  for (const LayerSummary& layer : report.layers()) {
    params += layer.params;
    flops += layer.all.flops;
    layers[layer.name] = layer;
  }
  EXPECT_EQ(params, 11'689'512);
  EXPECT_DOUBLE_EQ(flops, report.step.graph().totals().flops);
  const LayerSummary& stem = layers.at("conv1");
  EXPECT_EQ(stem.output, "2x64x112x112");
  EXPECT_EQ(stem.params, 3 * 64 * 7 * 7);
  EXPECT_EQ(stem.forward.flops, 2.0 * 2 * 64 * 112 * 112 * 3 * 7 * 7);
  EXPECT_EQ(layers.at("fc").output, "2x1000");
  EXPECT_EQ(layers.at("fc").params, 512 * 1000 + 1000);
}

TEST(StepReport, TheDeviceSaysWhatBoundsTheStep) {
  // 1e12 FLOP/s over 1e10 bytes/s: the ridge is at 100 FLOPs a byte; n x n products have n / 6. On so slow a device
  // they take longer than a host needs to start them.
  Device slow = device_of(40);
  slow.fp32_tflops = 1;
  slow.mem_bw_gbs = 10;
  const StepReport narrow = report_step(product(500), 1, Precision::fp32, slow);
  ASSERT_TRUE(narrow.device && narrow.device->bound);
  EXPECT_EQ(*narrow.device->bound, Bound::memory);
  const StepReport wide = report_step(product(3000), 1, Precision::fp32, slow);
  EXPECT_EQ(wide.device->bound, Bound::compute);
  EXPECT_EQ(wide.device->largest_batch_unknown, "the memory of the step does not grow with its batch size");
  EXPECT_GE(*wide.device->time_at_peak_sec, 2 * 3000.0 * 3000 * 3000 / 1e12);
  const StepReport other = report_step(product(64), 1, Precision::bf16, slow);
  EXPECT_FALSE(other.device->bound);  // its peak of bf16 is not known
  EXPECT_FALSE(other.device->time_at_peak_sec);
}

TEST(StepReport, LaunchesOfAKnownTimeBoundAStep) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) EXPECT_FALSE(device.launch_us) << device.name;
  catalogue.add(folder.write("own.csv",
                             "name,fp32_tflops,mem_gb,mem_bw_gbs,launch_us\n"
                             "with,1,40,10,500\n"
                             "without,1,40,10,\n"));
  const auto answer = [&](const char* name) {
    return report_step(product(500), 1, Precision::fp32, catalogue.find(name)).device.value();
  };
  EXPECT_EQ(answer("with").bound, Bound::launch);
  EXPECT_NEAR(*answer("with").time_at_peak_sec, 2 * 500e-6, 1e-12);  // two operators, each shorter than a launch
  EXPECT_EQ(answer("without").bound, Bound::memory);
}

TEST(StepReport, AStepThatDoesNotFitHasASmallerLargestBatch) {
  const NetworkSteps network = steps_of(Workload::zoo("resnet18", 1));
  const StepReport large = report_step(network, 512, Precision::fp32, device_of(4));
  EXPECT_EQ(large.device->verdict, MemoryVerdict::does_not_fit);
  ASSERT_TRUE(large.device->largest_batch);
  const std::int64_t most = *large.device->largest_batch;
  EXPECT_EQ(report_step(network, most, Precision::fp32, device_of(4)).device->verdict, MemoryVerdict::fits);
  EXPECT_EQ(report_step(network, most + 1, Precision::fp32, device_of(4)).device->verdict, MemoryVerdict::only_just);
  EXPECT_FALSE(report_step(network, 1, Precision::fp32, device_of(0.1)).device->largest_batch);
}

TEST(StepReport, ANetworkThatHoldsItsBatchSizeIsReportedWithoutTheLargest) {
  NetworkSteps fixed = product(64);
  fixed.step = [any = fixed.step](std::int64_t batch) {
    if (batch != 8) throw InputError("it was traced with 8 samples");
    return any(batch);
  };
  const StepReport report = report_step(fixed, 8, Precision::fp32, device_of(40));
  EXPECT_EQ(report.device->verdict, MemoryVerdict::fits);
  EXPECT_FALSE(report.device->largest_batch);
  EXPECT_EQ(report.device->largest_batch_unknown, "it was traced with 8 samples");
  EXPECT_THROW(static_cast<void>(report_step(fixed, 4, Precision::fp32, std::nullopt)), InputError);
}

TEST(StepReport, WhatDependsOnAnUnknownMemoryIsUnknown) {
  Device device = device_of(40);
  device.mem_gb.reset();
  const StepReport report = report_step(product(64), 1, Precision::fp32, device);
  EXPECT_TRUE(report.memory);
  EXPECT_EQ(report.device->verdict, std::nullopt);
  EXPECT_EQ(report.device->largest_batch_unknown, "the device's memory size is unknown");
  EXPECT_TRUE(report.device->bound);
}

TEST(StepReport, MemoryOfOtherAcceleratorsIsUnknown) {
  Device device = device_of(40);
  device.kind = DeviceKind::other;
  const StepReport report = report_step(product(64), 1, Precision::fp32, device);
  EXPECT_FALSE(report.memory);
  EXPECT_EQ(report.device->verdict, std::nullopt);
  EXPECT_FALSE(report.device->largest_batch);
  EXPECT_EQ(report.device->largest_batch_unknown, "how the device allocates memory is unknown");
  EXPECT_TRUE(report.device->bound);
}

}  // namespace
}  // namespace perfpred
