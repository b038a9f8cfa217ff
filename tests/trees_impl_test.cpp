// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "made_up_rows.h"
#include "model/kinds/trees.h"

#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#include <xgboost/c_api.h>

#include "model/kinds/trees_xgboost.h"
#endif

namespace perfpred {
namespace {

TEST(Trees, FittingNamesTheComponentThatItNeeds) {
  for (const char* kind : {"forest", "boosting"}) {
    EXPECT_THAT([&] { (void)TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0}); },
                ::testing::ThrowsMessage<Error>(
                    ::testing::AllOf(::testing::HasSubstr(kind), ::testing::HasSubstr("the component xgboost"))));
  }
}

#ifdef PERFPRED_WITH_XGBOOST

/// What libxgboost itself predicts with trees that it grew, beside what core makes of them.
void expect_equal_predictions(const std::vector<std::pair<const char*, const char*>>& parameters, int rounds) {
  const std::vector<AggregateRow> rows = made_up_rows(0.05);
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> features =
      feature_matrix(rows).cast<float>();
  const Eigen::VectorXf labels = log_times(rows).cast<float>();
  DMatrixHandle matrix = nullptr;
  BoosterHandle booster = nullptr;
  ASSERT_EQ(XGDMatrixCreateFromMat(features.data(), rows.size(), 5, NAN, &matrix), 0);
  ASSERT_EQ(XGDMatrixSetFloatInfo(matrix, "label", labels.data(), rows.size()), 0);
  ASSERT_EQ(XGBoosterCreate(&matrix, 1, &booster), 0);
  for (const auto& [name, value] : parameters) ASSERT_EQ(XGBoosterSetParam(booster, name, value), 0);
  for (int round = 0; round < rounds; ++round) ASSERT_EQ(XGBoosterUpdateOneIter(booster, round, matrix), 0);

  std::vector<Workload> asked;
  for (int i = 0; i < 200; ++i) asked.push_back(Workload::cifar_cnn(1 + i % 5, 10 + i, 17 + 13 * i));
  std::vector<float> raw;
  for (const Workload& workload : asked) {
    for (const double feature : features_of(workload)) raw.push_back(static_cast<float>(feature));
  }
  DMatrixHandle questions = nullptr;
  ASSERT_EQ(XGDMatrixCreateFromMat(raw.data(), asked.size(), 5, NAN, &questions), 0);
  bst_ulong count = 0;
  const float* predicted = nullptr;
  ASSERT_EQ(XGBoosterPredict(booster, questions, 0, 0, 0, &count, &predicted), 0);
  ASSERT_EQ(count, asked.size());
  const Trees trees = read_trees(booster, 100'000);
  for (std::size_t i = 0; i < asked.size(); ++i)
    EXPECT_NEAR(trees.log_time(features_of(asked[i])), static_cast<double>(predicted[i]), 1e-5) << asked[i].key();
  XGDMatrixFree(questions);
  XGDMatrixFree(matrix);
  XGBoosterFree(booster);
}

TEST(Trees, EqualTheOnesOfXgboost) {
  expect_equal_predictions({{"num_parallel_tree", "100"}, {"subsample", "0.6"}, {"learning_rate", "1"}}, 1);
  expect_equal_predictions({{"max_depth", "4"}, {"learning_rate", "0.1"}, {"base_score", "2.5"}}, 80);
}

TEST(Trees, FitTheRowsOnceTheComponentIsEnabled) {
  enable_xgboost();
  const std::vector<AggregateRow> rows = made_up_rows();
  for (const char* kind : {"forest", "boosting"}) {
    const TimeRegressor model = TimeRegressor::fit(rows, {.kind = kind, .seed = 0});
    double error = 0;
    for (const AggregateRow& row : rows)
      error += std::abs(model.predict(row.workload).time_sec.p50 / *row.avg_time_mean - 1);
    EXPECT_LT(error / static_cast<double>(rows.size()), 0.2) << kind;
  }
  set_trees_fitter(nullptr);
}

#endif

}  // namespace
}  // namespace perfpred
