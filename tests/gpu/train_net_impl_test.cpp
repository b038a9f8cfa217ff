// SPDX-License-Identifier: Apache-2.0
// train_net() on a CUDA device. Without one every test is skipped.
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "../torch/small_training.h"
#include "torch/device/cuda_device.h"
#include "torch/device/runtime_device.h"
#include "torch/files/checkpoint.h"
#include "torch/monitor/proc.h"

namespace perfpred {
namespace {

using testing::TemporaryFolder;

class GpuTrainNet : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
  }

  static TrainNetOptions small(int epochs, const std::string& out_dir = {}) {
    TrainNetOptions options = testing::small(epochs, out_dir);
    options.device = "cuda";
    options.threads.reset();
    return options;
  }
};

TEST_F(GpuTrainNet, StoppedAndResumedItGoesOn) {
  const TemporaryFolder folder;
  const TrainNetResult whole = testing::run(small(3, folder.file("whole")));
  TrainNetOptions options = small(3, folder.file("parts"));
  options.max_iters = 4;  // in the second of three epochs
  static_cast<void>(testing::run(options));
  options.max_iters.reset();
  options.resume = options.out_dir + "/last.pt";
  std::vector<std::string> lines;
  const TrainNetResult rest = testing::run(options, &lines);
  EXPECT_TRUE(testing::said(lines, "going on after step 1 of 3 in epoch 2 of 3"));
  ASSERT_EQ(whole.epochs.size(), 3U);
  // CUDA adds up in any order, so that losses differ a little.
  EXPECT_NEAR(rest.epochs.back().train_loss / whole.epochs.back().train_loss, 1, 0.05);
  const NamedTensors a = load_weights(folder.file("whole") + "/final.pt");
  const NamedTensors b = load_weights(folder.file("parts") + "/final.pt");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(b[i].second.device().is_cpu());  // in the file, so that a machine without a GPU reads it
  }
}

TEST_F(GpuTrainNet, ProfilesAStep) {
  TrainNetOptions options = small(1);
  options.profile_one_step = true;
  options.profile_warmup = 2;
  std::vector<std::string> lines;
  static_cast<void>(testing::run(options, &lines));
  EXPECT_TRUE(testing::said(lines, "1 steps under NVTX range train_step, after 2 others"));
}

TEST_F(GpuTrainNet, ACheckpointIsWrittenWithOneTensorOnTheHost) {
  const TemporaryFolder folder;
  constexpr std::int64_t each = 64'000'000;
  const auto options = at::TensorOptions().device(runtime_device("cuda")).dtype(at::kByte);
  NamedTensors tensors;
  for (int i = 0; i < 8; ++i) tensors.emplace_back(std::to_string(i), at::full({each}, i, options));
  const auto most_kib = [] { return leading_number(proc_value("/proc/self/status", "VmHWM")).value(); };
  save_checkpoint({"{}", "{}", {tensors[0]}}, folder.file("one.pt"));
  const double before = most_kib();
  save_checkpoint({"{}", "{}", tensors}, folder.file("all.pt"));
  EXPECT_LT((most_kib() - before) * 1024, 2 * each);
  EXPECT_EQ(load_checkpoint(folder.file("all.pt")).tensors.at(7).second[each - 1].item<int>(), 7);
}

/// Ends the process: 0 if a training on a device that fails throws DeviceError.
[[noreturn]] void train_on_a_device_that_fails(TrainNetOptions options) {
  int asked = 0;
  try {
    static_cast<void>(train_net(
        options, [](const std::string&) {},
        [&] {
          if (++asked == 2) {  // an assertion in a kernel: no call works on this device afterwards
            const at::Tensor ones = at::ones({10}, at::TensorOptions().device(at::kCUDA));
            static_cast<void>(at::index_select(ones, 0, at::full({1}, 100, ones.options().dtype(at::kLong))));
          }
          return false;
        }));
  } catch (const DeviceError&) {
    std::_Exit(0);
  } catch (const Error&) {
  }
  std::_Exit(1);
}

TEST_F(GpuTrainNet, ADeviceThatFailsIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // CUDA does not survive a fork
  EXPECT_EXIT(train_on_a_device_that_fails(small(3)), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace perfpred
