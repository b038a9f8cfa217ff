// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <ATen/ATen.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../cli/spawn.h"
#include "../refusal.h"
#include "text/csv.h"
#include "tools/iteration_log.h"
#include "torch/data/image_folder.h"
#include "torch/train/checkpoint.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using perfpred::testing::TemporaryFolder;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// 16 x 16 pixels: red grows to the right, green downwards, blue is even.
std::string small_jpeg() {
  constexpr std::string_view hex =
      "ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b28252528513a3d30"
      "42605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6c799a8aba4ffdb0043011c1e1e282328"
      "4e2b2b4ea46e5d6ea4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4"
      "a4a4a4a4a4a4a4a4ffc00011080010001003011100021101031101ffc4001f00000105010101010101000000000000000001"
      "02030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114"
      "328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a53545556"
      "5758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5"
      "b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f010003"
      "0101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102"
      "031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35"
      "363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495"
      "969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9ea"
      "f2f3f4f5f6f7f8f9faffda000c03010002110311003f00cc8adbdabaa53269542dc56ded58ca67a74aa16e2b6f6ac6533e76"
      "9542e456ded58ca67a54aa1fffd9";
  return from_hex(hex);
}

/// 8 x 8 pixels in CMYK, stored 200, 100, 50, 128: red 100, green 50, blue 25.
std::string cmyk_jpeg() {
  return from_hex(
      "ffd8ffee000e41646f626500640000000002ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e"
      "2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffdb0043010e0e0e1311132615"
      "15264f352d354f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f"
      "4f4f4f4f4f4fffc00014080008000804011100021101031101041100ffc4001f000001050101010101010000000000000000"
      "0102030405060708090a0bffc400b5100002010303020403050504040000017d010203000411051221314106135161072271"
      "14328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455"
      "565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4"
      "b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100"
      "030101010101010101010000000000000102030405060708090a0bffc400b511000201020404030407050404000102770001"
      "02031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a"
      "35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a929394"
      "95969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9"
      "eaf2f3f4f5f6f7f8f9faffda000e040100021103110400003f00757b078015ffd9");
}

/// Batch norm, dropout and depthwise convolutions on a few small images.
TrainNetOptions small() {
  TrainNetOptions options;
  options.network = "mobilenet_v3_small";
  options.input = "3x32x32";
  options.train_images = 96;
  options.batch_size = 32;
  options.learning_rate = 0.01;
  options.warmup = 2;
  options.epochs = 3;
  options.threads = 1;
  options.device = "cpu";
  return options;
}

/// The same for so many epochs, with checkpoints.
TrainNetOptions small(int epochs, const std::string& out_dir) {
  TrainNetOptions options = small();
  options.epochs = epochs;
  options.out_dir = out_dir;
  return options;
}

TrainNetResult run(const TrainNetOptions& options, std::vector<std::string>* lines = nullptr) {
  return train_net(
      options,
      [lines](const std::string& line) {
        if (lines != nullptr) lines->push_back(line);
      },
      [] { return false; });
}

std::vector<std::int64_t> indices(const std::string& log) {
  CsvReader csv(log);
  std::vector<std::int64_t> list;
  while (csv.next()) list.push_back(csv.integer(csv.required("iter_idx")));
  return list;
}

void expect_same(const std::string& a, const std::string& b) {
  const NamedTensors x = load_checkpoint(a).tensors;
  const NamedTensors y = load_checkpoint(b).tensors;
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i].first, y[i].first);
    EXPECT_TRUE(at::equal(x[i].second, y[i].second)) << x[i].first;
  }
}

TEST(TrainNet, KilledAndResumedEndsBitForBitWhereItWouldHave) {
  const std::string program = perfpred::testing::program("train-net");
  if (program.empty()) GTEST_SKIP() << "perfpred-train-net is not built";
  const TemporaryFolder folder;
  const auto command = [&](const std::string& out) {
    return std::vector<std::string>{program,
                                    "--network",
                                    "mobilenet_v3_small",
                                    "--input",
                                    "3x32x32",
                                    "--train-images",
                                    "96",
                                    "--batch-size",
                                    "32",
                                    "--lr",
                                    "0.01",
                                    "--warmup",
                                    "2",
                                    "--epochs",
                                    "3",
                                    "--threads",
                                    "1",
                                    "--device",
                                    "cpu",
                                    "--out-dir",
                                    folder.file(out)};
  };
  ASSERT_EQ(perfpred::testing::spawn(command("whole")).exit_code, 0);

  const pid_t child = ::fork();
  if (child == 0) {
    const auto words = command("killed");
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    static_cast<void>(::freopen("/dev/null", "w", stderr));
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
  }
  const std::string last = folder.file("killed") + "/last.pt";
  for (int i = 0; i < 6000 && !fs::exists(last); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(fs::exists(last));

  auto again = command("resumed");
  again.insert(again.end(), {"--resume", last});
  const auto resumed = perfpred::testing::spawn(again);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  expect_same(folder.file("whole") + "/final.pt", folder.file("resumed") + "/final.pt");
}

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
  other = options;
  other.init = options.out_dir + "/last.pt";
  other.network = "resnet18";
  EXPECT_THROW(static_cast<void>(run(other)), InputError);
}

bool said(const std::vector<std::string>& lines, const std::string& what) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

TEST(TrainNet, StoppedInsideAnEpochGoesOnThere) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(2, folder.file("whole"));
  options.log_file = folder.file("whole.csv");
  const TrainNetResult whole = run(options);

  options.out_dir = folder.file("parts");
  options.log_file = folder.file("parts.csv");
  options.max_iters = 4;
  std::vector<std::string> lines;
  static_cast<void>(run(options, &lines));
  EXPECT_TRUE(said(lines, "stopped after step 1 of 3 in epoch 2 of 2; last.pt goes on from there"));
  EXPECT_FALSE(fs::exists(options.out_dir + "/final.pt"));
  options.max_iters = std::nullopt;
  options.resume = options.out_dir + "/last.pt";

  // A signal after another step.
  int steps = 0;
  lines.clear();
  const TrainNetResult stopped = train_net(
      options, [&](const std::string& line) { lines.push_back(line); }, [&] { return ++steps == 1; });
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(said(lines, "going on after step 1 of 3 in epoch 2 of 2"));

  lines.clear();
  const TrainNetResult rest = run(options, &lines);
  EXPECT_TRUE(said(lines, "going on after step 2 of 3 in epoch 2 of 2"));
  expect_same(folder.file("whole") + "/final.pt", folder.file("parts") + "/final.pt");
  ASSERT_EQ(rest.epochs.size(), 1U);
  EXPECT_NEAR(rest.epochs[0].train_loss, whole.epochs[1].train_loss, 1e-6);
  EXPECT_EQ(rest.epochs[0].train_acc, whole.epochs[1].train_acc);
  EXPECT_EQ(rest.epochs[0].val_loss, whole.epochs[1].val_loss);
  EXPECT_EQ(rest.test_loss, whole.test_loss);
  EXPECT_EQ(indices(folder.file("parts.csv")), indices(folder.file("whole.csv")));
}

/// A signal that comes just before this question: one is asked after every step and before every batch of an
/// evaluation.
std::function<bool()> stop_at(int question) {
  return [question, asked = 0]() mutable { return ++asked == question; };
}

TEST(TrainNet, StoppedInAnEvaluationGoesOnThere) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(2, folder.file("whole"));
  const TrainNetResult whole = run(options);

  // After the three steps of the first epoch, in the second of four batches of validation.
  options.out_dir = folder.file("parts");
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  TrainNetResult stopped = train_net(options, keep, stop_at(3 + 2));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(stopped.epochs.empty());
  EXPECT_EQ(lines.back(), "stopped after step 3 of 3 in epoch 1 of 2; last.pt goes on from there");
  EXPECT_FALSE(fs::exists(options.out_dir + "/best.pt"));

  // With an epoch's last step: nothing is evaluated any more.
  options.resume = options.out_dir + "/last.pt";
  lines.clear();
  stopped = train_net(options, keep, stop_at(4 + 3));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(said(lines, "going on after step 3 of 3 in epoch 1 of 2"));
  EXPECT_EQ(lines.back(), "stopped after step 3 of 3 in epoch 2 of 2; last.pt goes on from there");
  ASSERT_EQ(stopped.epochs.size(), 1U);
  EXPECT_NEAR(stopped.epochs[0].train_loss, whole.epochs[0].train_loss, 1e-6);
  EXPECT_EQ(stopped.epochs[0].train_acc, whole.epochs[0].train_acc);
  EXPECT_EQ(stopped.epochs[0].val_loss, whole.epochs[0].val_loss);
  EXPECT_EQ(stopped.epochs[0].sec, 0);
  EXPECT_EQ(stopped.epochs[0].images_per_sec, 0);
  EXPECT_FALSE(stopped.epochs[0].data_bound);

  // In the test, after the training.
  lines.clear();
  stopped = train_net(options, keep, stop_at(4 + 1));
  EXPECT_TRUE(stopped.stopped);
  ASSERT_EQ(stopped.epochs.size(), 1U);
  EXPECT_EQ(stopped.epochs[0].val_loss, whole.epochs[1].val_loss);
  EXPECT_FALSE(stopped.test_acc);
  EXPECT_EQ(lines.back(), "stopped in the test");

  EXPECT_EQ(run(options).test_loss, whole.test_loss);
  for (const char* name : {"/last.pt", "/best.pt", "/final.pt"}) {
    expect_same(folder.file("whole") + name, options.out_dir + name);
  }
  options.evaluate = true;
  EXPECT_TRUE(train_net(options, keep, stop_at(2)).stopped);
  EXPECT_EQ(lines.back(), "stopped in the test");
}

TEST(TrainNet, StoppedInTheEvaluationOfAPartOfAnEpochItIsStopped) {
  TrainNetOptions options = small();
  options.max_iters = 1;
  const TrainNetResult stopped = train_net(
      options, [](const std::string&) {}, stop_at(1 + 2));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(stopped.epochs.empty());
}

TEST(TrainNet, KilledBetweenItsCheckpointsItWritesThemAgain) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.epochs = 2;
  options.save_every = 2;
  options.out_dir = folder.file("whole");
  static_cast<void>(run(options));
  struct Death {
    const char *name, *line;
  };
  for (const Death& death :
       {Death{"/best.pt", "epoch 1/2:"}, Death{"/epoch_2.pt", "epoch 2/2:"}, Death{"/final.pt", "epoch 2/2:"}}) {
    options.out_dir = folder.file("killed") + death.name;
    options.resume.clear();
    const std::string blocked = options.out_dir + death.name;
    const auto block = [&](const std::string& line) {
      if (line.rfind(death.line, 0) == 0) fs::create_directory(blocked);
    };
    EXPECT_THROW(static_cast<void>(train_net(options, block, [] { return false; })), InputError);
    fs::remove(blocked);
    const std::string last = options.out_dir + "/last.pt";
    if (fs::exists(last)) options.resume = last;
    static_cast<void>(run(options));
    for (const char* name : {"/best.pt", "/epoch_2.pt", "/final.pt", "/last.pt"}) {
      ASSERT_TRUE(fs::exists(options.out_dir + name)) << name << " after " << death.name;
      expect_same(folder.file("whole") + name, options.out_dir + name);
    }
  }
}

TEST(TrainNet, CheckpointsTornByAKilledTrainingGo) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.path());
  static_cast<void>(run(options));
  const std::string whole = perfpred::testing::slurp(folder.file("last.pt"));
  const std::string torn = whole.substr(0, whole.size() / 2);
  for (const char* name : {"last.pt.a1B2c3", "best.pt.ABCDEF", "epoch_12.pt.000000", "final.pt.zzzzzz"}) {
    folder.write(name, torn);
  }
  folder.write("best.pt.Empty0", "");
  const std::vector<std::string> others = {"last.pt.part", "weights.pt.a1B2c3", "last.pt.a1B-c3", "epoch_.pt.a1B2c3"};
  for (const std::string& name : others) folder.write(name, torn);
  folder.write("last.pt.backup", whole);  // six letters, but a user's
  fs::create_directory(folder.file("last.pt.folder"));
  options.evaluate = true;
  static_cast<void>(run(options));
  EXPECT_TRUE(fs::exists(folder.file("last.pt.a1B2c3")));
  options.evaluate = false;
  static_cast<void>(run(options));
  for (const char* name : {"last.pt.a1B2c3", "best.pt.ABCDEF", "epoch_12.pt.000000", "final.pt.zzzzzz"}) {
    EXPECT_FALSE(fs::exists(folder.file(name))) << name;
  }
  EXPECT_FALSE(fs::exists(folder.file("best.pt.Empty0")));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder.file(name))) << name;
  EXPECT_TRUE(fs::exists(folder.file("last.pt.backup")));
  EXPECT_TRUE(fs::exists(folder.file("last.pt.folder")));
}

TEST(TrainNet, AFinishedTrainingIsHandedOn) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.file("first"));
  const TrainNetResult trained = run(options);
  options.resume = options.out_dir + "/last.pt";
  options.out_dir = folder.file("second");
  std::vector<std::string> lines;
  EXPECT_EQ(run(options, &lines).test_loss, trained.test_loss);
  EXPECT_TRUE(said(lines, "the training is finished, no epoch is left"));
  expect_same(folder.file("first") + "/final.pt", options.out_dir + "/final.pt");
  expect_same(folder.file("first") + "/last.pt", options.out_dir + "/last.pt");
}

TEST(TrainNet, EvaluatesTheModelOfACheckpoint) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.file("out"));
  const TrainNetResult trained = run(options);
  options.evaluate = true;
  std::vector<std::string> lines;
  EXPECT_NE(run(options, &lines).test_loss, trained.test_loss);
  EXPECT_TRUE(said(lines, "the weights are random"));
  options.resume = options.out_dir + "/last.pt";
  lines.clear();
  EXPECT_EQ(run(options, &lines).test_loss, trained.test_loss);
  EXPECT_FALSE(said(lines, "the weights are random"));
  options.resume = folder.file("missing.pt");
  EXPECT_THROW(static_cast<void>(run(options)), InputError);
  options.evaluate = false;
  options.profile_one_step = true;
  EXPECT_THROW(static_cast<void>(run(options)), InputError);
}

TEST(TrainNet, InitialWeightsAreTaken) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.file("out"));
  const TrainNetResult trained = run(options);
  options.init = options.out_dir + "/final.pt";
  options.evaluate = true;
  options.out_dir.clear();
  options.seed = 0;
  EXPECT_EQ(*run(options).test_loss, *trained.test_loss);
}

/// What reading the weights in a file of tests/torch throws; made by torch.save() of PyTorch 2.11.
std::string weights_refusal(const std::string& path) {
  return perfpred::testing::refusal([&] { static_cast<void>(load_weights(path)); });
}

const std::string saved_folder = std::string(PERFPRED_SOURCE_DIR) + "/tests/torch/";

TEST(Checkpoint, StateDictionariesOfPythonAreRead) {
  // An OrderedDict with an attribute _metadata: w = arange(6).reshape(2, 3).t() in float32, n = 7.
  const NamedTensors weights = load_weights(saved_folder + "state_dict.pt");
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0].first, "w");
  EXPECT_TRUE(at::equal(weights[0].second, at::arange(6, at::kFloat).reshape({2, 3}).t()));
  EXPECT_EQ(weights[1].second.item<std::int64_t>(), 7);
}

TEST(Checkpoint, WhatIsNoStateDictionaryIsSaid) {
  const std::string nested = saved_folder + "nested_state_dict.pt";  // {"model": the same, "epoch": 3, "lr": 0.5}
  EXPECT_EQ(weights_refusal(nested), nested +
                                         ": holds a dictionary of model (a dictionary), epoch (a number), lr (a "
                                         "number), not a state dictionary (names and tensors)");
  const TemporaryFolder folder;
  EXPECT_NE(weights_refusal(folder.write("a.pt", "hello")).find("is no file of torch.save()"), std::string::npos);
  const std::string old("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  EXPECT_NE(weights_refusal(folder.write("b.pt", old)).find("old format"), std::string::npos);
  const std::string whole = perfpred::testing::slurp(saved_folder + "state_dict.pt");
  EXPECT_NE(weights_refusal(folder.write("c.pt", whole.substr(0, 900))).find("is no whole file"), std::string::npos);
  // Every change of a byte of the pickle is read or refused, never more, where no checksum tells of it.
  const std::size_t pickle = whole.find(
      "\x80\x02"
      "ccollections");
  ASSERT_NE(pickle, std::string::npos);
  std::string unchecked = whole;
  unchecked.replace(unchecked.find("PK\x07\x08", pickle) + 4, 4, 4, '\0');
  EXPECT_EQ(weights_refusal(folder.write("d.pt", unchecked)), "");
  for (std::size_t at = pickle; at < pickle + 400; ++at) {
    std::string changed = unchecked;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    static_cast<void>(weights_refusal(folder.write("d.pt", changed)));
  }
}

Checkpoint two_megabytes() { return {"{}", "{}", {{"w", at::arange(1 << 19, at::kFloat)}}}; }

TEST(Checkpoint, WhatTheDiskRefusesIsOneLineAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("last.pt", "the one before");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  std::string message;
  try {
    save_checkpoint(two_megabytes(), path);
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, path + ": cannot be written: File too large");
  EXPECT_EQ(perfpred::testing::slurp(path), "the one before");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(Checkpoint, AChangedByteIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("last.pt");
  save_checkpoint(two_megabytes(), path);
  const std::string whole = perfpred::testing::slurp(path);
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
  folder.write("last.pt", changed);
  const std::string message = perfpred::testing::refusal([&] { static_cast<void>(load_checkpoint(path)); });
  EXPECT_EQ(message, path + ": is no whole file of torch.save(): it is cut off or damaged");
  EXPECT_EQ(weights_refusal(path), message);
  folder.write("last.pt", whole);
  EXPECT_EQ(load_checkpoint(path).tensors.size(), 1U);
}

TEST(Checkpoint, AFileThatIsCutOffIsSaidShortly) {
  const TemporaryFolder folder;
  const std::string path = folder.file("last.pt");
  save_checkpoint(two_megabytes(), path);
  fs::resize_file(path, 1'000'000);
  EXPECT_EQ(weights_refusal(path), path + ": is no whole file of torch.save(): it is cut off or damaged");
}

TEST(TrainNet, LogsIterations) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.data = "dummy";
  options.epochs = 2;
  options.max_iters = 5;
  options.warmup_iters = 2;
  options.env = "here";
  options.log_file = folder.file("iterations.csv");
  const TrainNetResult result = run(options);
  CsvReader csv(options.log_file);
  std::vector<std::int64_t> indices;
  while (csv.next()) {
    indices.push_back(csv.integer(csv.required("iter_idx")));
    const double ms = csv.positive(csv.required("iter_time_ms"));
    EXPECT_NEAR(csv.positive(csv.required("imgs_per_sec")), 32 / ms * 1e3, 1e-6 * 32 / ms * 1e3);
    EXPECT_EQ(csv.text(csv.required("device")), result.device);
    EXPECT_EQ(csv.text(csv.required("env")), "here");
  }
  EXPECT_EQ(indices, (std::vector<std::int64_t>{2, 3, 4}));
}

double now_sec() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

TEST(TrainNet, ItsIterationLogIsReadByTheRoofline) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.train_images = 4 * 32 + 4;
  options.epochs = 2;
  options.log_file = folder.file("iterations.csv");
  const double begin = now_sec();
  static_cast<void>(run(options));
  const double end = now_sec();

  CsvReader csv(options.log_file);
  double before = begin;
  std::int64_t epoch = 0;
  while (csv.next()) {
    const double at = csv.finite(csv.required("timestamp"));
    EXPECT_GT(at, before);
    if (epoch == csv.integer(csv.required("epoch"))) {
      EXPECT_NEAR(at - before, csv.positive(csv.required("iter_time_ms")) * 1e-3, 1e-5);  // taken at the step's end
    }
    epoch = csv.integer(csv.required("epoch"));
    before = at;
  }
  EXPECT_LT(before, end);

  const IterationSummary summary = summarise_iterations(std::vector{options.log_file}, 1);
  ASSERT_EQ(summary.rows.size(), 1U);
  const Workload& workload = summary.rows[0].workload;
  EXPECT_EQ(workload.batch_size, 32);
  EXPECT_EQ(shape_text(workload.input), "3x32x32");
  EXPECT_EQ(workload.classes, 10);
  EXPECT_EQ(workload.optimizer, options.optimizer);
  EXPECT_EQ(workload.precision, options.precision);
  EXPECT_TRUE(summary.missing_columns.empty());
  EXPECT_EQ(summary.rows[0].iterations, 7);  // of ten without the first and two small ones
  EXPECT_TRUE(summary.warnings.empty());     // though an epoch begins when the last one is validated
  const std::string roofline = perfpred::testing::program("roofline");
  if (roofline.empty()) GTEST_SKIP() << "perfpred-roofline is not built";
  const auto placed = perfpred::testing::spawn(
      {roofline, "--iterations", options.log_file, "--warmup", "1", "--device", "T4", "--json"});
  EXPECT_EQ(placed.exit_code, 0) << placed.err;
}

TEST(TrainNet, RepeatedIterationsAreLoggedOnce) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.epochs = 2;
  options.max_iters = 3;
  options.out_dir = folder.file("out");
  options.log_file = folder.file("log.csv");
  const std::string device = run(options).device;
  // As a killed training leaves it: two rows of the second epoch, the last in part; and a row of another training.
  std::string text = perfpred::testing::slurp(options.log_file);
  const std::string rest = ",3x32x32,10,nesterov,fp32,nchw\n";
  text += "x,other,resnet18,32,7,1,32000,5,2" + rest + ",\"" + device + "\",mobilenet_v3_small,32,3,9,3555,6,2" + rest +
          "," + device;
  options.max_iters = std::nullopt;
  options.resume = options.out_dir + "/last.pt";
  folder.write("log.csv", "a,b\n1,2\n");
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("is no iteration log"),
            std::string::npos);
  EXPECT_EQ(perfpred::testing::slurp(options.log_file), "a,b\n1,2\n");

  folder.write("log.csv", text);
  static_cast<void>(run(options));
  EXPECT_EQ(indices(options.log_file), (std::vector<std::int64_t>{0, 1, 2, 7, 3, 4, 5}));
}

TEST(TrainNet, ABatchOfOneImageIsRefusedWhereItHasNoVariance) {
  TrainNetOptions options = small();
  options.network = "resnet18";
  options.train_images = 17;
  options.batch_size = 16;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("choose another --batch-size"),
            std::string::npos);
}

TEST(TrainNet, ADivergedLossIsSaid) {
  TrainNetOptions options = small();
  options.learning_rate = 1e30;
  options.warmup = 0;
  options.epochs = 1;
  std::vector<std::string> lines;
  const TrainNetResult result = run(options, &lines);
  EXPECT_FALSE(std::isfinite(result.epochs.at(0).train_loss));
  EXPECT_TRUE(said(lines, "the training has diverged"));
  EXPECT_EQ(said(lines, "(data-bound)"), result.epochs[0].data_bound);
}

TEST(TrainNet, ADivergedNetworkIsNeverTheBest) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.learning_rate = 1e30;
  options.warmup = 0;
  options.epochs = 1;
  options.out_dir = folder.path();
  EXPECT_FALSE(std::isfinite(run(options).epochs.at(0).val_loss));
  EXPECT_TRUE(fs::exists(folder.file("last.pt")));
  EXPECT_FALSE(fs::exists(folder.file("best.pt")));
}

TEST(TrainNet, ProfilingWithoutAGpuIsALine) {
  TrainNetOptions options = small();
  options.profile_one_step = true;
  std::vector<std::string> lines;
  EXPECT_TRUE(run(options, &lines).epochs.empty());
  EXPECT_EQ(lines.back(), "no CUDA device: there are no kernels to profile");
}

class Pictures : public ::testing::Test {
 protected:
  Pictures() {
    for (const char* part : {"train", "val"}) {
      for (const char* kind : {"cat", "dog"}) {
        const std::string place = folder_.path() + "/" + part + "/" + kind;
        fs::create_directories(place);
        for (const char* name : {"a.jpg", "b.JPEG", "c.jpeg"}) {
          folder_.write(std::string(part) + "/" + kind + "/" + name, small_jpeg());
        }
      }
    }
    options_ = small();
    options_.data = "imagefolder:" + folder_.path();
    options_.epochs = 1;
    options_.batch_size = 4;
  }

  /// The message of the refusal; empty if there was none.
  std::string refusal() {
    try {
      static_cast<void>(run(options_));
      return {};
    } catch (const InputError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  TrainNetOptions options_;
};

TEST_F(Pictures, AreTrainedOn) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  EXPECT_EQ(run(options_).epochs.size(), 1U);
}

TEST_F(Pictures, AllThatAreHeldOutAreScored) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  folder_.write("val/dog/c.jpeg", cmyk_jpeg());
  const auto read = [&] { return read_image_folder(folder_.path(), {3, 16, 16}, 1, CorruptImages::refuse).data; };
  EXPECT_EQ(read().validation->size(), 6);
  EXPECT_EQ(read().test->size(), 6);
  const TrainNetResult result = run(options_);
  EXPECT_EQ(result.test_loss, result.epochs.at(0).val_loss);

  folder_.write("test", "");
  EXPECT_EQ(read().test->size(), 6);
  fs::remove(folder_.file("test"));
  fs::create_directory(folder_.file("test"));
  folder_.write("test/unlabelled.jpg", small_jpeg());
  EXPECT_EQ(read().test->size(), 6);
  for (const char* kind : {"cat", "dog"}) {
    fs::create_directory(folder_.file("test") + "/" + kind);
    folder_.write(std::string("test/") + kind + "/a.jpg", small_jpeg());
  }
  EXPECT_EQ(read().validation->size(), 6);
  EXPECT_EQ(read().test->size(), 2);
  EXPECT_NE(run(options_).test_loss, result.test_loss);
  fs::create_directory(folder_.file("test/bird"));
  EXPECT_NE(refusal().find("/test: has other classes than "), std::string::npos);
}

TEST_F(Pictures, ACorruptOneIsNamedOrSkipped) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  folder_.write("train/cat/broken.jpg", small_jpeg().substr(0, 100));
  EXPECT_NE(refusal().find("broken.jpg"), std::string::npos);
  folder_.write("val/cat/empty.jpg", "");
  options_.skip_corrupt = true;
  std::vector<std::string> lines;
  EXPECT_EQ(run(options_, &lines).skipped_images, 2);
  EXPECT_TRUE(said(lines, "2 pictures do not decode and are left out: "));
  EXPECT_TRUE(said(lines, "/val/cat/empty.jpg: is empty"));
  EXPECT_TRUE(said(lines, "/train/cat/broken.jpg: "));
}

TEST_F(Pictures, CorruptOnesAreNamedAndAClassKeepsOne) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  for (const char* name : {"a.jpg", "b.JPEG", "c.jpeg"}) folder_.write(std::string("train/cat/") + name, "");
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) folder_.write(std::string("train/dog/") + name, "");
  const std::string all = refusal();
  EXPECT_NE(all.find("/train/cat/c.jpeg: is empty"), std::string::npos) << all;
  EXPECT_NE(all.find("/train/dog/2.jpg: is empty; and 1 more"), std::string::npos) << all;
  options_.skip_corrupt = true;
  EXPECT_NE(refusal().find("/train/cat: no picture decodes"), std::string::npos) << refusal();
}

TEST_F(Pictures, CmykBecomesRgb) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  folder_.write("val/cat/a.jpg", cmyk_jpeg());
  const ImageFolder folder = read_image_folder(folder_.path(), {3, 1, 1}, 1, CorruptImages::refuse);
  std::vector<float> pixel(3);
  folder.data.validation->read(0, 0, pixel);
  EXPECT_NEAR(255 * (pixel[0] * 0.229F + 0.485F), 100, 3);
  EXPECT_NEAR(255 * (pixel[1] * 0.224F + 0.456F), 50, 3);
  EXPECT_NEAR(255 * (pixel[2] * 0.225F + 0.406F), 25, 3);
}

TEST_F(Pictures, FoldersThatAreEmptyOrDifferAreRefused) {
  if (refusal().find("reads no JPEG files") != std::string::npos) GTEST_SKIP() << "built without libjpeg-turbo";
  fs::create_directory(folder_.path() + "/train/empty");
  EXPECT_NE(refusal().find("other classes"), std::string::npos);
  fs::create_directory(folder_.path() + "/val/empty");
  EXPECT_NE(refusal().find("has no JPEG file"), std::string::npos);
  options_.data = "imagefolder:" + folder_.path() + "/missing";
  EXPECT_NE(refusal().find("is not a folder"), std::string::npos);
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
  EXPECT_EQ(says([](auto& o) { o.data = "cifar10:"; }), "data \"cifar10:\" names no folder");
  EXPECT_EQ(says([](auto& o) { o.data = "imagefolder:"; }), "data \"imagefolder:\" names no folder");
  const std::string program = perfpred::testing::program("train-net");
  if (program.empty()) GTEST_SKIP() << "perfpred-train-net is not built";
  perfpred::testing::expect_refusal(perfpred::testing::spawn({program, "--torchscript", "a.pt", "--network", "vgg16"}),
                                    2, "--network excludes --torchscript");
}

TEST(TrainNet, RefusalsComeBeforeAnyOtherLine) {
  const TemporaryFolder folder;
  const std::string junk = folder.write("junk", "");
  for (const auto& spoil : std::vector<std::function<void(TrainNetOptions&)>>{
           [](auto& o) { o.data = "cifar10:/nowhere"; }, [&](auto& o) { o.resume = junk; },
           [&](auto& o) { o.init = junk; }, [&](auto& o) { o.torchscript = junk; }, [&](auto& o) { o.out_dir = junk; },
           [](auto& o) { o.log_file = "/nowhere/log.csv"; }, [&](auto& o) { o.resume = junk, o.evaluate = true; }}) {
    TrainNetOptions options = small();
    options.input = "3x32x32";
    spoil(options);
    std::vector<std::string> lines;
    EXPECT_THROW(static_cast<void>(run(options, &lines)), InputError);
    EXPECT_EQ(lines, std::vector<std::string>{});
  }
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
           [](auto& o) { o.label_smoothing = 1; }, [](auto& o) { o.workers = 0; }, [](auto& o) { o.save_every = 2; },
           [](auto& o) { o.data = "mnist"; }, [](auto& o) { o.network = "resnet19"; }, [](auto& o) { o.input = "3x"; },
           [](auto& o) { o.device = "gpu"; }, [](auto& o) { o.precision = Precision::tf32; },
           [](auto& o) { o.data = "cifar10:/nowhere"; }, [](auto& o) { o.torchscript = "/nowhere.pt"; },
           [](auto& o) { o.log_file = "/nowhere/log.csv"; }}) {
    TrainNetOptions options = small();
    spoil(options);
    EXPECT_THROW(static_cast<void>(run(options)), InputError);
  }
}

}  // namespace
}  // namespace perfpred
