// SPDX-License-Identifier: Apache-2.0
// One limit of depth for every JSON that is read: the library that parses it writes and copies it by recursion.
#include "text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/op_time_model.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>

#include <functional>
#include <utility>
#include <vector>

#include "refusal.h"
#include "runs/run_log.h"
#include "temporary_folder.h"
#include "tools/plot.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

TEST(Json, HasALimitOfDepth) {
  EXPECT_TRUE(parse_json<Json>(nested(max_json_depth)).is_array());
  EXPECT_EQ(testing::refusal([] { (void)parse_json<Json>(nested(max_json_depth + 1)); }),
            "lists and objects are nested more than 100 deep");
  EXPECT_EQ(testing::refusal([] {
              (void)parse_json<Json>("[" + nested(max_json_depth - 1) + "," + nested(max_json_depth - 1) + "]");
            }),
            "");
  EXPECT_TRUE(parse_json<Json>("{").is_discarded());
}

TEST(Json, BracketsInTextsAreNoDepth) {
  const std::string text = R"(["\"[", "\\", ")" + std::string(1000, '[') + "\"]";
  EXPECT_EQ(parse_json<Json>(text).at(2).get<std::string>().size(), 1000U);
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(dumped(Json{{"name", "caf\xe9"}}), "{\"name\":\"caf\xef\xbf\xbd\"}");
  EXPECT_EQ(dumped(Json{1}, 2), "[\n  1\n]");
}

/// 100,000 lists where each reader copies a value or writes it into a message.
TEST(Json, NoReaderTakesDeepFiles) {
  const testing::TemporaryFolder folder;
  const std::string deep = nested(100'000);
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> readers = {
      {"{\"format\":" + deep + "}", [](const std::string& path) { (void)TimeRegressor::load(path); }},
      {"{\"kind\":" + deep + "}", [](const std::string& path) { (void)TimeRegressor::load(path); }},
      {"{\"kind\":\"ops\",\"format\":" + deep + "}", [](const std::string& path) { (void)OpTimeModel::load(path); }},
      {"{\"format\":1,\"batch_size\":" + deep + "}", [](const std::string& path) { (void)StepFile(path); }},
      {"{\"epoch\":" + deep + ",\"sec\":1}\n", [](const std::string& path) { (void)read_run_log(path); }},
      {"{\"pareto\":" + deep + "}", [](const std::string& path) { (void)read_plan_front(path); }},
  };
  for (const auto& [text, read] : readers) {
    const std::string path = folder.write("deep.json", text);
    EXPECT_THAT(testing::refusal<Error>([&, call = read] { call(path); }),
                ::testing::AllOf(StartsWith(path), HasSubstr("nested more than 100 deep")))
        << text.substr(0, 30);
  }
}

}  // namespace
}  // namespace perfpred
