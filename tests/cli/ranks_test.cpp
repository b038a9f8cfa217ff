// SPDX-License-Identifier: Apache-2.0
// perfpred-inspect for several devices, and scripts/megatron_table.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;

Finished inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("inspect"), "--network", "gpt2", "--batch-size", "4"});
  return spawn(arguments);
}

TEST(InspectRanks, HasTheKeysOfTheInterface) {
  const json answer = json_of(inspect({"--precision", "bf16", "--accumulate", "8", "--device", "H100-SXM5-80GB",
                                       "--parallel", "zero1+tp=2,pp=4", "--gpus-per-node", "8x2", "--json"}));
  EXPECT_EQ(answer.at("network"), "gpt2");
  EXPECT_EQ(answer.at("parallel"), "zero1+tp=2,pp=4,dp=2");
  EXPECT_EQ(answer.at("gpus_per_node"), "8x2");
  ASSERT_EQ(answer.at("ranks").size(), 4U);
  std::int64_t most = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const json& rank = answer["ranks"][stage];
    EXPECT_EQ(rank.at("stage"), stage);
    EXPECT_EQ(rank.at("tp"), 0);
    EXPECT_EQ(rank.at("ep"), 0);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : rank.at("parts").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(rank.at("tensors").at("p50"), sum);
    EXPECT_GT(rank.at("tensors").at("upper"), sum);
    most = std::max(most, sum);
  }
  const json& memory = answer.at("memory");
  EXPECT_EQ(memory.at("tensors").at("p50"), most);
  EXPECT_EQ(memory.at("peak_bytes"), most);
  EXPECT_EQ(answer["ranks"][memory.at("rank").at("stage").get<std::size_t>()].at("tensors"), memory.at("tensors"));
  for (const char* key : {"parameters", "gradients", "optimizer", "activations", "workspace"}) {
    EXPECT_GT(memory.at(key), 0) << key;
  }
}

TEST(InspectRanks, PrintsAStageALine) {
  const Finished finished = inspect({"--precision", "bf16", "--parallel", "tp=2,pp=2", "--gpus-per-node", "4"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("gpt2, tp=2,pp=2,dp=1 on 4 devices (4)"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("the fullest rank, of stage"), std::string::npos);
}

TEST(InspectRanks, LeavesOneDeviceAsItIs) {
  const Finished plain = inspect({"--json"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(inspect({"--json", "--parallel", "ddp", "--gpus-per-node", "1"}).out, plain.out);
}

TEST(InspectRanks, RefusesWithOneLine) {
  struct Wrong {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{{"--parallel", "tp=5", "--gpus-per-node", "5"}, "does not divide 12 heads; 4 and 6 do"},
                          {{"--parallel", "tp=2", "--gpus-per-node", "3"}, "a multiple of 2 (tp x pp x cp) is needed"},
                          {{"--parallel", "tp=2", "--gpus-per-node", "x"}, "gpus_per_node"},
                          {{"--parallel", "zero3", "--gpus-per-node", "8"}, "only ddp and zero1 are known"},
                          {{"--parallel", "tp=2", "--adapter", "lora:r=8"}, "not answered for adapters"},
                          {{"--parallel", "tp=2", "--device", "MI300X"}, "NVIDIA's GPUs"},
                          {{"--parallel", "tp=2", "--layers"}, "for one device"},
                          {{"--parallel", "tp=2", "--program", "fast"}, "program \"fast\" is not known"},
                          {{"--program", "deterministic-mode"}, "--program is for several devices"}}) {
    const Finished finished = inspect(wrong.arguments);
    EXPECT_EQ(finished.exit_code, 2) << wrong.message;
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find(wrong.message), std::string::npos) << finished.err;
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  }
  const Finished images =
      spawn({program("inspect"), "--network", "resnet50", "--parallel", "ddp", "--gpus-per-node", "8"});
  EXPECT_EQ(images.exit_code, 2);
  EXPECT_NE(images.err.find("resnet50 is none"), std::string::npos) << images.err;
}

json table_of(const std::string& table, const TemporaryFolder& folder) {
  const std::string out = folder.file("out.json");
  const Finished finished =
      spawn({"/usr/bin/env", "python3", std::string(PERFPRED_SOURCE_DIR) + "/scripts/megatron_table.py", table, "--bin",
             PERFPRED_BIN_DIR, "--json", out});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  std::ifstream file(out);
  return json::parse(file);
}

TEST(MegatronTable, MapsFlagsAndCountsWhatItCannotMap) {
  const TemporaryFolder folder;
  const std::string head =
      "model,case,gpu,environment,gpus,gpus_from,mem_max_allocated_bytes,tensor-model-parallel-size,num-layers,hidden-"
      "size,"
      "num-attention-heads,seq-length,micro-batch-size,bf16\n";
  const json answer =
      table_of(folder.write("t.csv", head + "gpt,a,A100-80GB-SXM,dev,8,recipe,1000,2,12,512,8,1024,4,True\n"
                                            "t5,b,A100-80GB-SXM,dev,8,recipe,1000,2,12,512,8,1024,4,True\n"
                                            "gpt,c,A100-80GB-SXM,dev,8,recipe,,2,12,512,8,1024,4,True\n"
                                            "gpt,d,A100-80GB-SXM,dev,8,recipe,2000,8,12,512,12,1024,4,True\n"),
               folder);
  ASSERT_EQ(answer.at("rows").size(), 1U);
  const json& row = answer["rows"][0];
  EXPECT_EQ(row.at("line"), 2);
  EXPECT_EQ(row.at("case"), "a");
  EXPECT_EQ(row.at("gpu"), "A100-80GB-SXM");
  EXPECT_EQ(row.at("measured_bytes"), 1000);
  EXPECT_GT(row.at("upper_bytes"), row.at("predicted_bytes"));
  EXPECT_EQ(answer.at("unmapped").size(), 3U);
  EXPECT_EQ(answer["unmapped"].at("family t5"), 1);
  EXPECT_EQ(answer["unmapped"].at("no peak in the row"), 1);
}

/// Peaks of Megatron-LM's own tests, 8 kinds of layouts of three families.
TEST(MegatronTable, IsWithinAFewPercentOfMegatronsTests) {
  const char* reference = std::getenv("PERFPRED_REFERENCE_DIR");
  if (reference == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const TemporaryFolder folder;
  const json answer = table_of(std::string(reference) + "/layouts/megatron_ci.csv", folder);
  std::vector<double> errors;
  double near = 0, held = 0;
  for (const json& row : answer.at("rows")) {
    const double measured = row.at("measured_bytes");
    errors.push_back(std::abs(row.at("predicted_bytes").get<double>() / measured - 1));
    near += errors.back() < 0.1 ? 1 : 0;
    held += row.at("upper_bytes") >= measured ? 1 : 0;
  }
  ASSERT_GE(errors.size(), 340U);
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.02);
  EXPECT_GT(near / static_cast<double>(errors.size()), 0.85);
  EXPECT_GT(held / static_cast<double>(errors.size()), 0.92);
}

}  // namespace
}  // namespace perfpred::testing
