// SPDX-License-Identifier: Apache-2.0
// NCCL wants a GPU a rank: with one GPU there is one rank.
#include "torch/distributed/ranks.h"

#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../torch/free_port.h"
#include "torch/device/cuda_device.h"
#include "torch/device/runtime_device.h"
#include "torch/step/training_step.h"

namespace perfpred {
namespace {

using testing::free_port;

TEST(RanksOnGpus, AverageOverOneAsItIs) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
  const c10::Device device = runtime_device("cuda");
  Ranks ranks(RankPlace{0, 1, "127.0.0.1", free_port()});
  std::unique_ptr<RankGroup> group;
  try {
    group = ranks.connect(device);
  } catch (const InputError& error) {
    GTEST_SKIP() << error.what();
  }
  Workload workload = Workload::cifar_cnn(2, 8, 16);
  workload.optimizer = Optimizer::sgd;
  at::manual_seed(1);
  const Batch batch = {at::randn({16, 3, 32, 32}, device), at::randint(0, 10, {16}, at::kLong).to(device)};
  TrainingStep together(workload, device, {}, nullptr, group.get()), alone(workload, device, {});
  for (int update = 0; update < 3; ++update) {
    together.run(batch);
    alone.run(batch);
    const NamedTensors one = together.network_state(), other = alone.network_state();
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(at::allclose(one[i].second.grad(), other[i].second.grad(), 1e-4, 1e-5)) << one[i].first;
  }
  EXPECT_EQ(group->of_first(3), 3);
  at::Tensor values = at::ones({8}, at::TensorOptions().device(device));
  static_cast<void>(group->sum(values)(true));
  EXPECT_EQ(values.sum().item<double>(), 8);
}

}  // namespace
}  // namespace perfpred
