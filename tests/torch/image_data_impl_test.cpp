// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/image_data.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "torch/data/batch_loader.h"
#include "torch/data/picture_file.h"
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

/// A batch as Python 2 wrote those of CIFAR-10's own archive (its pickletools.dis()): two images, of labels 3 and 9,
/// every byte of the first 5, of the second 250.
std::string python_batch() {
  using namespace std::string_literals;
  std::string pixels(2 * (record - 1), '\5');
  std::fill(pixels.begin() + record - 1, pixels.end(), '\xfa');
  return "\x80\x02}q\x01(U\x0b"
         "batch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(K\x03K\x09"
         "eU\x04"
         "dataq\x06"
         "cnumpy.core.multiarray\n_reconstruct\nq\x07"
         "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
         "b\x87Rq\x09(K\x01K\x02M\x00\x0c\x86"
         "cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x18\x00\x00"s +
         pixels + "tbu."s;
}

constexpr const char* batch_names[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                       "data_batch_4", "data_batch_5", "test_batch"};

/// The values of an image of the test part as bytes.
std::vector<int> test_bytes(const ImageData& data, std::int64_t index) {
  std::vector<float> image(3 * 32 * 32);
  data.test->read(index, 0, Layout::nchw, image);
  constexpr std::array mean = {0.4914F, 0.4822F, 0.4465F}, deviation = {0.2470F, 0.2435F, 0.2616F};
  std::vector<int> bytes;
  for (std::size_t i = 0; i < image.size(); ++i) {
    bytes.push_back(static_cast<int>(std::lround(255 * (image[i] * deviation.at(i / 1024) + mean.at(i / 1024)))));
  }
  return bytes;
}

TEST(Cifar10, PythonsBatchesAreRead) {
  const TemporaryFolder folder;
  for (const char* name : batch_names) folder.write(name, python_batch());
  const ImageData data = read_cifar10(folder.path());
  EXPECT_EQ(data.train->size(), 9);  // of five files of two images, one for the validation
  EXPECT_EQ(data.validation->size(), 1);
  EXPECT_EQ(data.test->size(), 2);
  EXPECT_EQ(data.test->label(0), 3);
  EXPECT_EQ(data.test->label(1), 9);
  EXPECT_EQ(test_bytes(data, 0), std::vector<int>(3072, 5));
  EXPECT_EQ(test_bytes(data, 1), std::vector<int>(3072, 250));

  // Written by Python 3.11 and NumPy 2.4 from the same images: 20 c + 60 i of image i and channel c, but for image 1's
  // last channel 50 more, image 0's first byte 255 and image 1's last 7. One was loaded with encoding="bytes", as
  // CIFAR-10's page says, and written again: its keys are bytes.
  for (const char* protocol : {"2", "2_bytes_keys", "4", "5"}) {
    const std::string bytes =
        perfpred::testing::slurp(std::string(PERFPRED_SOURCE_DIR) + "/tests/torch/cifar10_batch_protocol_" + protocol);
    ASSERT_FALSE(bytes.empty());
    for (const char* name : batch_names) folder.write(name, bytes);
    const ImageData again = read_cifar10(folder.path());
    EXPECT_EQ(again.test->label(1), 9) << protocol;
    const std::vector<int> first = test_bytes(again, 0), second = test_bytes(again, 1);
    EXPECT_EQ(first[0], 255) << protocol;
    EXPECT_EQ(first[1], 0) << protocol;
    EXPECT_EQ(first[1024], 20) << protocol;
    EXPECT_EQ(first[3071], 40) << protocol;
    EXPECT_EQ(second[0], 60) << protocol;
    EXPECT_EQ(second[3070], 150) << protocol;
    EXPECT_EQ(second[3071], 7) << protocol;
  }
}

TEST(Cifar10, DamagedBatchesOfPythonAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : batch_names) folder.write(name, python_batch());
  const auto says = [&](const std::string& bytes) {
    folder.write("data_batch_4", bytes);
    return perfpred::testing::refusal([&] { static_cast<void>(read_cifar10(folder.path())); });
  };
  const std::string whole = python_batch();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  EXPECT_EQ(says(whole), "");
  EXPECT_EQ(says(whole.substr(0, 3000)), folder.file("data_batch_4") + ": its pickle is damaged");
  EXPECT_NE(says(changed("K\x09"
                         "eU",
                         "K\x0a"
                         "eU"))
                .find("/data_batch_4: image 1 has label 10"),
            std::string::npos);
  EXPECT_NE(says(changed("K\x09"
                         "eU",
                         "eU"))
                .find("has 6144 bytes of images for 1 labels"),
            std::string::npos);
  EXPECT_NE(says(changed("\x06labels", "\x06xabels")).find("is no batch of CIFAR-10"), std::string::npos);
  EXPECT_NE(says(changed("\x06labels",
                         "\x0b"
                         "fine_labels"))
                .find("is of CIFAR-100"),
            std::string::npos);
  EXPECT_NE(says("zip").find("its pickle has an operation (0x7a)"), std::string::npos) << says("zip");
  // Every change of a byte before the pixels is read or refused, never more.
  for (std::size_t at = 0; at < whole.size() - 2 * record; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    static_cast<void>(says(bytes));
  }
}

TEST(Cifar10, IsFoundInArchivesAndInTheFoldersAround) {
  const TemporaryFolder folder;
  const std::string inner = folder.file("cifar-10-batches-py");
  std::filesystem::create_directory(inner);
  for (const char* name : batch_names) folder.write(std::string("cifar-10-batches-py/") + name, python_batch());
  folder.write("cifar-10-batches-py/readme.html", "<html>");
  EXPECT_EQ(read_cifar10(folder.path()).test->size(), 2);
  const std::string archive = folder.file("cifar-10-python.tar.gz");
  ASSERT_EQ(std::system(("tar -C " + folder.path() + " -czf " + archive + " cifar-10-batches-py").c_str()), 0);
  std::filesystem::remove_all(inner);
  try {
    EXPECT_EQ(read_cifar10(archive).train->size(), 9);
  } catch (const InputError& error) {
    if (std::string(error.what()).find("built without libarchive") != std::string::npos) GTEST_SKIP() << error.what();
    throw;
  }
  EXPECT_EQ(read_cifar10(folder.path()).test->label(1), 9);
  const std::string bytes = perfpred::testing::slurp(archive);
  const auto says = [](const std::string& path) {
    return perfpred::testing::refusal([&] { static_cast<void>(read_cifar10(path)); });
  };
  const std::string cut = says(folder.write("cut.tgz", bytes.substr(0, bytes.size() / 2)));
  EXPECT_TRUE(cut.starts_with(folder.file("cut.tgz") + ": is no whole archive: ")) << cut;
  const std::string other = folder.file("other.tar");
  ASSERT_EQ(std::system(("tar -C " + folder.path() + " -cf " + other + " cut.tgz").c_str()), 0);
  EXPECT_TRUE(says(other).starts_with(other + ": holds no data_batch_1. CIFAR-10 is at https://")) << says(other);
}

TEST(Cifar10, PicturesInFoldersOfTheirClassesAreRead) {
  // red_32.png has 32 x 32 pixels of the colour 200, 20, 20.
  const TemporaryFolder folder;
  const char* names[] = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  const std::string picture = perfpred::testing::slurp(std::string(PERFPRED_SOURCE_DIR) + "/tests/torch/red_32.png");
  ASSERT_FALSE(picture.empty());
  for (const char* part : {"train", "test"}) {
    for (const char* name : names) {
      std::filesystem::create_directories(folder.file(part) + "/" + name);
      for (const char* file : {"0001.png", "0002.png"}) {
        folder.write(std::string(part) + "/" + name + "/" + file, picture);
      }
    }
  }
  if (!reads(PictureFormat::png)) GTEST_SKIP() << "built without libpng";
  const ImageData data = read_cifar10(folder.path());
  EXPECT_EQ(data.train->size(), 18);
  EXPECT_EQ(data.validation->size(), 2);
  EXPECT_EQ(data.test->size(), 20);
  std::multiset<std::int64_t> labels;
  for (std::int64_t i = 0; i < data.test->size(); ++i) labels.insert(data.test->label(i));
  for (std::int64_t label = 0; label < 10; ++label) EXPECT_EQ(labels.count(label), 2U);
  std::vector<int> expected(3072, 20);
  std::fill_n(expected.begin(), 1024, 200);
  EXPECT_EQ(test_bytes(data, 0), expected);
  std::filesystem::remove_all(folder.file("train/truck"));
  EXPECT_NE(perfpred::testing::refusal([&] {
              static_cast<void>(read_cifar10(folder.path()));
            }).find("has 9 folders of classes in train/; CIFAR-10 has 10"),
            std::string::npos);
}

TEST(Cifar10, ItIsSaidWhereToGetIt) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.file("missing")}) {
    const std::string line = perfpred::testing::refusal([&] { static_cast<void>(read_cifar10(path)); });
    EXPECT_TRUE(line.starts_with(path + ": ")) << line;
    for (const char* part : {"https://www.cs.toronto.edu/~kriz/cifar.html", "c58f30108f718f92721af3b95e74349a",
                             "c32a1d4ab5d03f1284b67883e8d87530", "train/<class>/*.png"}) {
      EXPECT_NE(line.find(part), std::string::npos) << line;
    }
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(ImageSet, ChecksWhatItIsGivenAndAskedFor) {
  const auto pixels = std::make_shared<const std::vector<std::uint8_t>>(2 * 3 * 4 * 5);
  const ImageSet set(pixels, {0, 1}, {3, 4, 5}, {0, 0, 0}, {1, 1, 1});
  std::vector<float> image(3 * 4 * 5);
  set.read(1, 0, Layout::nchw, image);
  EXPECT_THROW(set.read(2, 0, Layout::nchw, image), InputError);
  EXPECT_THROW(set.read(-1, 0, Layout::nhwc, image), InputError);
  EXPECT_THROW(static_cast<void>(set.label(2)), InputError);
  EXPECT_THROW(static_cast<void>(set.part(1, 2)), InputError);
  EXPECT_EQ(set.part(1, 1).label(0), 1);
  image.pop_back();
  EXPECT_THROW(set.read(0, 0, Layout::nchw, image), InputError);
  EXPECT_THROW(ImageSet(pixels, {0}, {3, 4, 5}, {0, 0, 0}, {1, 1, 1}), InputError);
  EXPECT_THROW(ImageSet(pixels, {0, 1}, {3, 4, 5}, {0, 0}, {1, 1}), InputError);
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
  return step.evaluate(loader, *data.test, [] { return false; })->accuracy;
}

/// Multinomial logistic regression on the pixels.
class LinearClassifier final : public TrainableNetwork {
 public:
  LinearClassifier() : weight_(at::zeros({10, 3072})), bias_(at::zeros({10})) {
    weight_.requires_grad_(true);
    bias_.requires_grad_(true);
  }
  at::Tensor forward(const at::Tensor& inputs) override { return at::linear(inputs.flatten(1), weight_, bias_); }
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

TEST(BatchLoader, GivesEachBoxOfADetectorItsImagesLabel) {
  for (const auto& [network, labels] :
       {std::pair("ssd300_resnet50", 8732), std::pair("resnet18", 1), std::pair("gpt2", 1)}) {
    EXPECT_EQ(loader_options(Workload::zoo(network, 4), c10::kCPU, 1).labels, labels) << network;
  }
  GeneratedImages what;
  what.train = 4;
  what.validation = what.test = 0;
  const ImageData data = generate_images(what);
  BatchLoader loader(data.shape, {4, c10::kCPU, at::kFloat, Layout::nchw, 1, 3});
  loader.start(*data.train, 4, std::nullopt);
  const Batch batch = loader.next().value();
  ASSERT_EQ(batch.targets.sizes(), (std::vector<std::int64_t>{4, 3}));
  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(batch.targets.flatten()[i].item<std::int64_t>(), data.train->label(i / 3));
}

TEST(BatchLoader, HandsOnWhatReadingThrew) {
  const Broken source;
  BatchLoader loader({1, 1, 1}, {4, c10::kCPU, at::kFloat, Layout::nchw, 2});
  loader.start(source, 10, std::nullopt);
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
}

}  // namespace
}  // namespace perfpred
