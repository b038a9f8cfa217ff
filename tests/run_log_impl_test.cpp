// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "runs/logs/training_log.h"
#include "runs/run_log.h"
#include "runs/run_row.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

Run sample_run() {
  Run run;
  run.workload = Workload::cifar_cnn(3, 32, 256);
  run.workload.device = "CPU \"X\", 2 cores";
  run.workload.threads = 2;
  run.timestamp_utc = "2026-01-01T00:00:00Z";
  run.framework = "test 1";
  run.epochs = 3;
  run.params = 550570;
  run.epoch_times = {11.061884601134807, 1.1523111218120903, 1.1140555429738015};
  run.avg_time_sec = 1.1331833323929459;
  run.images_per_sec = 44123.48696871042;
  run.test_acc = 0.1 + 0.2;
  run.load = 0;
  run.note = "tab\tand backslash\\";
  return run;
}

const std::string specification = R"({"workload":"network=cifar_cnn","options":{"epochs":3,"seed":0}})";

// date -u -d @-1.5 and so on
TEST(RunLog, TimesBefore1970AreWrittenToo) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_text(-0.25), "1969-12-31T23:59:59.750Z");
  EXPECT_EQ(utc_text(-1.5), "1969-12-31T23:59:58.500Z");
  EXPECT_EQ(utc_text(-86400), "1969-12-31T00:00:00.000Z");
  EXPECT_EQ(utc_text(1769860800.25), "2026-01-31T12:00:00.250Z");
  EXPECT_EQ(utc_text(253402300799), "9999-12-31T23:59:59.000Z");
  for (const double never : {253402300800.0, -62135596801.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(utc_text(never), "");
}

TEST(RunLog, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const LoggedEpoch first{1, 11.061884601134807, 2.3025850929940455, 0.1, 2.25, 0.3};
  const LoggedEpoch second{2, 1.15, std::nullopt, std::nullopt, std::nullopt, std::nullopt};
  const std::string path = folder.write("log.jsonl", specification + "\n" + epoch_json(first) + "\n" +
                                                         epoch_json(second) + "\n" + run_json(sample_run()) + "\n");
  const RunLog log = read_run_log(path);
  EXPECT_THAT(log.epochs, ElementsAre(first, second));
  EXPECT_EQ(log.run, sample_run());
}

TEST(RunLog, ARowHasTheColumnsOfRunsCsvWithNumbersAsNumbers) {
  const auto json = nlohmann::ordered_json::parse(run_json(sample_run()));
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, run_columns());
  EXPECT_EQ(json["batch_size"], 256);
  EXPECT_EQ(json["epoch_times_json"].get<std::vector<double>>(), sample_run().epoch_times);
  EXPECT_EQ(json["test_acc"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(json["device"], "CPU \"X\", 2 cores");
  EXPECT_TRUE(json["clock_mhz"].is_null());
  EXPECT_EQ(json["host"], "");
}

TEST(RunLog, AnyTextReadsBackFromEveryTextColumn) {
  const TemporaryFolder folder;
  for (const std::string text : {"A100", "13.0", "null", "true", "[1", "{", "\"", "1e999", ""}) {
    auto run = sample_run();
    for (const auto member : {&Run::timestamp_utc, &Run::framework, &Run::env, &Run::host, &Run::driver, &Run::cuda,
                              &Run::cudnn, &Run::note}) {
      run.*member = text;
    }
    if (!text.empty()) run.workload.device = text;
    EXPECT_EQ(read_run_log(folder.write("log.jsonl", run_json(run) + "\n")).run, run) << text;
  }
}

TEST(RunLog, ALossThatIsNotANumberIsNull) {
  LoggedEpoch epoch{1, 2.0, std::numeric_limits<double>::quiet_NaN(), 0.1, {}, {}};
  EXPECT_TRUE(nlohmann::json::parse(epoch_json(epoch))["train_loss"].is_null());
}

TEST(RunLog, BytesThatAreNoTextDoNotStopARow) {
  auto run = sample_run();
  run.note = "caf\xE9";
  EXPECT_THAT(run_json(run), HasSubstr("caf\xEF\xBF\xBD"));
}

TEST(RunLog, CutOffAtAnyByteItIsAShorterLog) {
  const TemporaryFolder folder;
  const LoggedEpoch epoch{1, 11.5, 2.25, 0.125, {}, {}};
  const std::string head = specification + "\n" + epoch_json(epoch) + "\n";
  const std::string whole = head + run_json(sample_run()) + "\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const RunLog log = read_run_log(folder.write("log.jsonl", whole.substr(0, size)));
    ASSERT_THAT(log.epochs, SizeIs(size + 1 >= head.size() ? 1 : 0)) << size;
    ASSERT_EQ(log.run.has_value(), size + 1 == whole.size()) << size;
  }
}

TEST(RunLog, WhatIsNoLogIsAnErrorOfItsLine) {
  const TemporaryFolder folder;
  const std::string row = run_json(sample_run());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}\nhello\n", "log.jsonl:2: is not a JSON object"},
      {"[1]\n", "log.jsonl:1: is not a JSON object"},
      {std::string("\0\n", 2), "log.jsonl:1: is not a JSON object"},
      {"{}\n{\"epoch\":0,\"sec\":1}\n", "log.jsonl:2: epoch \"0\" is not a positive integer"},
      {"{\"epoch\":1,\"sec\":[]}\n", "log.jsonl:1: sec \"[]\" is not a number"},
      {"{\"epoch\":1,\"sec\":-1}\n", "log.jsonl:1: sec \"-1\" is not a time"},
      {row + "\n" + row + "\n", "log.jsonl:2: a second row in one log"},
      {R"({"timestamp_utc":"t","avg_time_sec":1})"
       "\n",
       "log.jsonl:1: "},
      {R"({"timestamp_utc":true,"avg_time_sec":1})"
       "\n",
       "log.jsonl:1: timestamp_utc \"true\" is not"},
  };
  for (const auto& [text, message] : cases) {
    const std::string path = folder.write("log.jsonl", text);
    EXPECT_THAT([&] { (void)read_run_log(path); }, ThrowsMessage<InputError>(HasSubstr(message)));
  }
  EXPECT_THROW((void)read_run_log(folder.file("missing.jsonl")), InputError);
  EXPECT_THROW((void)read_run_log(folder.path()), InputError);
}

}  // namespace
}  // namespace perfpred
