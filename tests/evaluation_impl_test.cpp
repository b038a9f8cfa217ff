// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include <unistd.h>

#include "evaluate/curve.h"
#include "evaluate/fit_report.h"
#include "evaluate/protocol.h"
#include "evaluate/split.h"
#include "sample_rows.h"

namespace perfpred {
namespace {

TEST(ErrorMetrics, TextbookValues) {
  const ErrorMetrics metrics = error_metrics(std::vector<double>{1, 2, 4}, std::vector<double>{2, 2, 3});
  EXPECT_EQ(metrics.n, 3U);
  EXPECT_DOUBLE_EQ(*metrics.mae, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*metrics.rmse, std::sqrt(2.0 / 3));
  EXPECT_DOUBLE_EQ(*metrics.mape, (1.0 + 0.25) / 3);
  EXPECT_NEAR(*metrics.r2, 1 - 2 / (42.0 / 9), 1e-12);  // squares about the mean 7/3: 16/9 + 1/9 + 25/9
}

TEST(ErrorMetrics, NothingAndConstants) {
  EXPECT_EQ(error_metrics({}, {}).n, 0U);
  EXPECT_FALSE(error_metrics({}, {}).mape);
  EXPECT_FALSE(error_metrics(std::vector<double>{2, 2}, std::vector<double>{1, 2}).r2);
  EXPECT_THROW((void)error_metrics(std::vector<double>{0}, std::vector<double>{1}), InputError);
  EXPECT_THROW((void)error_metrics(std::vector<double>{1}, std::vector<double>{NAN}), InputError);
  EXPECT_THROW((void)error_metrics(std::vector<double>{1}, {}), Error);
}

TEST(ThroughputDeriver, FlipsTheQuantiles) {
  const Quantiles throughput = ThroughputDeriver(50'000).derive(Quantiles{0.5, 1, 2});
  EXPECT_EQ(throughput.p05, 25'000);
  EXPECT_EQ(throughput.p50, 50'000);
  EXPECT_EQ(throughput.p95, 100'000);
  EXPECT_THROW(ThroughputDeriver(0), InputError);
  EXPECT_THROW((void)ThroughputDeriver(1).derive(0), InputError);
}

std::vector<AggregateRow> small_table() {
  std::vector<AggregateRow> rows;
  for (const int depth : {2, 3}) {
    for (const int base : {16, 32}) {
      for (const int batch : {32, 64, 128, 256, 512}) {
        rows.push_back(testing::row_of(Workload::cifar_cnn(depth, base, batch), 10.0 * depth * base / batch));
      }
    }
  }
  return rows;
}

TEST(Evaluation, CoverageAndWidth) {
  const std::vector<AggregateRow> table = small_table();
  const std::vector<AggregateRow> rows(table.begin(), table.begin() + 2);
  const double a = *rows[0].avg_time_mean, b = *rows[1].avg_time_mean;
  const std::vector<Prediction> predictions = {{.time_sec = {0.9 * a, a, 1.1 * a}},
                                               {.time_sec = {1.5 * b, 2 * b, 3 * b}}};
  const Evaluation evaluation = evaluate(rows, predictions);
  EXPECT_DOUBLE_EQ(*evaluation.coverage90, 0.5);
  EXPECT_NEAR(*evaluation.width90_median, (0.2 + 0.75) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(*evaluation.metrics.time.mape, 0.5);
  EXPECT_NEAR(*evaluation.metrics.throughput.mape, 0.25, 1e-12);
}

TEST(Evaluation, NearestBatchInterpolatesOnTheLogLogLine) {
  std::vector<AggregateRow> rows = small_table();
  const AggregateRow held = rows[2];  // 2 x 16, batch 128; time is 1 / batch, a line
  rows.erase(rows.begin() + 2);
  for (const NamedMetrics& baseline : evaluate_baselines(rows, std::vector<AggregateRow>{held})) {
    if (baseline.name == "nearest_batch") {
      EXPECT_NEAR(*baseline.metrics.time.mape, 0, 1e-12);
    }
    if (baseline.name == "mean") {
      double logs = 0;
      for (const AggregateRow& row : rows) logs += std::log(*row.avg_time_mean) / static_cast<double>(rows.size());
      EXPECT_NEAR(*baseline.metrics.time.mae, std::abs(std::exp(logs) - *held.avg_time_mean), 1e-12);
    }
  }
}

TEST(Evaluation, NamesTheRowThatCannotBePredicted) {
  const TimeRegressor model = TimeRegressor::fit(small_table(), {.kind = "linear"});
  std::vector<AggregateRow> rows = small_table();
  EXPECT_EQ(predict_rows(model, rows).size(), rows.size());
  rows[1].workload = Workload::zoo("resnet18", 32);
  try {
    (void)predict_rows(model, rows);
    FAIL() << "a linear model knows no resnet18";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith(rows[1].workload.key() + ": "));
  }
}

TEST(Evaluation, BaselinesThatDoNotKnowANetworkAreLeftOut) {
  for (const char* device : {"unknown", "T4"}) {  // an op model would answer for the second
    std::vector<AggregateRow> scored = {small_table().front()};
    AggregateRow other = scored.front();
    other.workload = Workload::zoo("resnet18", 32);
    other.workload.device = device;
    scored.push_back(other);
    std::vector<std::string> names;
    for (const NamedMetrics& baseline : evaluate_baselines(small_table(), scored)) {
      names.push_back(baseline.name);
      EXPECT_EQ(baseline.metrics.time.n, 2U);
    }
    EXPECT_THAT(names, ::testing::ElementsAre("mean", "nearest_batch")) << device;
  }
}

TEST(Evaluation, SplitsAreExactRepeatableAndDisjoint) {
  const std::vector<AggregateRow> rows = small_table();
  const Split split = split_rows(rows, 0.15, 0.25, 7), again = split_rows(rows, 0.15, 0.25, 7);
  EXPECT_EQ(split.test.size(), 3U);
  EXPECT_EQ(split.val.size(), 5U);
  EXPECT_EQ(split.train.size(), 12U);
  EXPECT_EQ(split.test, again.test);
  EXPECT_NE(split.test, split_rows(rows, 0.15, 0.25, 8).test);
  std::set<std::string> keys;
  for (const auto* part : {&split.train, &split.val, &split.test}) {
    for (const AggregateRow& row : *part) keys.insert(row.workload.key());
  }
  EXPECT_EQ(keys.size(), rows.size());
  EXPECT_THROW((void)split_rows(rows, 0.5, 0.5, 0), InputError);
  EXPECT_THROW((void)split_rows(rows, -0.1, 0, 0), InputError);
  EXPECT_EQ(split_rows(rows, 0, 0, 0).train.size(), rows.size());
}

TEST(Evaluation, AFitIsReportedByTheRowsThatItUsed) {
  std::vector<AggregateRow> rows = small_table();
  rows[0].flags.unstable = true;
  rows[1].flags.disagree = true;
  rows[2].flags.disagree = true;
  const std::span all(rows);
  const Split split = {
      {all.begin(), all.begin() + 12}, {all.begin() + 12, all.begin() + 17}, {all.begin() + 17, all.end()}};
  const TimeRegressor model = TimeRegressor::fit(split.train, {.kind = "linear"}, split.val);
  const FitReport report = report_fit(model, split);
  EXPECT_EQ(report.train.time.n, 12U);
  EXPECT_EQ(report.val.time.n, 0U) << "linear is fitted on them, too";
  EXPECT_EQ(report.test.time.n, 3U);
  EXPECT_EQ(report.unstable, 1U);
  EXPECT_EQ(report.disagree, 2U);
  ASSERT_FALSE(report.baselines.empty());
  for (const NamedMetrics& baseline : report.baselines) EXPECT_EQ(baseline.metrics.time.n, 3U) << baseline.name;
}

TEST(Evaluation, SplitFromAFile) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("perfpred_split_" + std::to_string(::getpid()) + ".csv")).string();
  std::ofstream(file) << "depth,base_filters,batch_size,split\n2,16,32,train\n2,16,64,val\n3,32,512,test\n";
  const Split split = read_split(file, small_table());
  EXPECT_EQ(split.train.size(), 1U);
  EXPECT_EQ(split.val.size(), 1U);
  EXPECT_EQ(split.test.size(), 1U);
  std::ofstream(file) << "depth,base_filters,batch_size,split\n2,16,32,train\n2,16,64,maybe\n";
  EXPECT_THROW((void)read_split(file, small_table()), InputError);
  std::filesystem::remove(file);
}

TEST(Evaluation, TheKeysOfASplitMayHaveAnySpelling) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("perfpred_spelling_" + std::to_string(::getpid()) + ".csv")).string();
  const std::vector<AggregateRow> rows = small_table();
  std::string key = rows[0].workload.key();
  key.replace(key.find("cifar_cnn"), 9, "CIFAR_CNN");
  std::ofstream(file) << "key,split\n" << key << ",train\n";
  EXPECT_EQ(read_split(file, rows).train.size(), 1U);
  std::ofstream(file) << "key,split\nno key,train\n";
  EXPECT_THAT([&] { (void)read_split(file, rows); },
              ::testing::ThrowsMessage<InputError>(::testing::StartsWith(file + ":2: key \"no key\"")));
  std::filesystem::remove(file);
}

TEST(Evaluation, ASplitNamesARowOnce) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("perfpred_twice_" + std::to_string(::getpid()) + ".csv")).string();
  const std::vector<AggregateRow> rows = small_table();
  const auto expect_refused = [&](const std::string& text) {
    std::ofstream(file) << text;
    EXPECT_THAT([&] { (void)read_split(file, rows); },
                ::testing::ThrowsMessage<InputError>(file + ":4: names the row of line 2 again"));
  };
  for (const std::string again : {"train", "val", "test"}) {
    expect_refused("depth,base_filters,batch_size,split\n2,16,32,train\n2,16,64,train\n2,16,32," + again + "\n");
    expect_refused("key,split\n" + rows[0].workload.key() + ",train\n" + rows[1].workload.key() + ",train\n" +
                   rows[0].workload.key() + "," + again + "\n");
  }
  std::filesystem::remove(file);
}

TEST(Evaluation, ProtocolsLeaveOutWhatTheyName) {
  const std::vector<AggregateRow> rows = small_table();
  const FitOptions linear{.kind = "linear", .seed = 0};
  const ProtocolEvaluation loao = evaluate_protocol(rows, Protocol::loao, linear);
  EXPECT_EQ(loao.folds.size(), 4U);
  EXPECT_EQ(loao.seen, 0U);
  EXPECT_EQ(loao.all.metrics.time.n, rows.size());
  EXPECT_EQ(evaluate_protocol(rows, Protocol::lodo, linear).folds[0].left_out, "depth=2");
  ASSERT_EQ(loao.scored.size(), rows.size());
  const Evaluation again = evaluate(loao.scored, loao.predictions);
  EXPECT_DOUBLE_EQ(*again.metrics.time.mape, *loao.all.metrics.time.mape);
  EXPECT_EQ(evaluate_protocol(rows, Protocol::lowo, linear).folds[1].left_out, "base_filters=32");

  ProtocolOptions one;
  one.repeats = 3;
  one.threads = 1;
  ProtocolOptions four = one;
  four.threads = 4;
  const ProtocolEvaluation a = evaluate_protocol(rows, Protocol::kfold, linear, one);
  const ProtocolEvaluation b = evaluate_protocol(rows, Protocol::kfold, linear, four);
  EXPECT_EQ(a.folds.size(), 15U);
  EXPECT_EQ(*a.all.metrics.time.mape, *b.all.metrics.time.mape);
  EXPECT_EQ(*a.all.coverage90, *b.all.coverage90);
  one.folds = 100;
  EXPECT_THROW((void)evaluate_protocol(rows, Protocol::kfold, linear, one), InputError);
}

TEST(Evaluation, ACurveRefusesSizesThatLeaveNothingToScore) {
  const std::vector<AggregateRow> rows = small_table();
  const FitOptions linear{.kind = "linear", .seed = 0};
  for (const std::size_t size : {std::size_t{0}, rows.size(), rows.size() + 100}) {
    const std::vector<std::size_t> sizes = {10, size};
    EXPECT_THAT(
        [&] { (void)evaluate_curve(rows, sizes, 2, linear); },
        ::testing::ThrowsMessage<InputError>("a curve of 20 rows has sizes from 1 to 19, not " + std::to_string(size)));
  }
}

// Rows of one workload that differ in env are pooled by a model: fitted on one, it has seen the other.
TEST(Evaluation, RowsOfOneWorkloadStayTogether) {
  std::vector<AggregateRow> rows = small_table();
  const std::size_t n = rows.size();
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back(rows[i]);
    rows.back().env = "shared";
  }
  const FitOptions linear{.kind = "linear", .seed = 0};
  for (const Protocol protocol : {Protocol::kfold, Protocol::loao, Protocol::lowo}) {
    const ProtocolEvaluation result = evaluate_protocol(rows, protocol, linear, {.repeats = 2});
    EXPECT_EQ(result.seen, 0U);
    EXPECT_EQ(result.all.metrics.time.n, rows.size());
  }
  const Split split = split_rows(rows, 0.2, 0.2, 1);
  EXPECT_EQ(split.test.size(), 8U);
  for (const AggregateRow& test : split.test) {
    for (const AggregateRow& train : split.train) EXPECT_NE(test.workload, train.workload);
  }
  const std::vector<std::size_t> sizes = {10};
  EXPECT_EQ(evaluate_curve(rows, sizes, 2, linear).size(), 2U);
}

}  // namespace
}  // namespace perfpred
