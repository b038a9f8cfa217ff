// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/evaluation.h>
#include <perfpred/throughput_deriver.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>

#include <unistd.h>

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
        AggregateRow row;
        row.workload = Workload::cifar_cnn(depth, base, batch);
        row.n = 1;
        row.avg_time_mean = 10.0 * depth * base / batch;
        row.thr_mean = 50'000 / *row.avg_time_mean;
        rows.push_back(row);
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
              testing::ThrowsMessage<InputError>(testing::StartsWith(file + ":2: key \"no key\"")));
  std::filesystem::remove(file);
}

TEST(Evaluation, ASplitNamesARowOnce) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("perfpred_twice_" + std::to_string(::getpid()) + ".csv")).string();
  const std::vector<AggregateRow> rows = small_table();
  const auto expect_refused = [&](const std::string& text) {
    std::ofstream(file) << text;
    EXPECT_THAT([&] { (void)read_split(file, rows); },
                testing::ThrowsMessage<InputError>(file + ":4: names the row of line 2 again"));
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
        testing::ThrowsMessage<InputError>("a curve of 20 rows has sizes from 1 to 19, not " + std::to_string(size)));
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

// ---- bounds on the accuracy: means over five seeds, with a margin that no single seed crosses

constexpr std::uint64_t seeds = 5;

/// Mean over the seeds of a figure of a cross-validation by few repeats.
struct KFoldMeans {
  double mape = 0, time_mae = 0, throughput_mae = 0, coverage90 = 0, width90 = 0;
};

KFoldMeans kfold_means(std::span<const AggregateRow> rows, int repeats, const std::string& kind = "hybrid") {
  KFoldMeans means;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    ProtocolOptions options;
    options.repeats = repeats;
    options.seed = seed;
    const Evaluation all = evaluate_protocol(rows, Protocol::kfold, {.kind = kind, .seed = seed}, options).all;
    means.mape += *all.metrics.time.mape / seeds;
    means.time_mae += *all.metrics.time.mae / seeds;
    means.throughput_mae += *all.metrics.throughput.mae / seeds;
    means.coverage90 += *all.coverage90 / seeds;
    means.width90 += *all.width90_median / seeds;
  }
  return means;
}

void expect_between(double low, double value, double high) {
  EXPECT_GE(value, low);
  EXPECT_LE(value, high);
}

// Our own measurements on shared virtual CPUs, whose runs differ by several percent from one to the next.
class OwnMeasurements : public testing::TestWithParam<std::pair<std::string, std::vector<double>>> {
 protected:
  std::vector<AggregateRow> rows = read_aggregate(PERFPRED_SOURCE_DIR "/data/" + GetParam().first + "/runs_agg.csv");
};

TEST_P(OwnMeasurements, KFold) {
  const KFoldMeans hybrid = kfold_means(rows, 1);
  EXPECT_LE(hybrid.mape, GetParam().second[0]);
  EXPECT_LE(hybrid.mape, 0.6 * kfold_means(rows, 1, "linear").mape);
  expect_between(0.84, hybrid.coverage90, 0.97);
}

TEST_P(OwnMeasurements, LeaveGroupsOut) {
  constexpr std::array protocols = {Protocol::loao, Protocol::lodo, Protocol::lowo};
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    SCOPED_TRACE(i);
    const Evaluation all = evaluate_protocol(rows, protocols[i], {}).all;
    EXPECT_LE(*all.metrics.time.mape, GetParam().second[i + 1]);
    expect_between(0.82, *all.coverage90, 1);
  }
}

// kfold, then loao, lodo, lowo: 10 to 20 % above what docs/accuracy.md reports.
INSTANTIATE_TEST_SUITE_P(
    Machines, OwnMeasurements,
    testing::Values(std::pair("intel_xeon_processor_2_threads", std::vector<double>{0.115, 0.113, 0.160, 0.160}),
                    std::pair("amd_epyc_2_threads", std::vector<double>{0.083, 0.083, 0.085, 0.135})));

// The reference collection: one A100, quiet.
class Reference : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
    if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
    rows = read_aggregate(std::string(folder) + "/a100_cifar10/runs_agg.csv");
  }
  std::vector<AggregateRow> rows;
};

TEST_F(Reference, KFold) {
  const KFoldMeans means = kfold_means(rows, 4);
  EXPECT_LE(means.mape, 0.0105);
  EXPECT_LE(means.time_mae, 0.025);
  EXPECT_LE(means.throughput_mae, 475);
  expect_between(0.86, means.coverage90, 0.96);
  EXPECT_LE(means.width90, 0.05);
}

TEST_F(Reference, FewRows) {
  const std::vector<std::size_t> sizes = {10, 20, 40};
  std::map<std::pair<std::size_t, std::string>, double> mape;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const CurvePoint& point : evaluate_curve(rows, sizes, 12, {}, {.seed = seed})) {
      mape[{point.rows, point.selection}] += point.mape_median / seeds;
    }
  }
  EXPECT_LE(mape.at({10, "random"}), 0.046);
  EXPECT_LE(mape.at({20, "random"}), 0.026);
  EXPECT_LE(mape.at({40, "random"}), 0.017);
  EXPECT_LE(mape.at({20, "suggested"}), 0.025);
  EXPECT_LE(mape.at({40, "suggested"}), 0.017);
}

struct LeaveGroupsOut {
  Protocol protocol;
  double mape, min_coverage, max_coverage, width;
};

// These folds do not depend on a seed.
TEST_F(Reference, LeaveGroupsOut) {
  for (const auto& [protocol, mape, min_coverage, max_coverage, width] :
       {LeaveGroupsOut{Protocol::loao, 0.016, 0.86, 0.96, 0.08}, LeaveGroupsOut{Protocol::lodo, 0.030, 0.80, 0.97, 1},
        LeaveGroupsOut{Protocol::lowo, 0.046, 0.80, 0.97, 1}}) {
    SCOPED_TRACE(static_cast<int>(protocol));
    const Evaluation all = evaluate_protocol(rows, protocol, {}).all;
    EXPECT_LE(*all.metrics.time.mape, mape);
    expect_between(min_coverage, *all.coverage90, max_coverage);
    EXPECT_LE(*all.width90_median, width);
  }
}

}  // namespace
}  // namespace perfpred
