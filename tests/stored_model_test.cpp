// SPDX-License-Identifier: Apache-2.0
// Model files that this version stored (scripts/store_models.py) are read, and answer as they did.
#include <perfpred/time_regressor.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

namespace perfpred {
namespace {

const std::string stored = PERFPRED_SOURCE_DIR "/tests/data/";
constexpr double same = 1e-6;  // relative; compilers differ in the last digits

TEST(StoredModel, ARegressorAndAnOpModelAnswerAsTheyDid) {
  const TimeRegressor regressor = TimeRegressor::load(stored + "stored_regressor.json");
  const TimeRegressor ops = TimeRegressor::load(stored + "stored_ops.json");
  std::ifstream answers(stored + "stored_answers.jsonl");
  int compared = 0;
  for (std::string line; std::getline(answers, line); ++compared) {
    const auto answer = nlohmann::json::parse(line);
    SCOPED_TRACE(line);
    const bool of_runs = answer.at("model") == "stored_regressor.json";
    const Workload workload = Workload::from_key(answer.at("key").get<std::string>());
    const Quantiles time = (of_runs ? regressor : ops).predict(workload).time_sec;
    const auto expected = [&](const char* part) { return answer.at("time_sec").at(part).get<double>(); };
    EXPECT_NEAR(time.p05 / expected("p05"), 1, same);
    EXPECT_NEAR(time.p50 / expected("p50"), 1, same);
    EXPECT_NEAR(time.p95 / expected("p95"), 1, same);
  }
  EXPECT_GE(compared, 20);
}

TEST(StoredModel, AModelOfAnOlderFormatIsTheSameOnceItIsSavedAnew) {
  const TimeRegressor older = TimeRegressor::load(stored + "stored_regressor.json");  // format 5
  const std::string text = older.text();
  const TimeRegressor anew = TimeRegressor::from_text(text);
  EXPECT_EQ(anew.text(), text);
  EXPECT_EQ(anew.fitted_rows(), older.fitted_rows());
  for (const AggregateRow& row : older.fitted_rows()) {
    const Quantiles was = older.predict(row.workload).time_sec, is = anew.predict(row.workload).time_sec;
    EXPECT_TRUE(was.p05 == is.p05 && was.p50 == is.p50 && was.p95 == is.p95) << row.workload.key();
  }
}

}  // namespace
}  // namespace perfpred
