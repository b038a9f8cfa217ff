// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <Eigen/Dense>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "made_up_rows.h"
#include "model/file_rows.h"
#include "model/hybrid/cost_model.h"
#include "model/hybrid/hybrid.h"
#include "model/hybrid/residual_kernel.h"

namespace perfpred {
namespace {

TEST(TimeRegressor, ObservingEqualsRefittingTheProcess) {
  // Expected from the model file alone: the posterior of all rows by a dense solve.
  const std::string file = scratch("observe");
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 32, 512);
  ASSERT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0.01))}).empty());
  EXPECT_TRUE(model.was_fitted_on(seen));
  model.save(file);
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(file))["groups"][0]["model"];
  std::filesystem::remove(file);

  ResidualKernel kernel;
  for (int i = 0; i < ResidualKernel::parameters; ++i) kernel.theta[i] = json["kernel"][static_cast<std::size_t>(i)];
  const nlohmann::json& rows = json["rows"];
  const auto n = static_cast<Eigen::Index>(rows["workload"].size());
  Eigen::MatrixXd places(n, ResidualKernel::inputs);
  Eigen::VectorXd residuals(n), noise(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = rows["place"][row][static_cast<std::size_t>(j)];
    noise[i] = rows["noise"][row];
    residuals[i] = rows["log_time"][row].get<double>() - rows["log_physics"][row].get<double>();
  }
  const Eigen::MatrixXd scaled = kernel.scaled(places);
  Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  covariance.diagonal() += kernel.noise2() * noise + Eigen::VectorXd::Constant(n, 1e-10);
  const Eigen::VectorXd alpha = covariance.fullPivLu().solve(residuals);
  for (const int batch : {64, 512, 700}) {
    const Workload asked = Workload::cifar_cnn(4, 32, batch);
    const StepShape shape(asked, DeviceKind::gpu);
    const Place place = shape.place(batch);
    const Eigen::MatrixXd at =
        kernel.scaled(Eigen::Map<const Eigen::Matrix<double, 1, ResidualKernel::inputs>>(place.data()));
    Costs costs;
    for (int c = 0; c < cost_count; ++c) costs[c] = json["physics"]["costs"][static_cast<std::size_t>(c)];
    const double expected =
        std::log(epoch_time(costs, shape).total()) + (alpha.transpose() * kernel.covariance(scaled, at))(0, 0);
    EXPECT_NEAR(std::log(model.predict(asked).time_sec.p50), expected, 1e-9);
  }
}

TEST(TimeRegressor, ObservingMovesThePredictionAndRejectsOutliers) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700);
  const double before = model.predict(seen).time_sec.p50;
  perfpred::Run contended = run_of(seen, 3 * before);
  perfpred::Run unequal = run_of(seen, before);
  unequal.epoch_times = {3, before, 1.3 * before};
  perfpred::Run elsewhere = run_of(seen, before);
  elsewhere.workload.device = "another";
  perfpred::Run failed = run_of(seen, before);
  failed.outcome = Outcome::failed;
  const std::vector<RejectedRun> refused =
      model.observe(std::vector<perfpred::Run>{contended, unequal, elsewhere, failed});
  ASSERT_EQ(refused.size(), 4U);
  EXPECT_THAT(refused[0].reason, ::testing::HasSubstr("standard deviations"));
  EXPECT_THAT(refused[2].reason, ::testing::StartsWith("other_device"));
  EXPECT_DOUBLE_EQ(model.predict(seen).time_sec.p50, before);

  const std::uint64_t old_id = model.predict(seen).model_id;
  const Quantiles old = model.predict(seen).time_sec;
  ASSERT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(seen, 1.015 * before)}).empty());
  const Prediction after = model.predict(seen);
  EXPECT_GT(after.time_sec.p50, before);
  EXPECT_LT(after.time_sec.p50, 1.015 * before);
  EXPECT_LE(after.time_sec.p95 / after.time_sec.p05, old.p95 / old.p05);
  EXPECT_NE(after.model_id, old_id);
}

TEST(TimeRegressor, ObservingLearnsRunsInsideTheIntervalOfANetworkWithoutRows) {
  for (const bool slower : {false, true}) {
    TimeRegressor model = TimeRegressor::fit(made_up_rows());
    Workload seen = Workload::cifar_cnn(4, 64, 700);
    seen.network = "resnet18";
    const Quantiles stated = model.predict(seen).time_sec;
    EXPECT_GE(std::min(stated.p95 / stated.p50, stated.p50 / stated.p05), 3.999);  // docs/accuracy.md
    const perfpred::Run wrong = run_of(seen, slower ? 100 * stated.p95 : 0.01 * stated.p05);
    EXPECT_EQ(model.observe(std::span(&wrong, 1)).size(), 1U);
    const perfpred::Run inside = run_of(seen, slower ? 0.99 * stated.p95 : 1.01 * stated.p05);
    EXPECT_TRUE(model.observe(std::span(&inside, 1)).empty());
    const Prediction after = model.predict(seen);
    EXPECT_GT(std::abs(std::log(after.time_sec.p50 / stated.p50)), 0.1);
    EXPECT_EQ(after.provenance, Provenance::runs);
  }
}

TEST(TimeRegressor, ObservingWithoutRunsSaysWhyADeviceIsNotLearned) {
  TimeRegressor model = TimeRegressor::standard();
  perfpred::Run unknown = run_of(Workload::cifar_cnn(4, 64, 700), 2), loose = unknown;
  unknown.workload.precision = Precision::fp32;
  unknown.workload.device = "a device of nobody";
  loose.workload.precision = Precision::unknown;
  loose.workload.device = "T4";
  const std::vector<RejectedRun> refused = model.observe(std::vector<perfpred::Run>{unknown, loose});
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_THAT(refused[0].reason, ::testing::StartsWith("other_device: "));
  EXPECT_THAT(refused[0].reason, ::testing::HasSubstr("--device-file")) << "what to do";
  EXPECT_EQ(refused[1].reason, "other_precision");
}

TEST(TimeRegressor, ObservingOnACpuWithoutRatesSaysHowTheyAreMeasured) {
  TimeRegressor model = TimeRegressor::standard();
  perfpred::Run run = run_of(Workload::cifar_cnn(4, 64, 700), 2);
  run.workload.precision = Precision::fp32;
  run.workload.device = Device::this_cpu().name;
  run.workload.threads = 1;
  const std::vector<RejectedRun> refused = model.observe(std::vector<perfpred::Run>{run});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_THAT(refused[0].reason, ::testing::StartsWith("other_device: "));
  EXPECT_THAT(refused[0].reason, ::testing::HasSubstr("perfpred-devices --measure"));
}

/// Two runs that nobody gave a time stamp are two runs.
TEST(TimeRegressor, RunsWithoutATimeStampAreNew) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  perfpred::Run run =
      run_of(Workload::cifar_cnn(4, 64, 700), model.predict(Workload::cifar_cnn(4, 64, 700)).time_sec.p50);
  EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run}).empty());
  EXPECT_EQ(model.observe(std::vector<perfpred::Run>{run}).size(), 1U) << "the same time stamp";
  run.timestamp_utc.clear();
  EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run, run}).empty());
  EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run}).empty());
}

TEST(TimeRegressor, ObservingRejectsARunThatItCannotDescribe) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700), later = Workload::cifar_cnn(2, 32, 300);
  const std::uint64_t old_id = model.predict(seen).model_id;
  perfpred::Run traced = run_of(seen, 2);
  traced.workload.network = "torchscript:0123456789ab";
  perfpred::Run invalid = run_of(seen, 2);
  invalid.workload.network = "cifar_cnn:depth=9,base_filters=64";
  const std::vector<RejectedRun> refused = model.observe(std::vector<perfpred::Run>{traced, invalid});
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_THAT(refused[0].reason, ::testing::HasSubstr("torchscript:0123456789ab"));
  EXPECT_THAT(refused[1].reason, ::testing::HasSubstr("depth 9"));
  EXPECT_EQ(model.predict(seen).model_id, old_id);

  const std::vector<RejectedRun> refused_again = model.observe(
      std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0)), traced, run_of(later, made_up_time(later, 0))});
  EXPECT_EQ(refused_again.size(), 1U);
  EXPECT_TRUE(model.was_fitted_on(seen));
  EXPECT_TRUE(model.was_fitted_on(later));
  EXPECT_NE(model.predict(seen).model_id, old_id);

  TimeRegressor linear = TimeRegressor::fit(made_up_rows(), {.kind = "linear", .seed = 0});
  EXPECT_THROW((void)linear.observe(std::vector<perfpred::Run>{run_of(seen, 2)}), InputError);
}

TEST(TimeRegressor, ATimeStampThatIsNotUtf8IsSavedAndKnownAgain) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700);
  std::vector<perfpred::Run> runs = {run_of(seen, made_up_time(seen, 0))};
  runs[0].timestamp_utc += "\xff";
  EXPECT_TRUE(model.observe(runs).empty());
  const std::string file = scratch("not_utf8");
  model.save(file);
  TimeRegressor again = TimeRegressor::load(file);
  std::filesystem::remove(file);
  for (TimeRegressor* one : {&model, &again}) EXPECT_EQ(one->observe(runs).at(0).reason, "already observed");
}

TEST(TimeRegressor, ARunObservedTwiceCountsOnce) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700);
  const perfpred::Run run = run_of(seen, made_up_time(seen, 0.005));
  ASSERT_EQ(model.observe(std::vector<perfpred::Run>{run, run}).size(), 1U);
  const Quantiles once = model.predict(seen).time_sec;
  const auto expect_rejected = [&](TimeRegressor& one) {
    const std::vector<RejectedRun> again = one.observe(std::vector<perfpred::Run>{run});
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].reason, "already observed");
    EXPECT_TRUE(same(one.predict(seen).time_sec, once));
  };
  expect_rejected(model);
  const std::string file = scratch("twice");
  model.save(file);
  TimeRegressor loaded = TimeRegressor::load(file);
  std::filesystem::remove(file);
  expect_rejected(loaded);
  EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0.005), 1)}).empty());
}

TEST(TimeRegressor, ARunOfAKnownKeyIsAveragedWithItsRow) {
  const std::vector<AggregateRow> rows = made_up_rows();
  TimeRegressor model = TimeRegressor::fit(rows);
  const Workload known = rows[7].workload;
  const double first = *rows[7].avg_time_mean;
  double sum = first, log_sum = std::log(first);
  for (int i = 0; i < 30; ++i) {
    const double sec = first * std::exp(0.002 * (i % 3));
    sum += sec;
    log_sum += std::log(sec);
    ASSERT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(known, sec, i)}).empty());
  }
  const std::vector<AggregateRow> fitted = model.fitted_rows();
  ASSERT_EQ(fitted.size(), rows.size());
  const auto row = std::find_if(fitted.begin(), fitted.end(), [&](const auto& one) { return one.workload == known; });
  EXPECT_EQ(row->n, 31);
  EXPECT_NEAR(*row->avg_time_mean, sum / 31, 1e-12 * sum);
  const std::string file = scratch("known");
  model.save(file);
  const nlohmann::json saved = nlohmann::json::parse(std::ifstream(file));
  const nlohmann::json& kept = saved["groups"][0]["model"]["rows"];
  std::filesystem::remove(file);
  const FileRows places = FileRows::read(saved["workloads"]);
  ASSERT_EQ(kept["workload"].size(), rows.size());
  std::size_t found = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (places.key(kept["workload"][i]) != known.key()) continue;
    ++found;
    EXPECT_NEAR(kept["noise"][i].get<double>(), 1.0 / 31, 1e-12);
    EXPECT_NEAR(kept["log_time"][i].get<double>(), log_sum / 31, 1e-12);
  }
  EXPECT_EQ(found, 1);
}

TEST(TimeRegressor, AFullModelForgetsWhatTheOtherRowsSayBest) {
  const std::vector<AggregateRow> rows = made_up_rows();
  std::vector<AggregateRow> more;
  for (const auto& [depth, batch] : {std::pair(5, 64), std::pair(5, 900), std::pair(2, 40), std::pair(3, 200)}) {
    AggregateRow& row = more.emplace_back(rows.front());
    row.workload = Workload::cifar_cnn(depth, 32, batch);
    row.avg_time_mean = made_up_time(row.workload, 0);
    row.n = 2;
  }
  const auto learn = [&](std::size_t max_rows) {
    HybridConstants constants;
    constants.max_rows = max_rows;
    LearnResult result = fit_hybrid({rows, {}}, constants)->learn(more, std::vector<double>(more.size(), 0));
    for (const auto& reason : result.rejected) EXPECT_EQ(reason, std::nullopt);
    return result;
  };
  std::vector<Workload> workloads;
  for (const std::vector<AggregateRow>* part : {&rows, &std::as_const(more)}) {
    for (const AggregateRow& row : *part) workloads.push_back(row.workload);
  }
  const FileRows file(workloads);
  const nlohmann::json all = learn(rows.size() + more.size()).model->to_json(file);
  const LearnResult bounded = learn(rows.size());
  EXPECT_EQ(bounded.model->to_json(file)["rows"]["workload"].size(), rows.size());

  // Brute force: the leave-one-out variance of every row by a dense solve without it.
  ResidualKernel kernel;
  for (int i = 0; i < ResidualKernel::parameters; ++i) kernel.theta[i] = all["kernel"][static_cast<std::size_t>(i)];
  struct Row {
    std::string key;
    Place place;
    double noise;
  };
  std::vector<Row> left;
  const nlohmann::json& columns = all["rows"];
  for (std::size_t i = 0; i < columns["workload"].size(); ++i)
    left.push_back({file.key(columns["workload"][i]), columns["place"][i], columns["noise"][i]});
  ASSERT_EQ(left.size(), rows.size() + more.size());
  std::vector<std::string> expected;
  while (left.size() > rows.size()) {
    const auto n = static_cast<Eigen::Index>(left.size());
    std::vector<Place> places;
    Eigen::VectorXd noise(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      places.push_back(left[static_cast<std::size_t>(i)].place);
      noise[i] = left[static_cast<std::size_t>(i)].noise;
    }
    const Eigen::MatrixXd scaled = kernel.scaled(place_matrix(places));
    const Eigen::MatrixXd covariance = kernel.with_noise(kernel.covariance(scaled, scaled), noise);
    Eigen::Index worst = -1;
    double least = HUGE_VAL;
    for (Eigen::Index i = 0; i < n; ++i) {
      std::vector<Eigen::Index> others;
      for (Eigen::Index j = 0; j < n; ++j) {
        if (j != i) others.push_back(j);
      }
      const Eigen::MatrixXd rest = covariance(others, others);
      const Eigen::VectorXd across = covariance(others, i);
      const double variance = covariance(i, i) - across.dot(rest.fullPivLu().solve(across));
      if (variance / noise[i] >= least) continue;
      least = variance / noise[i];
      worst = i;
    }
    expected.push_back(left[static_cast<std::size_t>(worst)].key);
    left.erase(left.begin() + worst);
  }
  EXPECT_EQ(bounded.forgotten, expected);
}

}  // namespace
}  // namespace perfpred
