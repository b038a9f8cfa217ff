// SPDX-License-Identifier: Apache-2.0
// The op model through the programs: fitted by train, judged by evaluate, asked by predict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../made_up_ops.h"
#include "../sample_step.h"
#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using testing::answer;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::program;
using testing::spawn;

class OpPrograms : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_made_up_ops(folder_); }

  static void expect_refused(const std::vector<std::string>& command, const std::string& text) {
    testing::expect_refusal(spawn(command), 2, text);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(OpPrograms, TrainThenPredict) {
  const std::string model = folder_.file("ops.json");
  const Json fit = answer({program("train"), "--kind", "ops", "--ops-dir", folder_.path(), "--out", model});
  EXPECT_EQ(fit.at("kind"), "ops");
  EXPECT_EQ(fit.at("dropped").size(), 1U);  // op_dropout.csv
  const std::vector<std::string> ask = {program("predict"), "--model",      model, "--network",
                                        "resnet50",         "--batch-size", "8",   "--device"};
  std::vector<std::string> command = ask;
  command.emplace_back("L4");
  const Json job = answer(command);
  EXPECT_GT(job.at("time_sec").at("p50"), 0);
  EXPECT_LT(job.at("step_sec").at("p05"), job.at("step_sec").at("p95"));
  EXPECT_EQ(job.at("breakdown").size(), 12U);  // the host, ten operators, and the others
  EXPECT_EQ(job.at("breakdown").at(0).at("op"), "host");
  EXPECT_EQ(job.at("provenance"), "family");
  EXPECT_EQ(job.at("in_domain"), false);
  EXPECT_EQ(job.at("reason"), "other_device");
  EXPECT_GT(job.at("memory_bytes"), 0);
  // An epoch of many steps: 1,281,167 / 8.
  EXPECT_NEAR(job.at("time_sec").at("p50").get<double>() / job.at("step_sec").at("p50").get<double>(), 160145.875,
              1e-3);

  expect_refused({program("predict"), "--model", model, "--network", "resnet50", "--batch-size", "8"},
                 "--device is missing");
  expect_refused({program("predict"), "--model", model, "--device", "L4", "--batch-size", "8"}, "--network is missing");
  const std::string nameless = folder_.write("nameless.csv", "depth,base_filters,batch_size\n2,16,32\n");
  expect_refused({program("predict"), "--configs", nameless, "--device", "L4"}, "nameless.csv:2: network is missing");
  command.back() = "Trainium1";
  command.insert(command.end(), {"--precision", "fp64"});
  expect_refused(command, "has no fp64_tflops");
}

TEST_F(OpPrograms, WithoutAModelTheStandardOneAnswers) {
  const Json job = answer({program("predict"), "--network", "resnet50", "--batch-size", "64", "--device",
                           "A100-80GB-PCIe", "--precision", "tf32"});
  EXPECT_GT(job.at("time_sec").at("p50"), 0);
  expect_refused({program("predict"), "--network", "resnet50", "--batch-size", "64"}, "--device is missing");
  expect_refused(
      {program("predict"), "--network", "resnet50", "--batch-size", "64", "--device", "T4", "--precision", "unknown"},
      "\"unknown\" is no precision to predict; give fp32, ");
  EXPECT_THAT(spawn({program("predict"), "--help"}).out, Not(HasSubstr("or unknown")));
}

TEST_F(OpPrograms, EvaluateSaysTheSameTwice) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--protocol", "seen"},
                                                  {"--protocol", "device"},
                                                  {"--protocol", "device", "--probe-rows", "8"},
                                                  {"--test-ops-dir", folder_.path()}}) {
    std::vector<std::string> command = {program("evaluate"), "--ops-dir", folder_.path()};
    command.insert(command.end(), options.begin(), options.end());
    const Json first = answer(command);
    EXPECT_EQ(first, answer(command));
    for (const char* key : {"n", "mape", "mape_device_mean", "coverage90"}) {
      EXPECT_TRUE(first.at("kinds").at("linear").contains(key)) << key;
    }
    for (const char* key : {"n", "mape", "median_ape"}) EXPECT_TRUE(first.at("ops").at("T4").at("relu").contains(key));
    for (const char* key : {"n", "mape", "median_ape", "coverage90", "rows"}) {
      EXPECT_TRUE(first.at("e2e").contains(key)) << key;
    }
    const Json& row = first.at("e2e").at("rows").at(0);
    for (const char* key : {"gpu", "model", "mode", "option", "seq", "batch", "measured_ms", "predicted_ms"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row.at("option"), "");
  }
}

TEST_F(OpPrograms, EvaluateSteps) {
  const std::string header = "source,licence,gpu,model,dataset,batch,precision,ms_per_step\n";
  std::string rows = header;
  for (const char* gpu : {"RTX2080Ti", "TITANXp", "TITANRTX"}) {
    for (const char* network : {"resnet18", "resnet50", "vgg16", "squeezenet1_1"}) {
      rows += std::string("lab,MIT,") + gpu + "," + network + ",synthetic 3x224x224,12,fp32,50\n";
    }
  }
  const std::string steps = folder_.write("steps.csv", rows);
  const Json result =
      answer({program("evaluate"), "--steps-train", steps, "--protocol", "device", "--probe-networks", "resnet18"});
  EXPECT_EQ(result.at("n"), 9);
  EXPECT_EQ(result.at("unscored").at("probe"), 3);
  EXPECT_EQ(result.at("by_gpu").at("TITANXp").at("n"), 3);
  for (const char* key : {"mape", "median_ape", "coverage90"}) EXPECT_TRUE(result.contains(key)) << key;
  for (const char* key : {"source", "gpu", "model", "batch", "precision", "measured_ms", "predicted_ms"}) {
    EXPECT_TRUE(result.at("rows").at(0).contains(key)) << key;
  }
  EXPECT_EQ(answer({program("evaluate"), "--steps-train", steps, "--steps-test", steps}).at("n"), 12);
  const std::string more = folder_.write("more.csv", rows);
  EXPECT_EQ(answer({program("evaluate"), "--steps-train", steps + "," + more, "--protocol", "lono"}).at("n"), 24);
  const std::string again = folder_.path() + "/./steps.csv";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{program("train"), "--kind", "ops", "--ops-dir", folder_.path()},
        {program("evaluate"), "--protocol", "lono"}}) {
    std::vector<std::string> twice = command;
    twice.insert(twice.end(), {"--steps-train", steps + "," + again});
    expect_refused(twice, again + " is named twice");
  }
  expect_refused({program("evaluate"), "--steps-train", steps, "--protocol", "device", "--probe-networks", "resnet81"},
                 "network \"resnet81\" is not known");
  EXPECT_EQ(answer({program("evaluate"), "--steps-train", steps, "--protocol", "lono"}).at("n"), 12);
}

TEST_F(OpPrograms, ANameOfSeveralDevicesIsAnsweredForEach) {
  const std::vector<std::string> ask = {program("predict"), "--network", "resnet50", "--batch-size", "8", "--device"};
  const auto with = [&ask](std::vector<std::string> more) {
    more.insert(more.begin(), ask.begin(), ask.end());
    return more;
  };
  const Json answers = answer(with({"H100"}));
  ASSERT_EQ(answers.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const char* device = std::array{"H100-PCIe-80GB", "H100-SXM5-80GB", "H100-NVL-94GB"}.at(i);
    EXPECT_EQ(answers.at(i), answer(with({device})));
    EXPECT_THAT(answers.at(i).at("key"), HasSubstr(device));
  }
  const Finished text = spawn(with({"H100"}));
  EXPECT_THAT(text.out, ::testing::AllOf(HasSubstr("H100-PCIe-80GB"), HasSubstr("H100-SXM5-80GB"), HasSubstr("NVL")));
  expect_refused({program("predict"), "--network", "resnet50", "--device", "H100", "--sweep", "batch_size=8,16"},
                 "the device may be any of H100-PCIe-80GB, H100-SXM5-80GB, H100-NVL-94GB; name one");
}

TEST_F(OpPrograms, APrecisionWithoutAPeakIsTheOneThatIsNamed) {
  const std::vector<std::string> ask = {program("predict"), "--network", "resnet50",   "--batch-size", "8",
                                        "--device",         "TPU v4",    "--precision"};
  for (const char* precision : {"fp16", "fp32"}) {
    std::vector<std::string> command = ask;
    command.emplace_back(precision);
    expect_refused(command, std::string("has no ") + precision + "_tflops; it has peaks for bf16");
  }
}

TEST_F(OpPrograms, LeavingOneOutSaysOfWhatItTakesTwo) {
  const std::string steps = folder_.write("one.csv",
                                          "source,licence,gpu,model,dataset,batch,precision,ms_per_step\n"
                                          "lab,MIT,T4,resnet18,synthetic 3x224x224,12,fp32,50\n");
  for (const auto& [protocol, groups] :
       {std::pair("device", "devices\n"), std::pair("lono", "networks\n"),
        std::pair("family", "families of networks\n"), std::pair("device_family", "families of devices\n")}) {
    expect_refused({program("evaluate"), "--steps-train", steps, "--protocol", protocol},
                   std::string("at least two ") + groups);
  }
}

TEST_F(OpPrograms, AModelWithoutRunsIsJudgedAsOps) {
  const std::string model = folder_.file("ops.json");
  answer({program("train"), "--kind", "ops", "--ops-dir", folder_.path(), "--out", model});
  const std::string measured = folder_.write(
      "runs_agg.csv",
      "network,depth,base_filters,batch_size,input,classes,train_images,precision,device,params,n,steps_per_epoch,"
      "avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,acc_std\n"
      "resnet18,,,64,3x224x224,1000,6400,fp32,T4,11689512,2,100,40,0.1,160,1,0,0\n");
  const Finished table = spawn({program("evaluate"), "--model", model, "--measured", measured});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("\nops  "));
  for (const char* kind : {"hybrid", "linear"}) EXPECT_THAT(table.out, Not(HasSubstr(kind)));
  EXPECT_EQ(answer({program("evaluate"), "--model", model, "--measured", measured}).at("baselines"), Json::object());
}

TEST_F(OpPrograms, EvaluateStepsOfCapturedNetworks) {
  std::string rows = "source,licence,gpu,model,dataset,batch,precision,ms_per_step\n";
  for (const char* network : {"resnet18", "vgg16", "mynet"}) {
    for (const char* batch : {"2", "4", "8", "16", "24", "32", "48", "64"}) {
      rows += std::string("lab,MIT,T4,") + network + ",synthetic 224," + batch + ",fp32,50\n";
    }
  }
  const std::string steps = folder_.write("steps.csv", rows), evaluate = program("evaluate");
  folder_.write("mynet.json", testing::linear_step().dump());
  const Json without = answer({evaluate, "--steps-train", steps, "--protocol", "family"});
  EXPECT_EQ(without.at("unscored").at("unknown network"), 8);
  EXPECT_EQ(answer({evaluate, "--steps-train", steps, "--protocol", "family", "--graphs", folder_.path()}).at("n"), 24);
  expect_refused({evaluate, "--steps-train", steps, "--protocol", "family", "--graphs", folder_.file("none")},
                 "is not a folder");
}

TEST_F(OpPrograms, WrongInputIsOneLine) {
  const std::string evaluate = program("evaluate"), folder = folder_.path();
  expect_refused({evaluate, "--ops-dir", folder}, "--ops-dir goes with");
  expect_refused({evaluate, "--ops-dir", folder, "--protocol", "kfold"}, "--ops-dir goes with");
  expect_refused({evaluate, "--ops-dir", folder, "--protocol", "seen", "--probe-rows", "3"}, "--probe-rows");
  expect_refused({evaluate, "--ops-dir", folder, "--protocol", "seen", "--seed", "3"}, "--seed");
  expect_refused({evaluate, "--ops-dir", folder_.file("none"), "--protocol", "seen"}, "not a folder");
  expect_refused({evaluate, "--steps-train", folder_.file("none.csv"), "--protocol", "device"}, "none.csv");
  expect_refused({evaluate, "--steps-train", folder_.write("a.csv", "gpu\n"), "--protocol", "lono"}, "source");
  expect_refused({program("train"), "--kind", "ops"}, "--ops-dir is missing");
  expect_refused({program("train"), "--ops-dir", folder}, "--ops-dir is for --kind ops");
  folder_.write("gpus.csv", "gpu,mem_bw_gbs\n");
  expect_refused({evaluate, "--ops-dir", folder, "--protocol", "seen"}, "gpus.csv");
  expect_refused({program("train"), "--kind", "ops", "--ops-dir", folder, "--out", folder_.file("o.json")}, "gpus.csv");
  expect_refused({program("predict"), "--model", folder_.write("m.json", R"({"format":11,"kind":"ops"})"), "--network",
                  "resnet18", "--device", "T4", "--batch-size", "2"},
                 "\"kernels\" is missing");
}

}  // namespace
}  // namespace perfpred
