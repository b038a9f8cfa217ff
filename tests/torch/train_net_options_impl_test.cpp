// SPDX-License-Identifier: Apache-2.0
// What train_net() and perfpred-train-net refuse.
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../cli/spawn.h"
#include "../refusal.h"
#include "../temporary_folder.h"
#include "small_training.h"
#include "torch/files/checkpoint.h"

namespace perfpred {
namespace {

using perfpred::testing::run;
using perfpred::testing::small;
using perfpred::testing::TemporaryFolder;

TEST(TrainNet, RefusesMissingAndForeignCheckpoints) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.file("out"));
  static_cast<void>(run(options));
  TrainNetOptions other = options;
  other.resume = folder.file("missing.pt");
  EXPECT_THROW(static_cast<void>(run(other)), InputError);
  other.resume = folder.write("junk.pt", "no checkpoint");
  EXPECT_THROW(static_cast<void>(run(other)), InputError);
  other.resume = options.out_dir + "/last.pt";
  other.learning_rate = 0.02;
  try {
    static_cast<void>(run(other));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("was made with lr 0.01, not 0.02"), std::string::npos) << error.what();
  }
  other.learning_rate = options.learning_rate;
  other.threads = 2;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(other)); }).find("made with threads 1, not 2"),
            std::string::npos);
  for (const int threads : {0, 100'000}) {
    other.threads = threads;
    EXPECT_EQ(perfpred::testing::refusal([&] {
                static_cast<void>(run(other));
              }).find(fmt::format("threads {} is not between 1 and", threads)),
              0U);
  }
  other = options;
  other.init = options.out_dir + "/last.pt";
  other.network = "resnet18";
  EXPECT_THROW(static_cast<void>(run(other)), InputError);
}

TEST(TrainNet, ABatchOfOneImageIsRefusedWhereItHasNoVariance) {
  TrainNetOptions options = small();
  options.network = "resnet18";
  options.train_images = 17;
  options.batch_size = 16;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("choose another batch size"),
            std::string::npos);
}

/// What a training says that options spoilt so do not begin.
template <class Spoil>
std::string says(const Spoil& spoil) {
  TrainNetOptions options = small();
  spoil(options);
  return perfpred::testing::refusal([&] { static_cast<void>(run(options)); });
}

TEST(TrainNet, RefusalsSayWhatIsWrong) {
  EXPECT_NE(says([](auto& o) { o.network = "cifar_cnn"; }).find("without depth and base_filters"), std::string::npos);
  EXPECT_EQ(says([](auto& o) { o.data = "cifar10:", o.train_images.reset(); }), "data \"cifar10:\" names no folder");
  EXPECT_EQ(says([](auto& o) { o.data = "imagefolder:", o.train_images.reset(); }),
            "data \"imagefolder:\" names no folder");
  EXPECT_EQ(says([](auto& o) { o.network = "ssd300_resnet50"; }),
            "network ssd300_resnet50 learns boxes, which no data has");
}

TEST(TrainNet, RefusalsComeBeforeAnyOtherLine) {
  const TemporaryFolder folder;
  const std::string junk = folder.write("junk", "");
  for (const auto& spoil : std::vector<std::function<void(TrainNetOptions&)>>{
           [](auto& o) { o.data = "cifar10:/nowhere", o.train_images.reset(); }, [&](auto& o) { o.resume = junk; },
           [&](auto& o) { o.init = junk; }, [&](auto& o) { o.out_dir = junk; },
           [](auto& o) { o.log_file = "/nowhere/log.csv"; }, [&](auto& o) { o.resume = junk, o.evaluate = true; }}) {
    TrainNetOptions options = small();
    options.input = "3x32x32";
    spoil(options);
    std::vector<std::string> lines;
    EXPECT_THROW(static_cast<void>(run(options, &lines)), InputError);
    EXPECT_EQ(lines, std::vector<std::string>{});
  }
}

TEST(TrainNet, NothingIsFreedOnAFailedDevice) {
  const c10::SourceLocation here{"forward", __FILE__, __LINE__};
  const auto held_after = [](auto&& fail) {
    auto held = std::make_shared<int>();  // by the function that the trainer asks whether to stop
    int asked = 0;
    const std::function<bool()> stop = [held, &asked, &fail] {
      if (++asked == 2) fail();
      return false;
    };
    const auto owners = held.use_count();
    EXPECT_THROW(static_cast<void>(train_net(
                     small(), [](const std::string&) {}, stop)),
                 Error);
    return held.use_count() > owners;
  };
  EXPECT_TRUE(held_after([&] { throw c10::AcceleratorError(here, 700, "CUDA error: an illegal memory access"); }));
  EXPECT_FALSE(held_after([&] { throw c10::OutOfMemoryError(here, "CUDA out of memory"); }));
}

TEST(TrainNet, ADeviceThatIsLostLeavesTheLastCheckpoint) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(3, folder.file("out"));
  options.log_file = folder.file("log.csv");
  std::string last_line;
  bool second_epoch = false;
  const auto train = [&] {
    static_cast<void>(train_net(
        options,
        [&](const std::string& line) {
          last_line = line;
          second_epoch |= line.starts_with("epoch 1/3: ");
        },
        [&]() -> bool {  // asked after a step
          if (!second_epoch) return false;
          throw c10::AcceleratorError({"forward", __FILE__, __LINE__}, 700, "CUDA error: unspecified launch failure");
        }));
  };
  EXPECT_THROW(train(), DeviceError);
  EXPECT_EQ(last_line, "failed after step 1 of 3 in epoch 2 of 3; last.pt is from before that");
  EXPECT_EQ(load_checkpoint(options.out_dir + "/last.pt").progress.find("\"step\""), std::string::npos);
  const std::string log = perfpred::testing::slurp(options.log_file);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 4);
}

TEST(TrainNet, RefusesWhatTrainsNothing) {
  EXPECT_EQ(says([](auto& o) { o.max_iters = 0; }), "max-iters 0 is not at least 1");
  EXPECT_EQ(says([](auto& o) { o.warmup = 10; }),
            "warmup 10 is more than the 9 steps of the training, which would never reach the learning rate");
  EXPECT_EQ(says([](auto& o) { o.warmup = 9, o.max_iters = 1; }), "");
  EXPECT_EQ(says([](auto& o) { o.warmup = 10, o.evaluate = true; }), "");
  EXPECT_EQ(says([](auto& o) { o.optimizer = Optimizer::none; }), "optimizer none trains nothing");
  EXPECT_EQ(says([](auto& o) { o.optimizer = Optimizer::none, o.evaluate = true; }), "");
  EXPECT_EQ(says([](auto& o) { o.optimizer = Optimizer::none, o.profile_one_step = true; }), "");
}

TEST(TrainNet, RefusesOptionsOutOfRange) {
  for (const auto& spoil : std::vector<std::function<void(TrainNetOptions&)>>{
           [](auto& o) { o.epochs = 0; }, [](auto& o) { o.batch_size = 0; }, [](auto& o) { o.learning_rate = -1; },
           [](auto& o) { o.loss.label_smoothing = 1; }, [](auto& o) { o.workers = 0; },
           [](auto& o) { o.accumulate = 0; }, [](auto& o) { o.save_every = 2; }, [](auto& o) { o.data = "mnist"; },
           [](auto& o) { o.network = "resnet19"; }, [](auto& o) { o.input = "3x"; }, [](auto& o) { o.device = "gpu"; },
           [](auto& o) { o.precision = Precision::tf32; },
           [](auto& o) { o.data = "cifar10:/nowhere", o.train_images.reset(); },
           [](auto& o) { o.log_file = "/nowhere/log.csv"; }}) {
    TrainNetOptions options = small();
    spoil(options);
    EXPECT_THROW(static_cast<void>(run(options)), InputError);
  }
}

TEST(TrainNet, EmptyFunctionsAreNotCalled) {
  TrainNetOptions options = small();
  options.max_iters = 1;
  EXPECT_EQ(train_net(options, nullptr, nullptr).epochs.size(), 1U);
}

TEST(TrainNet, RefusesOptionsThatWouldHaveNoEffect) {
  EXPECT_EQ(says([](auto& o) { o.data = "imagefolder:d", o.train_images.reset(), o.classes = 3; }),
            "classes is for generated and dummy data only");
  EXPECT_EQ(says([](auto& o) { o.data = "cifar10:d"; }), "train-images is for generated and dummy data only");
  EXPECT_EQ(says([](auto& o) { o.skip_corrupt = true; }), "skip-corrupt is for imagefolder data only");
  EXPECT_EQ(says([](auto& o) { o.verify = true; }), "verify is for imagefolder data only");
  EXPECT_EQ(says([](auto& o) { o.env = "here"; }), "env needs log_file");
  EXPECT_EQ(says([](auto& o) { o.evaluate = true, o.accumulate = 2; }), "accumulate is for a training");
  EXPECT_EQ(says([](auto& o) { o.warmup_iters = 1; }), "warmup_iters needs log_file");
  EXPECT_EQ(says([](auto& o) { o.evaluate = o.profile_one_step = true; }),
            "evaluate and profile_one_step exclude each other");
  EXPECT_EQ(says([](auto& o) { o.resume = "a", o.init = "b"; }), "resume and init exclude each other");

  const std::string program = perfpred::testing::program("train-net");
  if (program.empty()) GTEST_SKIP() << "perfpred-train-net is not built";
  const auto refused = [&](std::vector<std::string> words, const std::string& line) {
    words.insert(words.begin(), program);
    perfpred::testing::expect_refusal(perfpred::testing::spawn(words), 2, line);
  };
  for (const char* option : {"--lr", "--weight-decay", "--label-smoothing", "--epochs", "--accumulate", "--warmup",
                             "--save-every", "--max-iters", "--warmup-iters"}) {
    refused({"--evaluate", option, "1"}, "--evaluate excludes");
  }
  for (const char* option : {"--epochs", "--warmup", "--out-dir", "--log-file", "--env"}) {
    refused({"--profile-one-step", option, "1"}, "--profile-one-step excludes");
  }
  refused({"--profile-iter", "2"}, "--profile-iter requires --profile-one-step");
  refused({"--save-every", "2"}, "--save-every requires --out-dir");
  refused({"--warmup-iters", "2"}, "--warmup-iters requires --log-file");
  refused({"--resume", "a.pt", "--init", "b.pt"}, "--resume excludes --init");
}

}  // namespace
}  // namespace perfpred
