// SPDX-License-Identifier: Apache-2.0
// perfpred-explain: runs, logs and single steps beside what is expected of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::program;
using testing::spawn;
using testing::TemporaryFolder;

const std::vector<std::string> job = {"--network", "resnet50", "--batch-size", "64",
                                      "--device",  "T4",       "--precision",  "fp16"};

Finished explain(std::vector<std::string> options, const std::vector<std::string>& more = {}) {
  options.insert(options.begin(), program("explain"));
  options.insert(options.end(), more.begin(), more.end());
  return spawn(options);
}

Json explained(std::vector<std::string> options, const std::vector<std::string>& more = {}) {
  options.emplace_back("--json");
  return json_of(explain(std::move(options), more));
}

/// Quantiles of the step that perfpred-predict expects.
Json predicted() {
  std::vector<std::string> command = {program("predict")};
  command.insert(command.end(), job.begin(), job.end());
  return testing::answer(command).at("step_sec");
}

const std::string header =
    "batch_size,network,device,precision,optimizer,input,classes,train_images,avg_time_sec,step_p50_ms,host_p50_ms,"
    "clock_mhz,"
    "data_wait_share,timing,outcome,note\n";

/// A row of resnet50 on a T4, whose epoch has 100 steps.
std::string row(double sec, const std::string& rest) {
  return "64,resnet50,T4,fp16,sgd,3x224x224,1000,6400," + std::to_string(100 * sec) + "," + rest + "\n";
}

TEST(ExplainProgram, PutsAStepBesideTheOneThatIsPredicted) {
  const Json expected = predicted();
  const double sec = 1.5 * expected["p95"].get<double>();
  const Json found = explained({"--measured-ms", std::to_string(1e3 * sec)}, job);
  EXPECT_EQ(found["expected_sec"], expected);
  EXPECT_NEAR(found["measured_sec"].get<double>(), sec, 1e-9);
  EXPECT_NEAR(found["ratio"].get<double>(), sec / expected["p50"].get<double>(), 1e-6);
  EXPECT_EQ(found["finding"], "above");
  EXPECT_EQ(found["causes"][0]["cause"], "unexplained");
  EXPECT_NEAR(found["causes"][0]["share"].get<double>(), 1, 1e-12);
  EXPECT_EQ(found["not_measured"], Json({"data", "host", "pauses", "clock", "company"}));
  EXPECT_GT(found["to_measure"].size(), 4U);
  const Finished text = explain({"--measured-ms", std::to_string(1e3 * expected["p50"].get<double>())}, job);
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("1.00 x, inside the interval: nothing to explain"), Not(HasSubstr("to measure"))));
}

TEST(ExplainProgram, ReadsWhatTheColumnsOfARunSay) {
  const TemporaryFolder folder;
  const double sec = 2 * predicted()["p95"].get<double>();
  const std::string ms = std::to_string(1e3 * sec);
  const std::string one = folder.write("one.csv", header + row(sec, ms + ",5,1590,0.25,steps,ok,"));
  const Json found = explained({one});
  EXPECT_EQ(found["finding"], "above");
  EXPECT_EQ(found["causes"][0]["cause"], "data");
  EXPECT_NEAR(found["causes"][0]["sec"].get<double>(), 0.25 * sec, 1e-6 * sec);
  EXPECT_EQ(found["causes"][1]["cause"], "kernels");
  EXPECT_EQ(found["not_measured"], Json::array());
  EXPECT_EQ(found, explained({"--runs", one}));
  const Finished text = explain({one});
  EXPECT_THAT(text.out, AllOf(HasSubstr("waiting for data"), HasSubstr("the program waits"), HasSubstr("25 %")));
}

TEST(ExplainProgram, ShowsSeveralRunsAsATable) {
  const TemporaryFolder folder;
  const double sec = predicted()["p50"].get<double>(), slow = 3 * predicted()["p95"].get<double>();
  const std::string runs =
      folder.write("runs.csv", header + row(sec, ",,,,steps,ok,") + row(slow, ",,,0.9,steps,ok,") +
                                   "64,resnet50,no such card,fp16,sgd,3x224x224,1000,6400,10,,,,,steps,ok,\n" +
                                   "64,resnet50,T4,fp16,sgd,3x224x224,1000,6400,,,,,,steps,oom,\n");
  const Json list = explained({runs});
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0]["finding"], "within");
  EXPECT_EQ(list[1]["finding"], "above");
  EXPECT_THAT(list[2]["error"].get<std::string>(), HasSubstr("no such card"));
  EXPECT_THAT(list[3]["error"].get<std::string>(), HasSubstr("was not timed (oom)"));
  const Finished text = explain({runs});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("mostly"), HasSubstr(" x within"), HasSubstr("x above"), HasSubstr("waiting for data ")));
}

TEST(ExplainProgram, ReadsLogsAndAsksForWhatTheyLack) {
  const TemporaryFolder folder;
  std::string log = "Overriding: batch_size = 12\nOverriding: block_size = 1024\n";
  for (int i = 0; i < 5; ++i) {
    log += "iter " + std::to_string(i) + ": loss 9.6241, time 271.52ms, mfu 41.20%\n";
  }
  const std::string path = folder.write("train.log", log);
  expect_refusal(explain({path}), 2, "does not say network, precision, device: give them");
  const Json found = explained({path}, {"--network", "gpt2", "--precision", "bf16", "--device", "A100-SXM4-40GB"});
  EXPECT_NEAR(found["measured_sec"].get<double>(), 0.27152, 1e-9);
  EXPECT_THAT(found["key"].get<std::string>(), HasSubstr("batch_size=12;input=1024"));
  EXPECT_EQ(found["source"], path);
  EXPECT_EQ(found,
            explained({"--log", path}, {"--network", "gpt2", "--precision", "bf16", "--device", "A100-SXM4-40GB"}));
}

TEST(ExplainProgram, RefusesWhatItCannotUse) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", header + row(0.1, ",,,,steps,ok,"));
  expect_refusal(explain({}), 2, "one of runs, log, measured_ms is required");
  expect_refusal(explain({runs, "--measured-ms", "5"}), 2, "one of runs, log, measured_ms is required");
  expect_refusal(explain({runs, "--device", "L4"}), 2, "device is given, but runs say all of their workloads");
  expect_refusal(explain({"--measured-ms", "-1"}, job), 2, "--measured-ms");
  expect_refusal(explain({"--measured-ms", "5"}), 2, "network is missing");
  expect_refusal(explain({folder.file("none.csv")}), 2, "No such file");
  expect_refusal(explain({folder.write("empty.csv", header)}), 2, "holds no run");
  expect_refusal(explain({folder.write("bad.csv", header + row(0.1, ",,,1.5,steps,ok,"))}), 2,
                 "bad.csv:2: data_wait_share \"1.5\" is not a fraction");
}

}  // namespace
}  // namespace perfpred
