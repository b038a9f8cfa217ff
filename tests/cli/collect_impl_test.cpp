// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runs/run_log.h"
#include "spawn.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using perfpred::testing::Finished;
using perfpred::testing::program;
using perfpred::testing::spawn;
using perfpred::testing::TemporaryFolder;

class Collect : public ::testing::Test {
 protected:
  void SetUp() override {
    if (program("collect").empty()) GTEST_SKIP() << "perfpred-collect is not built";
  }

  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        program("collect"), "--device",           "cpu",   "--threads", "1", "--out", runs(),
        "--log-dir",        folder_.file("logs"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Finished collect(const std::vector<std::string>& more) const { return spawn(command(more)); }
  [[nodiscard]] std::string runs() const { return folder_.file("runs.csv"); }
  [[nodiscard]] std::vector<std::string> logs() const {
    std::vector<std::string> paths;
    if (!fs::exists(folder_.file("logs"))) return paths;
    for (const auto& item : fs::directory_iterator(folder_.file("logs"))) paths.push_back(item.path().string());
    return paths;
  }

  /// What a busy machine disturbed is as on a quiet one, or it is measured again.
  void settle() const {
    std::vector<perfpred::Run> rows = read_runs(runs());
    fs::remove(runs());
    for (perfpred::Run& row : rows) {
      if (row.outcome == Outcome::untrusted) row.outcome = Outcome::ok;
      RunRecorder(runs()).append(row);
    }
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> tiny = {"--depth",        "1,2", "--base-filters", "2", "--batch-size", "30",
                                       "--train-images", "70",  "--epochs",       "2"};

TEST_F(Collect, MeasuresBothKindsOfAttention) {
  const std::string configs = folder_.write("configs.csv",
                                            "network,attention\n\"transformer:layers=1,hidden=8,heads=2,vocab=10\",\n"
                                            "\"transformer:layers=1,hidden=8,heads=2,vocab=10\",eager\n");
  const json runs = json_of(collect({"--configs", configs, "--input", "16", "--batch-size", "4", "--train-images", "16",
                                     "--epochs", "2"}))
                        .at("runs");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("attention"), "sdpa");
  EXPECT_EQ(runs[1].at("attention"), "eager");
}

TEST_F(Collect, MeasuresWhatTheModelAsksFor) {
  ASSERT_EQ(collect({"--depth", "1,2,3", "--base-filters", "2,4", "--batch-size", "16,32", "--train-images", "64",
                     "--epochs", "2"})
                .exit_code,
            0);
  settle();
  const std::string table = folder_.file("runs_agg.csv"), model = folder_.file("model.json");
  ASSERT_EQ(spawn({program("aggregate"), "--runs", runs(), "--label", "mean", "--out", table}).exit_code, 0);
  // The model does not know the rows for the test.
  ASSERT_EQ(spawn({program("train"), "--runs-agg", table, "--test-fraction", "0.4", "--out", model}).exit_code, 0);
  const Finished next = collect({"--depth", "1,2,3", "--base-filters", "2,3,4", "--batch-size", "16,32",
                                 "--train-images", "64", "--epochs", "2", "--model", model, "--suggest", "2"});
  const json document = json_of(next);
  EXPECT_EQ(document["done"], 2) << next.out << next.err;
  for (const json& run : document["runs"]) EXPECT_EQ(run["base_filters"], 3);  // all others have been measured
}

TEST_F(Collect, MeasuresLogsAndResumes) {
  const Finished first = collect(tiny);
  EXPECT_EQ(first.err.find(" to go"), std::string::npos) << first.err;  // nobody watches
  const json document = json_of(first);
  EXPECT_EQ(document["done"], 2);
  EXPECT_EQ(document["skipped"], 0);
  EXPECT_EQ(document["failed"], 0);
  ASSERT_EQ(document["runs"].size(), 2U);
  const std::vector<perfpred::Run> rows = read_runs(runs());
  ASSERT_EQ(rows.size(), 2U);
  for (const perfpred::Run& row : rows) {
    EXPECT_NE(row.outcome, Outcome::failed);  // untrusted on a busy machine
    EXPECT_EQ(row.params, row.workload.params());
    ASSERT_EQ(row.epoch_times.size(), 2U);
    EXPECT_DOUBLE_EQ(*row.avg_time_sec, row.epoch_times[1]);
    EXPECT_NEAR(*row.images_per_sec, 70 / row.epoch_times[1], 1e-9 * *row.images_per_sec);
    EXPECT_TRUE(row.test_acc.has_value());
    EXPECT_GT(*row.peak_mem_mb, 0);
    EXPECT_EQ(row.workload.threads, 1);
  }
  ASSERT_EQ(logs().size(), 2U);
  for (const std::string& path : logs()) {
    const RunLog log = read_run_log(path);
    ASSERT_TRUE(log.run.has_value());
    EXPECT_TRUE(*log.run == rows[0] || *log.run == rows[1]);
    ASSERT_EQ(log.epochs.size(), 2U);
    EXPECT_TRUE(log.epochs[1].val_acc.has_value());
  }

  settle();
  auto repeated = tiny;
  repeated.insert(repeated.end(), {"--repeats", "2"});
  const json again = json::parse(collect(repeated).out);
  EXPECT_EQ(again["skipped"], 2);
  EXPECT_EQ(again["done"], 2);
  settle();
  EXPECT_EQ(json::parse(collect(repeated).out)["skipped"], 4);
}

/// Each part into a file of its own, which a requeued task goes on with; the table of all of them is that of the sweep.
TEST_F(Collect, ShardsTogetherAreTheSweep) {
  std::vector<std::string> keys;
  for (const std::string shard : {"0/3", "1/3", "2/3"}) {
    auto part = tiny;
    part.insert(part.end(), {"--shard", shard});
    const json first = json_of(collect(part));
    const std::string file = folder_.file("runs." + shard.substr(0, 1) + "-of-3.csv");
    for (const perfpred::Run& row : read_runs(file)) keys.push_back(row.workload.key());
    EXPECT_EQ(first["skipped"], 0);
    EXPECT_FALSE(fs::exists(file + ".lock"));
    std::vector<perfpred::Run> rows = read_runs(file);
    fs::remove(file);
    RunRecorder again(file);
    for (perfpred::Run& row : rows) {
      if (row.outcome == Outcome::untrusted) row.outcome = Outcome::ok;
      again.append(row);
    }
    const json second = json_of(collect(part));
    EXPECT_EQ(second["done"], 0);
    EXPECT_EQ(second["skipped"], first["done"]);
  }
  EXPECT_FALSE(fs::exists(runs()));
  ASSERT_EQ(keys.size(), 2U);  // one shard has nothing to do
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_TRUE(fs::exists(folder_.file("logs/0-of-3")));
  std::vector<std::string> aggregate = {program("aggregate"), "--out", folder_.file("runs_agg.csv")};
  for (const char* file : {"runs.0-of-3.csv", "runs.1-of-3.csv", "runs.2-of-3.csv"})
    aggregate.insert(aggregate.end(), {"--runs", folder_.file(file)});
  const Finished table = spawn(aggregate);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.err.find("2 runs, 2 rows"), std::string::npos) << table.err;
}

TEST_F(Collect, ShardsThatAreNoneAreRefused) {
  for (const std::string shard : {"3/3", "/3", "1", "-1/3", "x/3"}) {
    auto part = tiny;
    part.insert(part.end(), {"--shard=" + shard});
    testing::expect_refusal(collect(part), 2, "shard \"");
  }
  auto both = tiny;
  both.insert(both.end(), {"--shard", "0/2", "--suggest", "1"});
  testing::expect_refusal(collect(both), 2, "excludes");
}

/// Printed on any machine: nothing is measured, and no device is looked for.
TEST_F(Collect, PrintsTheSweepForSlurm) {
  auto words = tiny;
  words.insert(words.end(), {"--device", "cuda", "--sbatch", "--at-once=7", "--out", "my runs.csv"});
  words.insert(words.begin(), program("collect"));
  const Finished script = spawn(words);
  EXPECT_EQ(script.exit_code, 0) << script.err;
  for (const char* part :
       {"--array=0-1%7 ", " --requeue ", "perfpred-collect --depth 1,2 --base-filters 2 ",
        " --device cuda --out 'my runs.csv' --shard \"$SLURM_ARRAY_TASK_ID/2\"\n", "--out 'my runs_agg.csv'\n"})
    EXPECT_NE(script.out.find(part), std::string::npos) << part << "\n" << script.out;
  EXPECT_EQ(script.out.find("--sbatch"), std::string::npos);
  EXPECT_EQ(script.out.find("--at-once"), std::string::npos);
  words.insert(words.end(), {"--shards", "1"});
  EXPECT_NE(spawn(words).out.find("--array=0-0%7 "), std::string::npos);
  testing::expect_refusal(collect({"--shards", "2", "--batch-size", "8"}), 2, "--sbatch");
}

TEST_F(Collect, RowsWithAnotherTagDoNotCount) {
  ASSERT_EQ(collect(tiny).exit_code, 0);
  auto tagged = tiny;
  tagged.insert(tagged.end(), {"--env", "shared"});
  const json other = json::parse(collect(tagged).out);
  EXPECT_EQ(other["done"], 2);
  EXPECT_EQ(other["skipped"], 0);
  settle();
  EXPECT_EQ(json::parse(collect(tagged).out)["skipped"], 2);
  EXPECT_EQ(json::parse(collect(tiny).out)["skipped"], 2);
  tagged.back() = "sha\nred";
  testing::expect_refusal(collect(tagged), 2, "env is not free of control characters");
}

TEST_F(Collect, SaysWhichPrecisionItMeasured) {
  const Finished done = collect(tiny);
  EXPECT_NE(done.err.find("precision fp32: IEEE fp32"), std::string::npos) << done.err;
}

TEST_F(Collect, TakesTheBatchSizeFromATable) {
  const std::string table = folder_.file("grid.csv");
  std::ofstream(table) << "depth,base_filters,batch_size\n1,2,35\n";
  const Finished done = collect({"--configs", table, "--train-images", "70", "--epochs", "2"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(read_runs(runs()).at(0).workload.batch_size, 35);
  std::ofstream(table) << "depth,base_filters\n1,2\n";
  EXPECT_EQ(collect({"--configs", table}).exit_code, 2);
}

TEST_F(Collect, RepeatsHaveSeedsOfTheirOwn) {
  auto repeated = tiny;
  repeated[1] = "1";
  repeated.insert(repeated.end(), {"--repeats", "2"});
  ASSERT_EQ(collect(repeated).exit_code, 0);
  ASSERT_EQ(logs().size(), 2U);
  std::vector<double> losses;
  for (const std::string& path : logs()) losses.push_back(read_run_log(path).epochs.at(0).train_loss.value());
  EXPECT_NE(losses[0], losses[1]);  // of the same network: other weights, another order of the images
}

TEST_F(Collect, SaysThatATornLineIsKeptAside) {
  ASSERT_EQ(collect(tiny).exit_code, 0);
  settle();
  fs::resize_file(runs(), fs::file_size(runs()) - 20);
  const Finished again = collect(tiny);
  EXPECT_EQ(json_of(again)["done"], 1);
  EXPECT_NE(again.err.find("runs.csv: the last line was torn"), std::string::npos) << again.err;
  EXPECT_TRUE(fs::exists(runs() + ".torn"));
}

TEST_F(Collect, EstimatesAnEpochFromSteps) {
  const Finished done = collect(
      {"--depth", "1", "--base-filters", "2", "--batch-size", "30", "--train-images", "3010", "--timing", "steps"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::vector<perfpred::Run> rows = read_runs(runs());
  ASSERT_EQ(rows.size(), 1U);
  const perfpred::Run& row = rows.front();
  EXPECT_EQ(row.timing, Timing::steps);
  EXPECT_TRUE(row.epoch_times.empty());
  EXPECT_FALSE(row.test_acc.has_value());
  // 100 full steps, each about the mean, a last one of ten images and the overhead of an epoch.
  EXPECT_GE(*row.avg_time_sec, 100 * *row.step_p05_ms * 1e-3);
  EXPECT_GT(row.epoch_rel_sem.value(), 0);
  EXPECT_GT(row.step_cv.value(), 0);
  EXPECT_FALSE(row.host_p50_ms.has_value());  // of a GPU's host
  EXPECT_LE(*row.step_p05_ms, *row.step_p50_ms);
  EXPECT_LE(*row.step_p50_ms, *row.step_p95_ms);
}

TEST_F(Collect, InterruptedItLeavesNoRowAndNoLog) {
  const auto words = command({"--depth", "3", "--base-filters", "32", "--batch-size", "32", "--train-images", "50000"});
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execv(words.front().c_str(), arguments.data());
    ::_exit(127);
  }
  for (int i = 0; i < 6000 && logs().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(logs().size(), 1U);
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(read_runs(runs()).empty());
  EXPECT_TRUE(logs().empty());
}

TEST_F(Collect, RefusesWhatItCannotDo) {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"--depth", "0", "--base-filters", "2", "--batch-size", "30"},
           {"--depth", "1", "--base-filters", "2"},
           {"--base-filters", "2", "--batch-size", "30"},
           {"--network", "resnet18", "--depth", "1", "--batch-size", "1"},
           {"--depth", "x", "--base-filters", "2", "--batch-size", "30"},
           {"--network", "resnet19", "--batch-size", "1"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "0"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "2", "--epochs", "1"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "2", "--repeats", "0"},
           {"--depth", "1", "--base-filters", "2"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "2", "--timing", "steps", "--epochs", "7"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "2", "--precision", "tf32"},
           {"--depth", "1", "--base-filters", "2", "--batch-size", "2", "--data", "/nowhere"},
           {"--configs", "/nowhere.csv"},
           {"--device", "gpu"}}) {
    const Finished done = collect(bad);
    EXPECT_EQ(done.exit_code, 2) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_TRUE(done.out.empty());
  }
}

}  // namespace
}  // namespace perfpred
