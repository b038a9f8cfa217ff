// SPDX-License-Identifier: Apache-2.0
// perfpred-collect --replicas and perfpred-probe --links, with processes of this machine.
#include <gtest/gtest.h>
#include <perfpred/run.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "catalogue/links.h"
#include "runs/run_log.h"
#include "spawn.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using perfpred::testing::expect_refusal;
using perfpred::testing::Finished;
using perfpred::testing::program;
using perfpred::testing::spawn;
using perfpred::testing::TemporaryFolder;
using Clock = std::chrono::steady_clock;

/// The processes that one has started.
std::vector<pid_t> children_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

/// Not a zombie that nobody has reaped yet.
bool runs(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && text.at(end + 2) != 'Z';
}

bool comes_true(const std::function<bool()>& what, double limit_sec) {
  const auto until = Clock::now() + std::chrono::duration<double>(limit_sec);
  while (!what() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return what();
}

class Replicas : public ::testing::Test {
 protected:
  void SetUp() override {
    if (program("collect").empty()) GTEST_SKIP() << "perfpred-collect is not built";
    const Finished asked = spawn(command({"--depth", "9", "--base-filters", "2", "--batch-size", "2"}));
    if (asked.err.find("gloo") != std::string::npos) GTEST_SKIP() << asked.err;
  }

  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        program("collect"), "--device",           "cpu",   "--replicas", "2", "--out", runs_csv(),
        "--log-dir",        folder_.file("logs"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] std::string runs_csv() const { return folder_.file("runs.csv"); }

  /// Begins a run that would take long, lets `act` do something to its processes while both train, and waits for it.
  /// @returns its exit code, 128 + signal if a signal ended it
  int disturbed(const std::function<void(pid_t first, pid_t second)>& act) const {
    auto words = command({"--depth", "3", "--base-filters", "32", "--batch-size", "32", "--train-images", "50000"});
    const pid_t first = ::fork();
    if (first == 0) {
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, 1);
      ::dup2(nowhere, 2);
      ::execv(words.front().c_str(), arguments.data());
      ::_exit(127);
    }
    const std::string logs = folder_.file("logs");  // the run's begins once both are there
    const bool began = comes_true([&] { return fs::exists(logs) && !fs::is_empty(logs); }, 120);
    const pid_t second = began ? children_of(first).front() : first;
    EXPECT_TRUE(began);
    std::this_thread::sleep_for(std::chrono::seconds(4));  // images are generated, and the training begins
    began ? act(first, second) : static_cast<void>(::kill(first, SIGKILL));
    int status = 0;
    ::waitpid(first, &status, 0);
    EXPECT_TRUE(comes_true([&] { return !runs(second); }, 2)) << "an orphan";
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// The only row, of a run that failed.
  [[nodiscard]] perfpred::Run failed_row() const {
    const std::vector<perfpred::Run> rows = read_runs(runs_csv());
    EXPECT_EQ(rows.size(), 1U);
    if (rows.empty()) return {};
    EXPECT_EQ(rows.front().outcome, Outcome::failed);
    EXPECT_FALSE(rows.front().avg_time_sec);
    EXPECT_EQ(rows.front().workload.gpus_per_node.text(), "2");
    return rows.front();
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> tiny = {"--depth",        "1,2", "--base-filters", "2", "--batch-size", "10",
                                       "--train-images", "70",  "--epochs",       "2"};

TEST_F(Replicas, AreMeasuredTogetherAndAggregated) {
  const json document = json_of(spawn(command(tiny)));
  EXPECT_EQ(document.at("done"), 2);
  const std::vector<perfpred::Run> rows = read_runs(runs_csv());
  ASSERT_EQ(rows.size(), 2U);
  for (const perfpred::Run& row : rows) {
    EXPECT_EQ(row.workload.gpus_per_node.text(), "2");
    EXPECT_EQ(row.workload.parallel.text(), "ddp");
    EXPECT_EQ(row.workload.batch_size, 10);
    EXPECT_EQ(row.workload.steps_per_epoch(), 4);  // of 20 images
    EXPECT_EQ(row.workload.threads, std::max(1U, std::thread::hardware_concurrency() / 2));
    ASSERT_EQ(row.epoch_times.size(), 2U);
    EXPECT_NEAR(*row.images_per_sec, 70 / row.epoch_times[1], 1e-9 * *row.images_per_sec);
    EXPECT_TRUE(row.test_acc.has_value());
  }
  auto again = tiny;
  again.insert(again.end(), {"--threads", "1", "--timing", "steps"});
  again.erase(again.end() - 6, again.end() - 4);  // --epochs
  again.insert(again.end(), {"--accumulate", "2", "--cluster", "lab"});
  ASSERT_EQ(spawn(command(again)).exit_code, 0);
  const std::vector<perfpred::Run> all = read_runs(runs_csv());
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[2].workload.accumulate, 2);
  EXPECT_EQ(all[2].workload.cluster, "lab");
  EXPECT_GE(*all[2].avg_time_sec, *all[2].step_p05_ms * 1e-3);  // one full step of 40 images, and the rest
  const std::string table = folder_.file("runs_agg.csv");
  const Finished aggregated = spawn({program("aggregate"), "--runs", runs_csv(), "--label", "mean", "--out", table});
  EXPECT_EQ(aggregated.exit_code, 0) << aggregated.err;
  EXPECT_NE(testing::slurp(table).find("lab"), std::string::npos);
}

TEST_F(Replicas, ResumeWithoutStartingOthers) {
  ASSERT_EQ(spawn(command(tiny)).exit_code, 0);
  const auto untrusted = [](const perfpred::Run& row) { return row.outcome == Outcome::untrusted; };
  const std::vector<perfpred::Run> rows = read_runs(runs_csv());
  if (std::any_of(rows.begin(), rows.end(), untrusted)) GTEST_SKIP() << "the machine is busy";
  const json document = json_of(spawn(command(tiny)));
  EXPECT_EQ(document.at("skipped"), 2);
  EXPECT_EQ(document.at("done"), 0);
}

TEST_F(Replicas, OneThatIsKilledIsAFailedRow) {
  Clock::time_point killed;
  EXPECT_EQ(disturbed([&](pid_t, pid_t second) {
              killed = Clock::now();
              ::kill(second, SIGKILL);
            }),
            1);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(30));
  EXPECT_NE(failed_row().note.find("rank 1: killed by signal 9"), std::string::npos) << failed_row().note;
}

TEST_F(Replicas, OneThatHangsIsAFailedRowWithinHalfAMinute) {
  double sec = 0;
  EXPECT_EQ(disturbed([&](pid_t, pid_t second) {
              ::kill(second, SIGSTOP);
              const auto begin = Clock::now();
              comes_true([&] { return !read_runs(runs_csv()).empty(); }, 60);
              sec = std::chrono::duration<double>(Clock::now() - begin).count();
            }),
            1);
  EXPECT_LT(sec, 30);
  EXPECT_NE(failed_row().note, "");
}

TEST_F(Replicas, EndWithTheFirst) {
  EXPECT_EQ(disturbed([](pid_t first, pid_t) { ::kill(first, SIGKILL); }), 128 + SIGKILL);
  EXPECT_TRUE(read_runs(runs_csv()).empty());
}

TEST_F(Replicas, InterruptedLeaveNoRowAndNoLog) {
  EXPECT_EQ(disturbed([](pid_t first, pid_t second) {
              ::kill(second, SIGINT);  // as a terminal sends it to both
              ::kill(first, SIGINT);
            }),
            1);
  EXPECT_TRUE(read_runs(runs_csv()).empty());
  EXPECT_TRUE(fs::is_empty(folder_.file("logs")));
}

TEST_F(Replicas, AreRefusedWhereTheyMakeNoSense) {
  const auto refused = [&](std::vector<std::string> more, const std::string& what) {
    more.insert(more.end(), {"--depth", "1", "--base-filters", "2", "--batch-size", "4"});
    expect_refusal(spawn(command(more)), 2, what);
  };
  refused({"--configs", folder_.write("elsewhere.csv", "gpus_per_node\n4\n")}, "gpus_per_node 4");
  refused({"--configs", folder_.write("sharded.csv", "parallel\nfsdp\n")}, "parallel fsdp can be predicted");
  auto words = command({"--depth", "1", "--base-filters", "2", "--batch-size", "4"});
  words[4] = "0";
  expect_refusal(spawn(words), 2, "replicas 0 is not positive");
  words[4] = "1";
  words.insert(words.end(), {"--cluster", "lab"});
  expect_refusal(spawn(words), 2, "cluster is for several replicas");
}

TEST_F(Replicas, HaveLinksThatAProbeMeasures) {
  const std::string out =
      folder_.write("links.csv", "cluster,scope,gpus,nodes,bus_gb_s\nold,intra,,,3\nlab,intra,2,1,99\n");
  const json document = json_of(spawn(
      {program("probe"), "--links", "--replicas", "2", "--device", "cpu", "--cluster", "lab", "--out", out, "--json"}));
  ASSERT_EQ(document.at("links").size(), 1U);
  const json& group = document["links"][0];
  ASSERT_EQ(group.at("sizes").size(), 3U);
  for (const json& size : group["sizes"]) {
    EXPECT_GT(size.at("sec"), 0);
    EXPECT_GT(size.at("product_factor"), 0);
    EXPECT_NEAR(size.at("bus_gb_s").get<double>(),  // two ranks: as many bytes as the buffer has
                size.at("bytes").get<double>() / size.at("sec").get<double>() * 1e-9, 1e-9);
  }
  const Links links = Links::read(out);
  ASSERT_EQ(links.all().size(), 2U);
  const auto lab = links.find("lab", LinkScope::intra, 2, 1);
  ASSERT_TRUE(lab);
  EXPECT_EQ(lab->source, "probe");
  EXPECT_NEAR(lab->bus_gb_s, group.at("bus_gb_s").get<double>(), 1e-9);
  EXPECT_GT(lab->latency_us, 0);
  EXPECT_EQ(links.find("old", LinkScope::intra, 2, 1)->bus_gb_s, 3);
}

TEST_F(Replicas, HaveLinksThatNcclTestsMeasured) {
  const std::string printed = folder_.write(
      "printed.txt", R"(# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4321 on     node-a device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid   4322 on     node-b device  0 [0x0f] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    29.47    0.00    0.00      0    29.36    0.00    0.00      0
    67108864      16777216     float     sum      -1   3512.0   19.11   19.11      0   3511.0   19.11   19.11      0
   134217728      33554432     float     sum      -1   6899.0   19.45   19.45      0   6890.1   19.48   19.48      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 12.8
)");
  const std::string out = folder_.file("links.csv");
  const Finished done =
      spawn({program("probe"), "--links", "--nccl-tests", printed, "--cluster", "pair", "--out", out});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Links links = Links::read(out);
  ASSERT_EQ(links.all().size(), 1U);
  const Link& link = links.all().front();
  EXPECT_EQ(link.scope, LinkScope::inter);
  EXPECT_EQ(link.gpus, 2);
  EXPECT_EQ(link.nodes, 2);
  EXPECT_DOUBLE_EQ(link.bus_gb_s, 19.45);
  EXPECT_DOUBLE_EQ(link.latency_us, 29.47);
  expect_refusal(spawn({program("probe"), "--links", "--nccl-tests", folder_.write("other", "hello\n"), "--out", out}),
                 2, "not the output of all_reduce_perf");
  expect_refusal(spawn({program("probe"), "--links", "--out", out}), 2, "--links needs --replicas");
  expect_refusal(spawn({program("probe"), "--links", "--replicas", "2", "--precision", "bf16"}), 2,
                 "--precision is for a probe of a device");
}

}  // namespace
}  // namespace perfpred
