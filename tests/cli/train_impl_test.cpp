// SPDX-License-Identifier: Apache-2.0
// perfpred-train and perfpred-observe as a user runs them.
#include <perfpred/aggregator.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../made_up_rows.h"
#include "runs/run_row.h"
#include "spawn.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::program;
using testing::spawn;

class Train : public ::testing::Test {
 protected:
  std::string table(std::vector<AggregateRow> rows) const {
    for (AggregateRow& row : rows) {
      row.thr_mean = 50'000 / *row.avg_time_mean;
      row.thr_std = 0;
    }
    write_aggregate(folder_.file("runs_agg.csv"), rows);
    return folder_.file("runs_agg.csv");
  }

  Finished train(std::vector<std::string> options) const {
    options.insert(options.begin(), program("train"));
    return spawn(options);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Train, ReportsNoValidationErrorOnRowsThatItWasFittedOn) {
  const std::string rows = table(made_up_rows());
  for (const char* kind : {"hybrid", "linear"}) {
    const Finished finished = train({"--runs-agg", rows, "--kind", kind, "--json"});
    const nlohmann::json json = json_of(finished);
    EXPECT_EQ(json["val"]["n"], 0) << kind;
    EXPECT_TRUE(json["val"]["time"]["mape"].is_null()) << kind;
    EXPECT_GT(json["test"]["n"], 0) << kind;
    EXPECT_THAT(finished.err, HasSubstr("validation rows too"));
  }
}

TEST_F(Train, SumsUpRejectedAndFlaggedRowsInOneLineEach) {
  std::vector<AggregateRow> rows = made_up_rows();
  for (const std::size_t i : {3U, 17U}) rows[i].avg_time_mean = 1.5 * *rows[i].avg_time_mean;
  rows[5].flags.unstable = true;
  rows[6].flags.disagree = rows[7].flags.disagree = true;
  const Finished finished = train({"--runs-agg", table(rows), "--test-fraction", "0", "--val-fraction", "0", "--json"});
  EXPECT_THAT(finished.err, HasSubstr("2 rejected: 2 outlier\n"));
  EXPECT_THAT(finished.err, HasSubstr("flagged rows: 1 unstable, 2 disagree, of 36"));
  const nlohmann::json json = json_of(finished);
  EXPECT_EQ(json["dropped"].size(), 2U);
  EXPECT_EQ(json["unstable"], 1);
  EXPECT_EQ(json["disagree"], 2);
}

TEST_F(Train, RefusesOptionsThatSuggestDoesNotUse) {
  const std::string rows = table(made_up_rows());
  const std::vector<std::string> suggest = {"--runs-agg", rows, "--suggest", "2", "--grid", rows};
  EXPECT_EQ(train(suggest).exit_code, 0);
  const std::vector<std::pair<std::string, std::string>> unused = {{"--out", folder_.file("model.json")},
                                                                   {"--features-out", folder_.file("features.csv")},
                                                                   {"--split", folder_.file("missing.csv")},
                                                                   {"--kind", "nonsense"},
                                                                   {"--test-fraction", "0.2"},
                                                                   {"--val-fraction", "0.2"}};
  for (const auto& [option, value] : unused) {
    std::vector<std::string> options = suggest;
    options.insert(options.end(), {option, value});
    const Finished finished = train(options);
    EXPECT_EQ(finished.exit_code, 2) << option;
    EXPECT_THAT(finished.err, HasSubstr(option));
  }
  EXPECT_EQ(folder_.entries(), 1U);
  EXPECT_EQ(train({"--runs-agg", rows, "--ops-dir", "x"}).exit_code, 2);
}

// InceptionV3 pools windows that an image of 20 pixels does not fill.
TEST_F(Train, ARowWithoutATrainingStepIsLeftOutWithItsLine) {
  std::vector<AggregateRow> rows = made_up_rows();
  AggregateRow bad = rows.front();
  bad.workload.network = "inception_v3";
  bad.workload.input = {3, 20, 20};
  rows.insert(rows.begin() + 2, bad);
  const std::string path = table(rows), model = folder_.file("model.json");
  const std::string reason = path + ":4: input 3x20x20 is too small for inception_v3";
  const auto answered = [&](std::vector<std::string> command, const char* list) {
    command[0] = program(command[0]);
    command.emplace_back("--json");
    const Finished finished = spawn(command);
    EXPECT_THAT(finished.err, HasSubstr("a row is left out: " + reason));
    const auto json = json_of(finished);
    EXPECT_THAT(json.at(list).dump(), HasSubstr(reason));
  };
  answered({"train", "--runs-agg", path, "--out", model}, "dropped");
  answered({"evaluate", "--model", model, "--measured", path}, "left_out");
  answered({"evaluate", "--runs-agg", path, "--protocol", "lowo", "--kind", "linear"}, "left_out");
  answered({"roofline", "--runs-agg", path, "--device", "T4"}, "warnings");
  testing::expect_refusal(train({"--runs-agg", table({bad})}), 2, "runs_agg.csv:2: input 3x20x20 is too small");
}

TEST_F(Train, ARunObservedTwiceIsReported) {
  const std::string model = folder_.file("model.json");
  ASSERT_EQ(train({"--runs-agg", table(made_up_rows()), "--out", model}).exit_code, 0);
  const Workload workload = Workload::cifar_cnn(4, 64, 700);
  const auto observe = [&](const std::string& rows) {
    const std::string runs = folder_.write("runs.csv", csv_line(run_columns()) + rows);
    return spawn({program("observe"), "--model", model, "--runs", runs, "--out", model});
  };
  const std::string row = csv_line(run_fields(run_of(workload, made_up_time(workload, 0))));
  EXPECT_EQ(observe(row).out, "1 runs observed, 0 rejected\n");
  EXPECT_EQ(observe(row).out, "0 runs observed, 1 rejected: 1 already observed\n");
  const Finished nothing = observe("");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_EQ(nothing.err, "perfpred-observe: " + folder_.file("runs.csv") + ": holds no run\n");
}

TEST_F(Train, EightThatObserveAtOnceLoseNoRun) {
  constexpr int processes = 8;
  const std::string model = folder_.file("model.json");
  ASSERT_EQ(train({"--runs-agg", table(made_up_rows()), "--out", model}).exit_code, 0);
  std::vector<std::thread> observers;
  for (int i = 0; i < processes; ++i) {
    const Workload workload = run_of(Workload::cifar_cnn(4, 64, 700 + i), 1).workload;
    const std::string runs =
        folder_.write(fmt::format("runs{}.csv", i),
                      csv_line(run_columns()) + csv_line(run_fields(run_of(workload, made_up_time(workload, 0)))));
    observers.emplace_back([=] {
      const Finished one = spawn({program("observe"), "--model", model, "--runs", runs, "--out", model});
      EXPECT_EQ(one.out, "1 runs observed, 0 rejected\n") << one.err;
    });
  }
  for (std::thread& observer : observers) observer.join();
  const TimeRegressor all = TimeRegressor::load(model);
  for (int i = 0; i < processes; ++i)
    EXPECT_TRUE(all.was_fitted_on(run_of(Workload::cifar_cnn(4, 64, 700 + i), 1).workload)) << i;
}

TEST_F(Train, RunsOnADeviceOfYourOwnAreObservedWithItsFile) {
  const std::string model = folder_.file("model.json");
  ASSERT_EQ(train({"--runs-agg", table(made_up_rows()), "--out", model}).exit_code, 0);
  Workload workload = Workload::zoo("resnet18", 32);
  workload.precision = Precision::fp32;
  workload.device = "my card";
  const std::string runs =
      folder_.write("runs.csv", csv_line(run_columns()) + csv_line(run_fields(run_of(workload, 900))));
  const std::string own = folder_.write(
      "own.csv",
      "name,kind,vendor,aliases,fp32_tflops,fp32_vector_tflops,mem_bw_gbs\nMine,gpu,NVIDIA,my card,40,40,800\n");
  const std::vector<std::string> command = {program("observe"), "--model", model, "--runs", runs, "--out", model};
  EXPECT_EQ(spawn(command).out, "0 runs observed, 1 rejected: 1 other_device\n");
  std::vector<std::string> with_file = command;
  with_file.insert(with_file.end(), {"--device-file", own});
  EXPECT_EQ(spawn(with_file).out, "1 runs observed, 0 rejected\n");
}

}  // namespace
}  // namespace perfpred
