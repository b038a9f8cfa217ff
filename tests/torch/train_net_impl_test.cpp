// SPDX-License-Identifier: Apache-2.0
// Training, its logs and its checkpoints' use: stopped, killed, resumed.
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../cli/spawn.h"
#include "../refusal.h"
#include "runs/run_log.h"
#include "small_training.h"
#include "text/csv.h"
#include "tools/roofline/iteration_log.h"
#include "torch/files/checkpoint.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using perfpred::testing::run;
using perfpred::testing::said;
using perfpred::testing::small;
using perfpred::testing::TemporaryFolder;

std::vector<std::int64_t> indices(const std::string& log) {
  CsvReader csv(log);
  std::vector<std::int64_t> list;
  while (csv.next()) list.push_back(csv.integer(csv.required("iter_idx")));
  return list;
}

/// Of final.pt the weights, of others all that is in the checkpoint.
NamedTensors tensors_in(const std::string& path) {
  return path.ends_with("/final.pt") ? load_weights(path) : load_checkpoint(path).tensors;
}

void expect_same(const std::string& a, const std::string& b) {
  const NamedTensors x = tensors_in(a);
  const NamedTensors y = tensors_in(b);
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
  for (const char* name : {"/final.pt", "/last.pt"})
    expect_same(folder.file("whole") + name, folder.file("resumed") + name);
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
  for (const char* name : {"/final.pt", "/last.pt"})
    expect_same(folder.file("whole") + name, folder.file("parts") + name);
  const RunLog log = read_run_log(folder.file("parts") + "/epochs.jsonl");
  ASSERT_EQ(log.epochs.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(log.epochs[i].epoch, static_cast<int>(i) + 1);
    EXPECT_EQ(log.epochs[i].val_loss, whole.epochs[i].val_loss);
    EXPECT_EQ(log.epochs[i].train_acc, whole.epochs[i].train_acc);
  }
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
    EXPECT_THROW(static_cast<void>(train_net(options, block)), InputError);
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

TEST(TrainNet, AFolderWithAnotherTrainingIsRefused) {
  const TemporaryFolder folder;
  const TrainNetOptions options = small(1, folder.path());
  static_cast<void>(run(options));
  const std::string before = perfpred::testing::slurp(folder.file("last.pt"));
  TrainNetOptions other = options;
  other.seed = 1;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(other)); }).find("last.pt: is another training's"),
            std::string::npos);
  EXPECT_EQ(perfpred::testing::slurp(folder.file("last.pt")), before);
  fs::remove(folder.file("last.pt"));  // what is left cannot be resumed, but is somebody's
  EXPECT_EQ(perfpred::testing::refusal([&] { static_cast<void>(run(other)); }),
            folder.file("best.pt") + ": is another training's; name another folder");
  fs::remove(folder.file("best.pt"));
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(other)); }).find("/final.pt: is another training's"),
            std::string::npos);
}

TEST(TrainNet, FinalWeightsAreNoCheckpoint) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.path());
  static_cast<void>(run(options));
  const Checkpoint last = load_checkpoint(folder.file("last.pt"));
  const NamedTensors final = load_weights(folder.file("final.pt"));
  std::size_t of_network = 0;
  for (const auto& [name, tensor] : last.tensors) {
    if (!name.starts_with(network_prefix)) continue;
    ASSERT_LT(of_network, final.size());
    EXPECT_EQ(final[of_network].first, name.substr(network_prefix.size()));
    EXPECT_TRUE(at::equal(final[of_network].second, tensor)) << name;
    ++of_network;
  }
  EXPECT_EQ(final.size(), of_network);
  options.resume = folder.file("final.pt");
  options.epochs = 2;
  EXPECT_NE(
      perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("not a checkpoint to resume from"),
      std::string::npos);
}

TEST(TrainNet, OneUpdateOfSeveralBatchesIsThatOfOneBatchOfTheirImages) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.file("whole"));
  options.network = "cifar_cnn:depth=2,base_filters=4";  // without batch normalisation, which sees each batch alone
  options.train_images = 72;                             // updates of 32, 32 and 8 images
  options.warmup = 2;
  const TrainNetResult whole = run(options);
  options.batch_size = 16;
  options.accumulate = 2;
  options.out_dir = folder.file("parts");
  const TrainNetResult parts = run(options);
  EXPECT_NEAR(parts.epochs.at(0).train_loss, whole.epochs.at(0).train_loss, 1e-4);
  const NamedTensors a = load_weights(folder.file("whole") + "/final.pt");
  const NamedTensors b = load_weights(folder.file("parts") + "/final.pt");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i].second, b[i].second, 1e-3, 1e-5)) << a[i].first;
  }
  options.resume = options.out_dir + "/last.pt";
  options.epochs = 2;
  options.accumulate = 1;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("accumulate 2, not the default"),
            std::string::npos);
}

TEST(TrainNet, AnUpdateOfSeveralBatchesIsOneIteration) {
  const TemporaryFolder folder;
  TrainNetOptions options = small();
  options.data = "dummy";
  options.batch_size = 8;
  options.accumulate = 4;  // three updates an epoch
  options.epochs = 3;
  options.log_file = folder.file("log.csv");
  static_cast<void>(run(options));
  EXPECT_EQ(indices(options.log_file), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const IterationSummary summary = summarise_iterations(std::vector{options.log_file}, 2);
  ASSERT_EQ(summary.rows.size(), 1U);
  EXPECT_EQ(summary.rows[0].accumulate, 4);
  EXPECT_EQ(summary.rows[0].workload.threads, 1);
  EXPECT_NEAR(summary.rows[0].images_per_sec, 32 / summary.rows[0].mean_ms * 1e3, 1e-6);
}

TEST(TrainNet, CheckpointsTornByAKilledTrainingGo) {
  const TemporaryFolder folder;
  TrainNetOptions options = small(1, folder.path());
  static_cast<void>(run(options));
  const std::string whole = perfpred::testing::slurp(folder.file("last.pt"));
  const std::string torn = whole.substr(0, whole.size() / 2);
  // As a process leaves them that does not exist any more: no process has a number of nine digits.
  const std::vector<std::string> left = {"last.pt.999999999-0.tmp", "best.pt.999999999-12.tmp",
                                         "epoch_12.pt.999999999-3.tmp", fmt::format("final.pt.{}-999.tmp", ::getpid())};
  for (const std::string& name : left) folder.write(name, torn);
  folder.write("best.pt.999999999-7.tmp", "");
  const std::vector<std::string> others = {"last.pt.part", "weights.pt.999999999-0.tmp", "last.pt.tmp",
                                           "epoch_.pt.999999999-0.tmp", fmt::format("last.pt.{}-0.tmp", ::getppid())};
  for (const std::string& name : others) folder.write(name, torn);
  folder.write("last.pt.backup", whole);
  fs::create_directory(folder.file("last.pt.999999999-9.tmp"));
  options.evaluate = true;
  static_cast<void>(run(options));
  EXPECT_TRUE(fs::exists(folder.file(left.front())));
  options.evaluate = false;
  options.resume = folder.file("last.pt");
  static_cast<void>(run(options));
  for (const std::string& name : left) EXPECT_FALSE(fs::exists(folder.file(name))) << name;
  EXPECT_FALSE(fs::exists(folder.file("best.pt.999999999-7.tmp")));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder.file(name))) << name;
  EXPECT_TRUE(fs::exists(folder.file("last.pt.backup")));
  EXPECT_TRUE(fs::exists(folder.file("last.pt.999999999-9.tmp")));
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

TEST(TrainNet, ResumedWithMoreEpochsFollowsTheirSchedule) {
  // While the rate still grows it does not depend on the number of epochs: both trainings compute the same.
  const TemporaryFolder folder;
  TrainNetOptions options = small(3, folder.file("whole"));
  options.warmup = 6;
  static_cast<void>(run(options));
  options.epochs = 2;
  options.out_dir = folder.file("short");
  static_cast<void>(run(options));
  options.epochs = 3;
  options.resume = options.out_dir + "/last.pt";
  options.out_dir = folder.file("extended");
  std::vector<std::string> lines;
  const TrainNetResult extended = run(options, &lines);
  EXPECT_TRUE(said(lines, "going on after epoch 2 of 3"));
  EXPECT_TRUE(said(lines, "the checkpoint was planned for 2 epochs; the learning rate now follows the schedule of 3"));
  ASSERT_EQ(extended.epochs.size(), 1U);
  EXPECT_EQ(extended.epochs[0].epoch, 3);
  expect_same(folder.file("whole") + "/final.pt", options.out_dir + "/final.pt");

  options.resume = options.out_dir + "/last.pt";
  options.epochs = 2;
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("was made with epochs 3, not 2"),
            std::string::npos);
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
  const std::string rest = ",3x32x32,10,nesterov,fp32,nchw,1,1\n";
  text += "x,other,resnet18,32,7,1,32000,5,2" + rest + ",\"" + device + "\",mobilenet_v3_small,32,3,9,3555,6,2" + rest +
          "," + device;
  options.max_iters = std::nullopt;
  options.resume = options.out_dir + "/last.pt";
  folder.write("log.csv", "a,b\n1,2\n");
  EXPECT_NE(perfpred::testing::refusal([&] { static_cast<void>(run(options)); }).find("is not an iteration log"),
            std::string::npos);
  EXPECT_EQ(perfpred::testing::slurp(options.log_file), "a,b\n1,2\n");

  folder.write("log.csv", text);
  static_cast<void>(run(options));
  EXPECT_EQ(indices(options.log_file), (std::vector<std::int64_t>{0, 1, 2, 7, 3, 4, 5}));
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

}  // namespace
}  // namespace perfpred
