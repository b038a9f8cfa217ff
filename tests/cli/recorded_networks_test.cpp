// SPDX-License-Identifier: Apache-2.0
// Recorded networks as a user of the programs asks for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::answer;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using testing::program;
using testing::spawn;
using testing::TemporaryFolder;

std::vector<std::string> predict(const std::vector<std::string>& more) {
  std::vector<std::string> command = {program("predict"), "--device", "A100-80GB-PCIe", "--batch-size", "8"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(RecordedNetworks, ArePredictedByTheNamesThatPeopleUse) {
  const json here = answer(predict({"--network", "t5_base", "--precision", "bf16", "--optimizer", "adamw"}));
  const json hub = answer(predict({"--network", "google-t5/t5-base", "--precision", "bf16", "--optimizer", "adamw"}));
  EXPECT_EQ(here, hub);
  EXPECT_THAT(here["key"].get<std::string>(), ::testing::StartsWith("network=t5_base@1;"));
  EXPECT_EQ(here["params"], 222'903'552);
  EXPECT_GT(here["step_sec"]["p50"], 0);
  EXPECT_GT(here["memory_bytes"], 16 * 222'903'552LL);  // parameters, gradients, two states of AdamW
}

// AdamW has two numbers for each parameter that SGD has not.
TEST(RecordedNetworks, TakeTheMemoryOfTheirOptimizer) {
  const json sgd = answer(predict({"--network", "whisper_tiny", "--optimizer", "sgd"}));
  const json adamw = answer(predict({"--network", "whisper_tiny", "--optimizer", "adamw"}));
  const double more = adamw["memory"]["tensors"]["p50"].get<double>() - sgd["memory"]["tensors"]["p50"].get<double>();
  EXPECT_NEAR(more / (8.0 * 37'760'640), 1, 0.02);
}

TEST(RecordedNetworks, AreListedWithWhereTheyCameFrom) {
  const json listed = answer({program("networks"), "whisper_small"})["networks"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["name"], "whisper_small");
  EXPECT_EQ(listed[0]["params"], 241'734'912);
  EXPECT_EQ(listed[0]["inputs"], json({"80x3000"}));
  EXPECT_THAT(listed[0]["aliases"], ::testing::Contains("openai/whisper-small"));
  EXPECT_THAT(listed[0]["source"].get<std::string>(), HasSubstr("transformers 5."));
  EXPECT_EQ(listed[0]["licence"], "Apache-2.0");
  EXPECT_EQ(listed[0]["version"], 1);
  EXPECT_THAT(spawn({program("networks"), "whisper_small"}).out,
              AllOf(HasSubstr("80x3000"), HasSubstr("448 tokens are written")));
}

TEST(RecordedNetworks, AreRefusedInOneLine) {
  expect_refusal(spawn(predict({"--network", "t5_base", "--input", "300"})), 2, "was recorded with input 512 and 128");
  expect_refusal(spawn(predict({"--network", "clip_vit_b_32", "--classes", "10"})), 2, "clip_vit_b_32@1 has none");
  expect_refusal(spawn(predict({"--network", "t5_bass"})), 2, "did you mean t5_base?");
  expect_refusal(spawn(predict({"--network", "t5_base@9"})), 2, "is of another version: this one has t5_base@1");
  expect_refusal(spawn({program("inspect"), "--network", "t5_base", "--batch-size", "8", "--checkpoint", "all"}), 2,
                 "was recorded without checkpoint all");
}

class OwnFolder : public ::testing::Test {
 protected:
  Finished ask(const std::string& network) {
    std::vector<std::string> command = predict({"--network", network});
    command.insert(command.begin(), {"/usr/bin/env", "PERFPRED_NETWORKS=" + folder_.path()});
    return spawn(command);
  }

  void write_index(const std::string& row) {
    folder_.write("index.csv",
                  "name,version,aliases,inputs,batches,params,classes,samples,sample,source,licence,published\n" + row);
  }

  TemporaryFolder folder_;
};

TEST_F(OwnFolder, IsReadInPlaceOfTheShippedOne) {
  const std::string file = PERFPRED_SOURCE_DIR "/data/networks/t5_small.xz";
  write_index("mine,4,my/own,512 128,,60506624,32128,,tokens,here,MIT,\n");
  std::filesystem::copy_file(file, folder_.file("mine.xz"));
  EXPECT_EQ(ask("my/own").exit_code, 0);
  expect_refusal(ask("t5_base"), 2, "network \"t5_base\" is not known");
  expect_refusal(ask("mine@3"), 2, "network mine@3 is of another version: this one has mine@4");
}

TEST_F(OwnFolder, NamesTheFileThatIsWrong) {
  write_index("mine,1,,512,,60506624,32128,,tokens,here,MIT,\n");
  expect_refusal(ask("mine"), 2, "mine.xz: No such file");
  const std::string whole = testing::slurp(PERFPRED_SOURCE_DIR "/data/networks/t5_small.xz");
  folder_.write("mine.xz", whole.substr(0, whole.size() / 2));
  expect_refusal(ask("mine"), 2, "mine.xz: is cut off or damaged");
  folder_.write("mine.xz", "a text that nobody has packed");
  expect_refusal(ask("mine"), 2, "mine.xz: is not a file that xz packed");
  write_index("mine,one,,512,,1,,,,,,\n");
  expect_refusal(ask("mine"), 2, "index.csv:2: version \"one\" is not");
  EXPECT_EQ(ask("resnet50").exit_code, 0);  // names of the zoo do not read it
}

TEST(RecordedNetworks, AreReplicatedOverSeveralDevices) {
  for (const char* parallel : {"ddp", "fsdp", "zero1"}) {
    const Finished done =
        spawn({program("predict"), "--network", "t5-base", "--batch-size", "8", "--precision", "bf16", "--device",
               "H100-SXM5-80GB", "--parallel", parallel, "--gpus-per-node", "8", "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(json::parse(done.out).at("scaling").at("devices"), 8) << parallel;
  }
}

}  // namespace
}  // namespace perfpred
