// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "device/caching_allocator.h"

namespace perfpred {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

TEST(CachingAllocator, RoundsAndReservesAsLibTorchDoes) {
  // c10/cuda/CUDACachingAllocator: 512-byte blocks; segments of 2 MiB, 20 MiB, or rounded to 2 MiB.
  CachingAllocator allocator;
  static_cast<void>(allocator.allocate(1));
  EXPECT_EQ(allocator.reserved(), 2 * mebibyte);
  static_cast<void>(allocator.allocate(mebibyte));  // still of the small pool
  EXPECT_EQ(allocator.reserved(), 2 * mebibyte);
  static_cast<void>(allocator.allocate(mebibyte + 1));
  EXPECT_EQ(allocator.reserved(), 22 * mebibyte);
  static_cast<void>(allocator.allocate(11 * mebibyte + 1));  // cut from the 20 MiB segment's rest
  EXPECT_EQ(allocator.reserved(), 22 * mebibyte);
  static_cast<void>(allocator.allocate(11 * mebibyte + 1));
  EXPECT_EQ(allocator.reserved(), 34 * mebibyte);
}

TEST(CachingAllocator, ReusesWhatIsFreeAndJoinsNeighbours) {
  CachingAllocator allocator;
  const auto a = allocator.allocate(4 * mebibyte);
  const auto b = allocator.allocate(4 * mebibyte);
  const auto c = allocator.allocate(4 * mebibyte);
  EXPECT_EQ(allocator.reserved(), 20 * mebibyte);
  allocator.free(a);
  allocator.free(c);
  allocator.free(b);
  static_cast<void>(allocator.allocate(9 * mebibyte));
  static_cast<void>(allocator.allocate(9 * mebibyte));
  EXPECT_EQ(allocator.reserved(), 20 * mebibyte);
}

/// One linear-like step by hand: input 100, weight 40, activation 60, gradient 40.
TEST(MemoryEstimate, FollowsTheLifeOfEveryTensor) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({100}, DataType::u8, TensorRole::input);
  const TensorId w = graph.add_tensor({40}, DataType::u8, TensorRole::parameter);
  const TensorId kept = graph.add_tensor({60}, DataType::u8, TensorRole::activation);
  const TensorId dropped = graph.add_tensor({500}, DataType::u8, TensorRole::activation);
  const TensorId last = graph.add_tensor({10}, DataType::u8, TensorRole::activation);
  const TensorId gw = graph.add_tensor({40}, DataType::u8, TensorRole::gradient);
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{x, w}, std::array{kept});
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{kept}, std::array{dropped});
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{dropped}, std::array{last});
  graph.add_op(OpKind::mul, Phase::backward, -1, std::array{last, kept}, std::array{gw});
  graph.add_op(OpKind::add, Phase::optimizer, -1, std::array{w, gw}, std::array{w});
  const MemoryEstimate estimate = estimate_memory(graph, Allocator::exact);
  EXPECT_EQ(estimate.peak_bytes, 100 + 40 + 60 + 500 + 10);
  EXPECT_EQ(estimate.parameters, 40);
  EXPECT_EQ(estimate.gradients, 0);
  EXPECT_EQ(estimate.activations, 100 + 60 + 500 + 10);
  EXPECT_EQ(graph.activation_bytes(), 60 + 10);
}

TEST(MemoryEstimate, HoldsParametersGradientsAndStateWhenTheyRule) {
  // VGG with one image: three copies of the parameters for SGD with momentum, and Adam's four.
  Workload workload = Workload::zoo("vgg11", 1, {3, 64, 64});
  const std::int64_t parameters = 4 * workload.params();
  workload.optimizer = Optimizer::sgd;
  const MemoryEstimate sgd = estimate_memory(workload.graph(), Allocator::exact);
  EXPECT_GE(sgd.peak_bytes, 2 * parameters);
  EXPECT_EQ(sgd.optimizer, 4);  // the count of steps
  workload.optimizer = Optimizer::adam;
  const MemoryEstimate adam = estimate_memory(workload.graph(), Allocator::exact);
  EXPECT_EQ(adam.optimizer, 2 * parameters + 4);
  EXPECT_GE(adam.peak_bytes, 4 * parameters);
}

TEST(MemoryEstimate, IsTheSumOfItsParts) {
  for (const Allocator allocator : {Allocator::exact, Allocator::caching}) {
    const MemoryEstimate e = estimate_memory(Workload::zoo("densenet121", 4).graph(), allocator);
    EXPECT_EQ(e.peak_bytes, e.parameters + e.gradients + e.optimizer + e.activations + e.workspace + e.context);
  }
}

Device device_of(double gigabytes) {
  Device device;
  device.name = "made up";
  device.mem_gb = gigabytes;
  return device;
}

TEST(MemoryEstimate, LargestBatchIsTheLastThatFits) {
  Workload workload = Workload::zoo("resnet18", 1);
  const Device device = device_of(8);
  const std::optional<std::int64_t> largest = largest_batch(workload, device);
  ASSERT_TRUE(largest.has_value());
  const auto fits = [&](std::int64_t batch) {
    workload.batch_size = batch;
    return estimate_memory(workload.graph(), allocator_of(device)).fits(device);
  };
  EXPECT_TRUE(fits(*largest));
  EXPECT_FALSE(fits(*largest + 1));
}

TEST(MemoryEstimate, SaysWhenNothingFits) {
  EXPECT_EQ(largest_batch(Workload::zoo("gpt2_xl", 1), device_of(16)), std::nullopt);
  EXPECT_THROW(static_cast<void>(MemoryEstimate().fits(Device())), InputError);
}

}  // namespace
}  // namespace perfpred
