// SPDX-License-Identifier: Apache-2.0
// perfpred-layouts, and perfpred-predict for several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Finished layouts(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("layouts"), "--network", "gpt2", "--batch-size", "64", "--precision",
                                       "bf16", "--device", "A100-SXM4-80GB"});
  return spawn(arguments);
}

Finished predict(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("predict"), "--network", "gpt2", "--batch-size", "4", "--precision",
                                       "bf16", "--device", "A100-SXM4-80GB"});
  return spawn(arguments);
}

TEST(Layouts, HaveTheKeysOfTheInterface) {
  const json found = json_of(layouts({"--gpus", "16", "--top", "3", "--json"}));
  EXPECT_GT(found.at("space"), found.at("fit").get<std::int64_t>() - 1);
  ASSERT_EQ(found.at("layouts").size(), 3U);
  for (const json& one : found["layouts"]) {
    for (const char* key : {"parallel", "micro_batches", "checkpoint", "step_sec", "tokens_per_sec", "memory",
                            "verdict", "price", "limits"}) {
      EXPECT_TRUE(one.contains(key)) << key;
    }
    // 64 sequences of 1024 words an update, whatever the layout.
    EXPECT_NEAR(one["tokens_per_sec"]["p50"].get<double>() * one["step_sec"]["p50"].get<double>(), 65'536, 1);
  }
}

/// What is ranked is what predict says of it.
TEST(Layouts, AreAnsweredAsPredictAnswers) {
  const json best = json_of(layouts({"--gpus", "8", "--top", "1", "--json"}))["layouts"][0];
  const json asked = json_of(spawn({program("predict"),
                                    "--network",
                                    "gpt2",
                                    "--precision",
                                    "bf16",
                                    "--device",
                                    "A100-SXM4-80GB",
                                    "--batch-size",
                                    best["batch_size"].dump(),
                                    "--accumulate",
                                    best["micro_batches"].dump(),
                                    "--parallel",
                                    best["parallel"],
                                    "--gpus-per-node",
                                    best["gpus_per_node"],
                                    "--checkpoint",
                                    best["checkpoint"],
                                    "--compiled",
                                    "0",
                                    "--software",
                                    "pytorch",
                                    "--layout",
                                    "nchw",
                                    "--loader",
                                    "none",
                                    "--json"}));
  EXPECT_NEAR(asked["step_sec"]["p50"].get<double>() / best["step_sec"]["p50"].get<double>(), 1, 1e-9);
  EXPECT_EQ(asked["memory"]["tensors"], best["memory"]["tensors"]);
  EXPECT_EQ(asked["verdict"], best["verdict"]);
}

TEST(Layouts, RefuseInOneLine) {
  expect_refusal(layouts({}), 2, "--gpus");
  expect_refusal(layouts({"--gpus", "1"}), 2, "gpus 1 is not at least 2");
  expect_refusal(layouts({"--gpus", "8", "--by", "beauty"}), 2, "time, price or memory");
  expect_refusal(layouts({"--gpus", "8", "--parallel", "ddp"}), 2, "--parallel");
  expect_refusal(layouts({"--gpus", "8", "--links", "links.csv"}), 2, "--cluster");
  expect_refusal(predict({"--gpus-per-node", "8", "--links", "links.csv"}), 2, "--links needs --cluster");
}

/// A forward pass has no gradients, states and recomputation to lay out.
TEST(Layouts, OfAdaptersAreReplicas) {
  const json found = json_of(layouts({"--gpus", "8", "--adapter", "lora:r=16", "--json"}));
  EXPECT_GT(found.at("space"), 0);
  for (const json& one : found.at("layouts"))
    EXPECT_THAT(one.at("parallel").get<std::string>(), Not(HasSubstr("tp="))) << one;
  EXPECT_THAT(found.at("left_out").dump(), HasSubstr("trained whole"));
}

TEST(Layouts, OfAForwardPassDiffer) {
  const json found = json_of(layouts({"--gpus", "8", "--phases", "forward", "--top", "1000", "--json"}));
  std::set<std::string> parallel;
  for (const json& one : found.at("layouts")) {
    parallel.insert(one.at("parallel"));
    EXPECT_EQ(one.at("checkpoint"), "none");
  }
  EXPECT_EQ(parallel, (std::set<std::string>{"ddp", "fsdp"}));
}

TEST(Layouts, ShowPricesWhereThereAreSome) {
  const TemporaryFolder folder;
  const std::string prices = folder.write("prices.csv", "device,price_per_hour\nA100-SXM4-80GB,3.6\n");
  EXPECT_THAT(layouts({"--gpus", "8"}).out, Not(HasSubstr("price")));
  EXPECT_THAT(layouts({"--gpus", "8", "--prices", prices}).out, HasSubstr("price of 1000 steps"));
}

TEST(Layouts, TheFirstIsDrawn) {
  const TemporaryFolder folder;
  const json best = json_of(layouts({"--gpus", "16", "--json", "--trace", folder.file("step.json")}))["layouts"][0];
  const json drawn = json::parse(std::ifstream(folder.file("step.json")));
  EXPECT_EQ(drawn.at("otherData").at("step_sec").at("p50"), best.at("step_sec").at("p50"));
}

TEST(PredictedSteps, AreDrawn) {
  const TemporaryFolder folder;
  const std::string file = folder.file("step.json");
  const json answer = json_of(predict({"--json", "--trace", file}));
  const json drawn = json::parse(std::ifstream(file));
  EXPECT_EQ(drawn.at("otherData").at("step_sec"), answer.at("step_sec"));
  EXPECT_GT(drawn.at("traceEvents").size(), 300U);
  expect_refusal(predict({"--trace", file, "--sweep", "batch_size=1,2"}), 2, "--sweep");
  expect_refusal(predict({"--trace", "/proc/no/step.json"}), 2, "/proc/no/step.json");
}

TEST(PredictSeveralDevices, SweepsOverPlacements) {
  const json rows = json_of(predict({"--sweep", "gpus_per_node=1,2,8,8x2", "--json"}));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_TRUE(rows[0]["scaling"].is_null());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_GT(rows[i]["tokens_per_sec"]["p50"], rows[i - 1]["tokens_per_sec"]["p50"]);
    EXPECT_LE(rows[i]["scaling"]["efficiency"], 1.0);
  }
  EXPECT_EQ(rows[3]["scaling"]["devices"], 16);
}

TEST(PredictSeveralDevices, RequestsHaveTheFieldsToo) {
  const Finished done = spawn({program("predict"), "--jsonl"},
                              R"({"network": "gpt2", "batch_size": 4, "device": "T4", "gpus_per_node": 4})"
                              "\n"
                              R"({"network": "gpt2", "batch_size": 4, "device": "T4", "parallel": "tp=5"})"
                              "\n");
  const std::size_t end = done.out.find('\n');
  EXPECT_EQ(json::parse(done.out.substr(0, end))["scaling"]["devices"], 4);
  EXPECT_THAT(json::parse(done.out.substr(end + 1))["error"].get<std::string>(), HasSubstr("4 and 6 do"));
}

}  // namespace
}  // namespace perfpred::testing
