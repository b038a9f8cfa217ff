// SPDX-License-Identifier: Apache-2.0
// Measuring on a CUDA device, and what happens when it fails. Without one every test is skipped.
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/step_timer.h>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../temporary_folder.h"
#include "catalogue/nvml.h"
#include "torch/data/batch_loader.h"
#include "torch/device/cuda_device.h"
#include "torch/device/memory_peak.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/monitor/device_monitor.h"
#include "torch/step/cuda_graph.h"
#include "torch/train/training_session.h"

namespace perfpred {
namespace {

class GpuMeasuring : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
    device_ = runtime_device("cuda");
  }

  static ImageData images(std::int64_t count, std::vector<std::int64_t> shape = {3, 32, 32}) {
    GeneratedImages what;
    what.shape = std::move(shape);
    what.train = count;
    what.validation = count;
    what.test = 1;
    return generate_images(what);
  }
  [[nodiscard]] std::int64_t allocated() const {
    return at::accelerator::getDeviceStats(device_.index()).allocated_bytes[0].current;
  }
  static CollectOptions steps_to(const std::string& runs_csv) {
    CollectOptions options;
    options.timing = Timing::steps;
    options.device = "cuda";
    options.runs_csv = runs_csv;
    return options;
  }

  c10::Device device_ = c10::kCPU;
};

TEST_F(GpuMeasuring, TheLoaderHoldsTwoBatches) {
  const ImageData data = images(256, {3, 128, 128});
  constexpr std::int64_t batch = 32;
  constexpr std::int64_t bytes = batch * (3 * 128 * 128 * 4 + 8);
  const std::int64_t before = allocated();
  {
    BatchLoader loader(data.shape, {batch, device_, at::kFloat, Layout::nchw, 4});
    for (const auto& part : {data.train, data.validation, data.train}) {
      loader.start(*part, 256, 1);
      while (loader.next()) EXPECT_LE(allocated() - before, 2 * bytes + 4096);
      EXPECT_GE(allocated() - before, 2 * bytes);
    }
  }
  EXPECT_EQ(allocated(), before);
}

TEST_F(GpuMeasuring, ABatchStaysUntilTheDeviceHasUsedIt) {
  const ImageData data = images(512);
  BatchLoader here(data.shape, {32, c10::kCPU, at::kFloat, Layout::nchw, 1});
  BatchLoader there(data.shape, {32, device_, at::kFloat, Layout::nchw, 3});
  at::Tensor slow = at::rand({4096, 4096}, at::TensorOptions().device(device_));
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> wanted;
    std::vector<at::Tensor> sums;
    here.start(*data.train, 512, 9);
    while (const auto batch = here.next()) wanted.push_back(batch->inputs.abs().sum().item<double>());
    there.start(*data.train, 512, 9);
    while (const auto batch = there.next()) {  // the host is far ahead when a batch is read
      for (int i = 0; i < 4; ++i) slow = slow.matmul(slow).mul(1e-4);
      sums.push_back(batch->inputs.abs().sum());
    }
    ASSERT_EQ(sums.size(), wanted.size());
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i].item<double>() / wanted[i], 1, 1e-4) << i;
  }
}

TEST_F(GpuMeasuring, TheWaitForDataIsTheDevices) {
  const Workload workload = Workload::cifar_cnn(3, 64, 256);
  const ImageData data = images(1024);
  TrainingSession session(workload, device_, data, 0, false);
  for (int i = 0; i < 20; ++i) session.step().run(session.next());
  synchronize(device_);
  const double before = session.loader().waited_sec();
  StepClock clock(device_);
  clock.mark();
  for (int i = 0; i < 50; ++i) session.step().run(session.next());
  clock.mark();
  const double sec = clock.take(0).at(0);
  const double waited = session.loader().waited_sec() - before;
  EXPECT_GE(waited, 0);
  EXPECT_LT(waited / sec, 0.1);  // of steps that compute for milliseconds
}

/// An image takes 20 ms to read.
class Slow final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 1000; }
  [[nodiscard]] std::int64_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, std::uint64_t, Layout, std::span<float> out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::fill(out.begin(), out.end(), 0.5F);
  }
};

TEST_F(GpuMeasuring, ADeviceThatWaitsForASlowSourceSaysSo) {
  const Slow source;
  BatchLoader loader({3, 32, 32}, {8, device_, at::kFloat, Layout::nchw, 1});
  loader.start(source, 160, std::nullopt);
  StepClock clock(device_);
  clock.mark();
  double sum = 0;
  while (const auto batch = loader.next()) sum += batch->inputs.sum().item<double>();
  clock.mark();
  EXPECT_NEAR(sum, 160 * 3 * 32 * 32 * 0.5, 1);
  EXPECT_GT(loader.waited_sec() / clock.take(0).at(0), 0.5);
}

TEST_F(GpuMeasuring, TheHostsTimeIsNotItsWaitForTheDevice) {
  at::Tensor large = at::randn({8192, 8192}, at::TensorOptions().device(device_));
  const StepTiming timing = StepTimer(device_)
                                .measure([&] {
                                  for (int i = 0; i < 10; ++i) large = large.matmul(large).mul(1e-4);
                                  return true;
                                })
                                .value();
  EXPECT_GT(timing.host_p50_sec.value(), 0);
  EXPECT_LT(timing.host_p50_sec.value(), 0.2 * timing.label.median);  // twenty launches, ten large products
}

TEST_F(GpuMeasuring, AnInvalidatedCaptureLeavesTheDeviceUsable) {
  const at::Tensor ones = at::ones({1000}, at::TensorOptions().device(device_));
  {
    CudaGraph graph(device_);
    EXPECT_ANY_THROW(graph.capture([&] { static_cast<void>(ones.sum().item<double>()); }));  // waits for the device
  }
  synchronize(device_);
  EXPECT_GT(at::dropout(ones, 0.5, true).sum().item<double>(), 0);
  const at::Tensor pinned = at::ones({1000}, at::TensorOptions().pinned_memory(true));
  EXPECT_EQ(pinned.to(device_).sum().item<double>(), 1000);
  at::Tensor sum = at::zeros({}, ones.options());
  CudaGraph next(device_);
  next.capture([&] { sum.add_(at::dropout(ones, 0.5, true).sum()); });
  next.replay();
  EXPECT_GT(sum.item<double>(), 0);
}

TEST_F(GpuMeasuring, APartialBatchAfterTheCaptureIsTrained) {
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.cuda_graph = true;
  const ImageData data = images(512);
  TrainingStep step(workload, device_, {1e-3, 0, {}, 0});
  BatchLoader loader(data.shape, loader_options(workload, device_, 2));
  for (int pass = 0; pass < 2; ++pass) {
    loader.start(*data.train, 32 * 14 + 5, 1);
    while (const auto batch = loader.next()) step.run(*batch);
  }
  EXPECT_TRUE(step.captured());
  EXPECT_LT(step.take_metrics().loss, 10);
  EXPECT_THROW(step.set_learning_rate(0.1), Error);
}

TEST_F(GpuMeasuring, NoEngineIsOutOfMemoryWhereMemoryIsShort) {
  const auto fail = [] {
    guard_torch([] {
      const c10::SourceLocation here{"forward", __FILE__, __LINE__};
      throw c10::Error(here, "FIND was unable to find an engine to execute this computation");
    });
  };
  empty_cache(device_);
  {
    const auto [free, total] = at::accelerator::getMemoryInfo(device_.index());
    const auto left = static_cast<std::int64_t>(total / 50);
    const at::Tensor block =
        at::empty({static_cast<std::int64_t>(free) - left}, at::TensorOptions().device(device_).dtype(at::kByte));
    EXPECT_THROW(fail(), OutOfMemory);
  }
  empty_cache(device_);
  try {
    fail();
  } catch (const OutOfMemory&) {
    ADD_FAILURE() << "there is memory";
  } catch (const Error&) {
  }
}

TEST_F(GpuMeasuring, ReadingsArePlausible) {
  const DeviceReading reading = DeviceMonitor(device_).read();
  EXPECT_GT(reading.mem_free_mb.value(), 0);
  EXPECT_LE(reading.mem_free_mb.value() * 1e6, static_cast<double>(cuda_device(device_.index()).memory_bytes));
  if (reading.clock_mhz) {
    EXPECT_GT(*reading.clock_mhz, 100);
    EXPECT_LT(*reading.clock_mhz, 5000);
  }
}

TEST_F(GpuMeasuring, TheDriverTellsClockPowerAndProcesses) {
  const Nvml& nvml = Nvml::instance();
  ASSERT_TRUE(nvml.driver_version()) << "libnvidia-ml.so.1 is not there";
  void* const device = nvml.device(cuda_device(device_.index()).pci_bus_id);
  ASSERT_NE(device, nullptr);
  EXPECT_GT(nvml.sm_clock_mhz(device).value(), 100);
  EXPECT_LT(nvml.sm_clock_mhz(device).value(), 5000);
  EXPECT_GT(nvml.power_limit_w(device).value(), 10);
  EXPECT_LT(nvml.power_limit_w(device).value(), 5000);
  EXPECT_TRUE(nvml.throttled(device).has_value());
  EXPECT_GE(nvml.processes(device).value(), 0);
}

TEST_F(GpuMeasuring, PeaksAreTheEstimatesAndWorkspaces) {
  const testing::TemporaryFolder folder;
  Collector collector(steps_to(folder.file("runs.csv")));
  TrainingJob tensors;  // of LibTorch's own; what its libraries take is not known beforehand
  tensors.caching_allocator = true;
  constexpr double cublas_mb = 2 * 33.6;  // of two threads, on Hopper
  for (const char* network : {"resnet18", "vgg16", "mobilenet_v2"}) {
    Workload workload = Workload::zoo(network, 16);
    workload.train_images = 320;
    const auto run = collector.measure(workload);
    ASSERT_TRUE(run && run->peak_mem_mb && run->peak_reserved_mb) << network;
    const double estimated_mb =
        static_cast<double>(estimate_memory(execute(workload.graph(), DeviceKind::gpu), tensors).peak_bytes) * 1e-6;
    EXPECT_LT(*run->peak_mem_mb, 1.2 * estimated_mb + cublas_mb) << network;
    EXPECT_GT(*run->peak_reserved_mb, 0.95 * estimated_mb) << network;
    EXPECT_GE(*run->peak_reserved_mb, *run->peak_mem_mb) << network;
  }
}

TEST_F(GpuMeasuring, FreeMemoryIsThatBeforeTheNetworkIsBuilt) {
  const testing::TemporaryFolder folder;
  CollectOptions options = steps_to(folder.file("runs.csv"));
  Workload workload = Workload::zoo("vgg16", 4);  // weights, gradients and Adam's state: 2.2 GB
  workload.train_images = 16;
  options.epochs = 2;
  for (const Timing timing : {Timing::steps, Timing::epochs}) {
    options.timing = timing;
    empty_cache(device_);
    const double before = DeviceMonitor(device_).read().mem_free_mb.value();
    const auto run = Collector(options).measure(workload);
    ASSERT_TRUE(run);
    EXPECT_NEAR(run->mem_free_mb.value(), before, 500);
    EXPECT_LE(run->clock_p05_mhz.value(), run->clock_p95_mhz.value());
    EXPECT_TRUE(run->drift.has_value());
  }
}

TEST_F(GpuMeasuring, APeakHasNoTrialsOfTheLastBatch) {
  const testing::TemporaryFolder folder;
  Workload whole = Workload::cifar_cnn(3, 64, 256);
  Workload parted = whole;
  whole.train_images = 20 * 256;
  parted.train_images = 20 * 256 + 77;
  Collector collector(steps_to(folder.file("runs.csv")));
  const auto never = [] { return false; };
  const auto a = collector.measure(whole, never);
  const auto b = collector.measure(parted, never);
  ASSERT_TRUE(a && b);
  EXPECT_NEAR(*b->peak_mem_mb / *a->peak_mem_mb, 1, 0.02);
  EXPECT_GT(a->host_p50_ms.value(), 0);
}

TEST_F(GpuMeasuring, AGraphsSpeedUpIsMeasured) {
  const testing::TemporaryFolder folder;
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.train_images = 3200;
  workload.cuda_graph = true;
  const auto run = Collector(steps_to(folder.file("runs.csv"))).measure(workload);
  ASSERT_TRUE(run);
  EXPECT_GT(run->cuda_graph_speedup.value(), 0.5);
}

/// Ends the process: 0 if a sweep on a device that fails leaves a row that says so.
[[noreturn]] void sweep_on_a_device_that_fails(const std::string& runs_csv, c10::Device device, Timing timing) {
  CollectOptions options;
  options.timing = timing;
  options.device = "cuda";
  options.runs_csv = runs_csv;
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.train_images = 3200;
  int asked = 0;
  try {
    static_cast<void>(Collector(options).collect(
        std::vector<Workload>{workload}, [](const CollectProgress&) {},
        [&] {
          if (++asked == 5) {  // an assertion in a kernel: no call works on this device afterwards
            const at::Tensor ones = at::ones({10}, at::TensorOptions().device(device));
            static_cast<void>(at::index_select(ones, 0, at::full({1}, 100, ones.options().dtype(at::kLong))));
          }
          return false;
        }));
  } catch (const Error&) {
    // The sweep cannot go on.
  }
  const std::vector<perfpred::Run> runs = read_runs(runs_csv);
  std::_Exit(runs.size() == 1 && runs[0].outcome == Outcome::failed ? 0 : 1);
}

TEST_F(GpuMeasuring, ADeviceThatFailsLeavesARow) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // CUDA does not survive a fork
  for (const Timing timing : {Timing::steps, Timing::epochs}) {
    const testing::TemporaryFolder folder;
    EXPECT_EXIT(sweep_on_a_device_that_fails(folder.file("runs.csv"), device_, timing), ::testing::ExitedWithCode(0),
                "");
  }
}

}  // namespace
}  // namespace perfpred
