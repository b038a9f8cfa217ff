// SPDX-License-Identifier: Apache-2.0
// perfpred-evaluate on data-parallel steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class EvaluateScaling : public ::testing::Test {
 protected:
  [[nodiscard]] Finished evaluate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {program("evaluate"), "--scaling-train", table_});
    return spawn(arguments);
  }

  TemporaryFolder folder_;
  std::string table_ = folder_.write("steps.csv",
                                     "cluster,gpu,network,precision,grad_bytes,gpus_per_node,local_batch,step_ms\n"
                                     "a,T4,net,fp32,1e8,1,16,100\na,T4,net,fp32,1e8,1,32,200\n"
                                     "a,T4,net,fp32,1e8,2,16,120\na,T4,net,fp32,1e8,2,32,220\n"
                                     "a,T4,net,fp32,1e8,4,16,130\na,T4,net,fp32,1e8,4,32,230\n"
                                     "a,T4,net,fp32,1e8,4+4,16,150\n");
};

TEST_F(EvaluateScaling, HasTheKeysOfTheInterface) {
  const json answer = json_of(evaluate({"--protocol", "larger", "--max-gpus", "4", "--json"}));
  EXPECT_EQ(answer.at("n"), 1);
  EXPECT_NEAR(answer.at("groups").at(0).at("perfect_median_ape").get<double>(), 1 - 100.0 / 150, 1e-12);
  const json& row = answer.at("rows").at(0);
  EXPECT_EQ(row.at("line"), 8);
  EXPECT_EQ(row.at("gpus_per_node"), "4x2");
  EXPECT_EQ(row.at("measured_ms"), 150);
  EXPECT_LT(row.at("p05_ms"), row.at("predicted_ms"));
  EXPECT_LT(row.at("predicted_ms"), row.at("p95_ms"));
  for (const char* key : {"unscored", "median_ape", "mape", "coverage90"}) EXPECT_TRUE(answer.contains(key)) << key;
}

TEST_F(EvaluateScaling, SaysInALineWhatIsWrong) {
  const auto expect = [&](const std::vector<std::string>& arguments, const char* what) {
    const Finished finished = evaluate(arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.err, HasSubstr(what));
  };
  expect({}, "--protocol placements, larger, network or cluster");
  expect({"--protocol", "network", "--max-gpus", "4"}, "--max-gpus is an option of protocol larger");
  expect({"--protocol", "cluster", "--probe-network", "net"}, "--probe-network requires --probe-rows");
  expect({"--protocol", "larger", "--scaling-test", table_}, "not both");
  expect({"--protocol", "larger", "--seed", "3"}, "--seed is for --runs-agg");
}

}  // namespace
}  // namespace perfpred::testing
