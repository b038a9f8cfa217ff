// SPDX-License-Identifier: Apache-2.0
// What only a CUDA device can show. Without one every test is skipped.
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/torch/step_timer.h>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "../temporary_folder.h"
#include "torch/data/batch_loader.h"
#include "torch/device/cuda_device.h"
#include "torch/device/memory_peak.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/step/cuda_graph.h"
#include "torch/step/nvtx_ranges.h"
#include "torch/step/training_step.h"

namespace perfpred {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
    device_ = runtime_device("cuda");
  }

  static ImageData images(std::int64_t count) {
    GeneratedImages what;
    what.train = count;
    what.validation = what.test = 1;
    return generate_images(what);
  }

  /// Mean losses of two passes over a few images.
  std::vector<double> losses(const Workload& workload) {
    const ImageData data = images(512);
    TrainingStep step(workload, device_, {1e-3, 0, {}, 0});
    BatchLoader loader(data.shape, loader_options(workload, device_, 2));
    std::vector<double> result;
    for (int epoch = 0; epoch < 4; ++epoch) {
      loader.start(*data.train, 512, 1);
      while (const auto batch = loader.next()) step.run(*batch);
      result.push_back(step.take_metrics().loss);
    }
    return result;
  }

  c10::Device device_ = c10::kCPU;
};

TEST_F(Gpu, LoaderBringsWhatTheCpuHas) {
  const ImageData data = images(200);
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    BatchLoader here(data.shape, {32, c10::kCPU, at::kFloat, layout, 1});
    BatchLoader there(data.shape, {32, device_, at::kFloat, layout, 3});
    for (int pass = 0; pass < 20; ++pass) {
      here.start(*data.train, 200, 5);
      there.start(*data.train, 200, 5);
      while (const auto a = here.next()) {
        const auto b = there.next();
        ASSERT_TRUE(b.has_value());
        ASSERT_TRUE(at::equal(a->inputs, b->inputs.cpu()));
        ASSERT_TRUE(at::equal(a->targets, b->targets.cpu()));
      }
    }
  }
}

TEST_F(Gpu, AGraphLearnsAsOrdinaryStepsDo) {
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  const std::vector<double> ordinary = losses(workload);
  workload.cuda_graph = true;
  const std::vector<double> replayed = losses(workload);
  for (std::size_t i = 0; i < ordinary.size(); ++i) EXPECT_NEAR(replayed[i], ordinary[i], 0.05) << i;
}

TEST_F(Gpu, AFailureInsideACaptureLeavesTheDeviceUsable) {
  const at::Tensor ones = at::ones({1000}, at::TensorOptions().device(device_));
  CudaGraph graph(device_);
  EXPECT_THROW(graph.capture([&] {
    static_cast<void>(ones.mul(2));
    throw Error("out of luck");
  }),
               Error);
  synchronize(device_);
  EXPECT_GT(at::dropout(ones, 0.5, true).sum().item<double>(), 0);
  at::Tensor sum = at::zeros({}, ones.options());
  CudaGraph next(device_);
  next.capture([&] { sum.add_(ones.sum()); });
  next.replay();
  EXPECT_EQ(sum.item<double>(), 1000);
}

TEST_F(Gpu, UpdatesWithoutAFusedKernelNeverWaitAndAreCaptured) {
  for (const Optimizer optimizer : {Optimizer::rmsprop, Optimizer::adadelta}) {
    Workload workload = Workload::cifar_cnn(2, 16, 32);
    workload.optimizer = optimizer;
    workload.precision = Precision::fp16;
    const std::vector<double> ordinary = losses(workload);
    workload.cuda_graph = true;
    const std::vector<double> replayed = losses(workload);
    EXPECT_LT(replayed.back(), replayed.front()) << to_string(optimizer);
    for (std::size_t i = 0; i < ordinary.size(); ++i) EXPECT_NEAR(replayed[i], ordinary[i], 0.1) << i;
  }
}

TEST_F(Gpu, DrawsWeightsAsTheHostDoes) {
  const auto weights = [&](std::uint64_t seed, bool on_device) {
    ModuleOptions options;
    options.seed = seed;
    options.device = device_;
    options.drawn_on_device = on_device;
    return NetworkModule(Workload::zoo("resnet18", 1), options).parameters();
  };
  const auto host = weights(1, false), drawn = weights(1, true), again = weights(1, true), others = weights(2, true);
  for (std::size_t i = 0; i < host.size(); ++i) {
    EXPECT_TRUE(at::equal(drawn[i], again[i])) << i;
    if (host[i].numel() < 9'000) continue;  // few numbers scatter
    EXPECT_FALSE(at::equal(drawn[i], others[i])) << i;
    const double deviation = host[i].std().item<double>();
    EXPECT_NEAR(drawn[i].std().item<double>(), deviation, 0.1 * deviation) << i;
    EXPECT_NEAR(drawn[i].mean().item<double>(), 0, 0.1 * deviation) << i;
  }
}

TEST_F(Gpu, EvaluatesInHalfPrecision) {
  const ImageData data = images(256);
  std::vector<double> found;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Workload workload = Workload::cifar_cnn(2, 16, 32);
    workload.precision = precision;
    TrainingStep step(workload, device_, {1e-3, 0, {}, 0});  // equal weights for all
    BatchLoader loader(data.shape, loader_options(workload, device_, 2));
    const auto metrics = step.evaluate(loader, *data.train, [] { return false; });
    ASSERT_TRUE(metrics);
    found.push_back(metrics->loss);
  }
  EXPECT_NEAR(found[1], found[0], 0.05);
  EXPECT_NEAR(found[2], found[0], 0.05);
}

TEST_F(Gpu, ASecondDeviceTrains) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "there is one CUDA device";
  const perfpred::testing::TemporaryFolder folder;
  const auto held = [](int index) {
    return at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(index)).allocated_bytes[0].current;
  };
  at::accelerator::resetPeakStats(0);
  const auto before = held(0);
  CollectOptions options;
  options.device = "cuda:1";
  options.epochs = 2;
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.train_images = 320;
  const auto run = Collector(options).measure(workload);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, Outcome::ok) << run->note;
  EXPECT_EQ(at::accelerator::getDeviceStats(0).allocated_bytes[0].peak, before);
}

TEST_F(Gpu, EveryPrecisionAndLayoutLearns) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const bool graph : {false, true}) {
        Workload workload = Workload::cifar_cnn(2, 16, 32);
        workload.precision = precision;
        workload.layout = layout;
        workload.cuda_graph = graph;
        const std::vector<double> course = losses(workload);
        EXPECT_LT(course.back(), course.front()) << to_string(precision) << ' ' << to_string(layout) << ' ' << graph;
      }
    }
  }
}

TEST_F(Gpu, BackwardRunsOnAThreadOfItsOwnThatTheHookReaches) {
  const Workload workload = Workload::cifar_cnn(2, 16, 32);
  const ImageData data = images(64);
  TrainingStep step(workload, device_, {1e-3, 0, {}, 0});
  BatchLoader loader(data.shape, {32, device_, at::kFloat, Layout::nchw, 1});
  loader.start(*data.train, 64, 1);
  std::vector<std::pair<bool, std::thread::id>> calls;
  step.on_backward_thread([&](bool begins) { calls.emplace_back(begins, std::this_thread::get_id()); });
  step.run(*loader.next());
  synchronize(device_);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_TRUE(calls[0].first);
  EXPECT_FALSE(calls[1].first);
  EXPECT_EQ(calls[0].second, calls[1].second);
  EXPECT_NE(calls[0].second, std::this_thread::get_id());
  step.on_backward_thread(nullptr);
  run_with_ranges(step, *loader.next());
}

TEST_F(Gpu, StepTimesAreTheWallClocks) {
  const Workload workload = Workload::cifar_cnn(3, 64, 256);
  const ImageData data = images(1024);
  TrainingStep step(workload, device_, {1e-3, 0, {}, 0});
  BatchLoader loader(data.shape, {256, device_, at::kFloat, Layout::nchw, 1});
  loader.start(*data.train, 256 * 4000, 1);
  const auto one = [&] {
    step.run(*loader.next());
    return true;
  };
  const StepTiming timing = StepTimer(device_).measure(one).value();
  EXPECT_GE(timing.label.samples, 10);
  constexpr int steps = 100;
  synchronize(device_);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) one();
  synchronize(device_);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps;
  EXPECT_NEAR(timing.label.median / wall, 1, 0.2);
}

TEST_F(Gpu, OutOfMemoryIsAnOutcomeAndTheSweepGoesOn) {
  constexpr std::int64_t weights = 154'000'000'000;  // bytes of `huge`, which would be drawn on the host next
  if (cuda_device(device_.index()).memory_bytes > weights)
    GTEST_SKIP() << "the device has more memory than is asked for";
  const perfpred::testing::TemporaryFolder folder;
  CollectOptions options;
  options.timing = Timing::steps;
  options.device = "cuda";
  options.runs_csv = folder.file("runs.csv");
  Workload huge = Workload::cifar_cnn(1, 65'536, 8'192);
  Workload small = Workload::cifar_cnn(2, 16, 64);
  huge.train_images = 16'384;
  small.train_images = 2'000;
  Collector collector(options);
  const std::vector<Workload> both = {huge, small};
  const CollectResult result = collector.collect(both);
  ASSERT_EQ(result.runs.size(), 2U);
  for (const perfpred::Run& run : result.runs) {
    const bool is_huge = run.workload.base_filters() == 65'536;
    EXPECT_EQ(run.outcome == Outcome::oom, is_huge);
    EXPECT_EQ(run.avg_time_sec.has_value(), !is_huge);
    if (!is_huge) {
      EXPECT_GT(*run.peak_mem_mb, 0);
    }
  }
}

TEST_F(Gpu, PeakMemoryIsTheAllocators) {
  const MemoryPeak peak(device_);
  const std::int64_t before = peak.allocated_bytes();
  { const at::Tensor block = at::empty({1 << 28}, at::TensorOptions().device(device_).dtype(at::kByte)); }
  EXPECT_GE(peak.allocated_bytes() - before, 1 << 28);
  EXPECT_GE(peak.reserved_bytes(), 1 << 28);
  empty_cache(device_);
}

}  // namespace
}  // namespace perfpred
