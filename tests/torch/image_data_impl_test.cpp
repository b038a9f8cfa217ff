// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/image_data.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "torch/data/batch_loader.h"
#include "torch/device/memory_peak.h"
#include "torch/network/trainable_network.h"
#include "torch/step/training_step.h"

namespace perfpred {
namespace {

using perfpred::testing::TemporaryFolder;

constexpr std::size_t record = 3073;

/// A file as CIFAR-10's: every pixel of an image is its number modulo 251.
std::string cifar_file(int first) {
  std::string bytes(record * 10'000, '\0');
  for (std::size_t i = 0; i < 10'000; ++i) {
    const auto number = static_cast<std::size_t>(first) + i;
    bytes[i * record] = static_cast<char>(number % 10);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * record + 1), record - 1,
                static_cast<char>(number % 251));
  }
  return bytes;
}

void write_cifar(const TemporaryFolder& folder) {
  for (int i = 0; i < 5; ++i) folder.write("data_batch_" + std::to_string(i + 1) + ".bin", cifar_file(i * 10'000));
  folder.write("test_batch.bin", cifar_file(50'000));
}

TEST(Cifar10, IsReadAndSplit) {
  const TemporaryFolder folder;
  write_cifar(folder);
  const ImageData data = read_cifar10(folder.path());
  EXPECT_EQ(data.train->size(), 45'000);
  EXPECT_EQ(data.validation->size(), 5'000);
  EXPECT_EQ(data.test->size(), 10'000);
  EXPECT_EQ(data.train->label(12'347), 7);
  EXPECT_EQ(data.validation->label(3), (45'003) % 10);
  std::vector<float> image(3 * 32 * 32);
  data.test->read(6, 0, Layout::nchw, image);
  // (byte / 255 - mean) / deviation with CIFAR-10's usual constants.
  const auto byte = static_cast<float>(50'006 % 251);
  EXPECT_NEAR(image[0], (byte / 255 - 0.4914F) / 0.2470F, 1e-5);
  EXPECT_NEAR(image[3071], (byte / 255 - 0.4465F) / 0.2616F, 1e-5);
}

TEST(Cifar10, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  EXPECT_THROW(static_cast<void>(read_cifar10(folder.path())), InputError);
  write_cifar(folder);
  std::string bytes = cifar_file(0);
  bytes[record * 17] = 10;
  folder.write("data_batch_3.bin", bytes);
  try {
    static_cast<void>(read_cifar10(folder.path()));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("data_batch_3.bin: image 17 has label 10"), std::string::npos);
  }
  bytes.pop_back();
  folder.write("data_batch_3.bin", bytes);
  EXPECT_THROW(static_cast<void>(read_cifar10(folder.path())), InputError);
}

TEST(ImageSet, FlipsAndCrops) {
  auto pixels = std::make_shared<std::vector<std::uint8_t>>();
  for (int i = 0; i < 16; ++i) pixels->push_back(static_cast<std::uint8_t>(i * 10));
  ImageSet set(pixels, {0}, {1, 4, 4}, {0.0F}, {1.0F / 255});  // values come out as the bytes
  set.augment({true, 1});
  std::set<std::vector<int>> seen;
  for (std::uint64_t draw = 0; draw < 500; ++draw) {
    std::vector<float> out(16);
    set.read(0, draw, Layout::nchw, out);
    std::vector<int> values;
    for (const float v : out) values.push_back(static_cast<int>(std::lround(v)));
    seen.insert(values);
    std::vector<float> again(16);
    set.read(0, draw, Layout::nchw, again);
    EXPECT_EQ(out, again);
  }
  EXPECT_EQ(seen.size(), 2U * 3 * 3);  // mirrored or not, three places each way
}

TEST(GeneratedImages, AreTheSameForASeed) {
  GeneratedImages what;
  what.train = what.validation = what.test = 20;
  std::vector<float> a(3072), b(3072), c(3072);
  generate_images(what).train->read(3, 0, Layout::nchw, a);
  generate_images(what).train->read(3, 0, Layout::nchw, b);
  what.seed = 1;
  generate_images(what).train->read(3, 0, Layout::nchw, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  what.classes = 1;
  EXPECT_THROW(static_cast<void>(generate_images(what)), InputError);
}

TEST(GeneratedImages, MayLeaveOutWhatIsNotTrainedOn) {
  Workload workload = Workload::cifar_cnn(2, 8, 8);
  workload.train_images = 20;
  const ImageData all = images_for(workload, "", 5);
  const ImageData train = images_for(workload, "", 5, ImageParts::train);
  EXPECT_GT(all.validation->size(), 0);
  EXPECT_EQ(train.validation, nullptr);
  EXPECT_EQ(train.test, nullptr);
  ASSERT_EQ(train.train->size(), 20);
  std::vector<float> a(3072), b(3072);
  all.train->read(19, 0, Layout::nchw, a);
  train.train->read(19, 0, Layout::nchw, b);
  EXPECT_EQ(a, b);
}

double accuracy_after(const Workload& workload, const ImageData& data, int epochs,
                      std::unique_ptr<TrainableNetwork> network = nullptr) {
  const StepOptions options{1e-3, 0, {}, 0};
  TrainingStep step(workload, c10::kCPU, options, std::move(network));
  const LoaderOptions loading{workload.batch_size, c10::kCPU, at::kFloat, Layout::nchw, 1};
  BatchLoader loader(data.shape, loading);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    loader.start(*data.train, workload.train_images, static_cast<std::uint64_t>(epoch));
    while (const auto batch = loader.next()) step.run(*batch);
  }
  return step.evaluate(loader, *data.test, [] { return false; })->accuracy.value();
}

/// Multinomial logistic regression on the pixels.
class LinearClassifier final : public TrainableNetwork {
 public:
  LinearClassifier() : weight_(at::zeros({10, 3072})), bias_(at::zeros({10})) {
    weight_.requires_grad_(true);
    bias_.requires_grad_(true);
  }
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor&) override {
    return at::linear(inputs.flatten(1), weight_, bias_);
  }
  void train(bool) override {}
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> parameters() const override {
    return {{"weight", weight_}, {"bias", bias_}};
  }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> buffers() const override { return {}; }

 private:
  at::Tensor weight_, bias_;
};

TEST(GeneratedImages, ACnnLearnsThemAndALinearClassifierDoesNot) {
  GeneratedImages what;
  what.train = 3'000;
  what.validation = 1;
  what.test = 1'000;
  const ImageData data = generate_images(what);
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.train_images = what.train;
  EXPECT_GE(accuracy_after(workload, data, 3), 0.60);
  EXPECT_LT(accuracy_after(workload, data, 5, std::make_unique<LinearClassifier>()), 0.40);
}

TEST(BatchLoader, DeliversEveryImageOnceInAnOrderOfItsSeed) {
  GeneratedImages what;
  what.train = 103;
  what.validation = what.test = 1;
  what.shape = {3, 4, 4};
  const ImageData data = generate_images(what);
  for (const int workers : {1, 3}) {
    BatchLoader loader(data.shape, {10, c10::kCPU, at::kFloat, Layout::nchw, workers});
    const auto pass = [&](std::optional<std::uint64_t> seed) {
      std::vector<float> firsts;
      std::vector<std::int64_t> sizes;
      loader.start(*data.train, 103, seed);
      while (const auto batch = loader.next()) {
        sizes.push_back(batch->inputs.size(0));
        for (std::int64_t i = 0; i < batch->inputs.size(0); ++i) firsts.push_back(batch->inputs[i].sum().item<float>());
      }
      EXPECT_EQ(sizes.size(), 11U);
      EXPECT_EQ(sizes.back(), 3);
      return firsts;
    };
    const auto plain = pass(std::nullopt);
    const auto shuffled = pass(7);
    EXPECT_EQ(shuffled, pass(7));
    EXPECT_NE(shuffled, pass(8));
    EXPECT_NE(shuffled, plain);
    EXPECT_EQ(std::multiset<float>(shuffled.begin(), shuffled.end()), std::multiset<float>(plain.begin(), plain.end()));
  }
}

TEST(BatchLoader, GoesRoundWhereMoreIsAskedForAndHasBothLayouts) {
  GeneratedImages what;
  what.train = 5;
  what.validation = what.test = 1;
  const ImageData data = generate_images(what, {true, 4});
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    BatchLoader nhwc(data.shape, {4, c10::kCPU, type, Layout::nhwc, 1});
    BatchLoader nchw(data.shape, {4, c10::kCPU, at::kFloat, Layout::nchw, 1});
    nhwc.start(*data.train, 12, 3);
    nchw.start(*data.train, 12, 3);
    int batches = 0;
    while (const auto a = nhwc.next()) {
      const auto b = nchw.next();
      EXPECT_TRUE(a->inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(at::equal(a->inputs.to(at::kFloat), b->inputs));
      EXPECT_TRUE(at::equal(a->targets, b->targets));
      ++batches;
    }
    EXPECT_EQ(batches, 3);
  }
}

class Broken final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] std::int64_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, std::uint64_t, Layout, std::span<float>) const override { throw Error("unreadable"); }
};

class Slow final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] std::int64_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, std::uint64_t, Layout, std::span<float> out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    out[0] = 0;
  }
};

// On a CPU: one with the training loop, one being assembled, be it of the training or of the validation.
TEST(BatchLoader, HoldsTwoBatchesAtATime) {
  GeneratedImages what;
  what.train = what.validation = 64;
  what.test = 1;
  const ImageData data = generate_images(what);
  constexpr std::int64_t batch = 8;
  const MemoryPeak peak(c10::kCPU);
  BatchLoader loader(data.shape, {batch, c10::kCPU, at::kFloat, Layout::nchw, 1});
  for (int pass = 0; pass < 4; ++pass) {
    loader.start(pass % 2 == 0 ? *data.train : *data.validation, 64, 1);
    while (loader.next()) {
    }
  }
  constexpr std::int64_t bytes = batch * (3 * 32 * 32 * 4 + 8);
  EXPECT_GE(peak.allocated_bytes(), 2 * bytes);
  EXPECT_LE(peak.allocated_bytes(), 2 * bytes + 4 * 64);  // blocks are multiples of 64 bytes
}

TEST(BatchLoader, SaysWhatShareItWaitsForASlowSource) {
  const Slow source;
  BatchLoader loader({1, 1, 1}, {5, c10::kCPU, at::kFloat, Layout::nchw, 1});
  const auto begin = std::chrono::steady_clock::now();
  loader.start(source, 10, std::nullopt);
  while (loader.next()) continue;
  const double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_TRUE(is_data_bound(loader.waited_sec() / sec));
  EXPECT_FALSE(is_data_bound(0.1));
}

TEST(BatchLoader, HandsOnWhatReadingThrew) {
  const Broken source;
  BatchLoader loader({1, 1, 1}, {4, c10::kCPU, at::kFloat, Layout::nchw, 2});
  loader.start(source, 10, std::nullopt);
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
}

}  // namespace
}  // namespace perfpred
