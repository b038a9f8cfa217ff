// SPDX-License-Identifier: Apache-2.0
// What is answered where nobody stated how many samples an epoch has.
#include <perfpred/error.h>
#include <perfpred/forecast.h>
#include <perfpred/run_plan.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "made_up_rows.h"
#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;

bool has_none(const Quantiles& q) { return std::isnan(q.p05) && std::isnan(q.p50) && std::isnan(q.p95); }

Workload on_a10(const char* network, std::int64_t batch) {
  Workload job = Workload::zoo(network, batch);
  job.device = "A10";
  return job;
}

TEST(UnstatedEpoch, LanguageModelsHaveNoUsualData) {
  for (const char* network : {"gpt2", "bert_base", "llama3_8b", "transformer:layers=2,hidden=64,heads=4,vocab=100",
                              "lstm:layers=1,hidden=64,vocab=100"}) {
    EXPECT_FALSE(Workload::zoo(network, 2).knows_epoch()) << network;
    EXPECT_THAT(Workload::zoo(network, 2).key(), HasSubstr(";train_images=50000;")) << network;
  }
  for (const char* network : {"resnet50", "vit_b_16", "cifar_resnet18", "cifar_cnn:depth=3,base_filters=32"}) {
    EXPECT_TRUE(Workload::zoo(network, 2).knows_epoch()) << network;
    EXPECT_FALSE(Workload::zoo(network, 2).train_images.is_stated()) << network;
  }
}

TEST(UnstatedEpoch, WhoStatesTheSamplesKnowsTheEpoch) {
  Workload job = Workload::zoo("gpt2", 2);
  EXPECT_TRUE(with_field(job, "train_images", "50000").knows_epoch());
  EXPECT_FALSE(with_field(job, "batch_size", "4").knows_epoch());
  EXPECT_TRUE(Workload::from_key(job.key()).knows_epoch());
  EXPECT_EQ(Workload::from_key(job.key()), job);
  job.train_images = 7;
  EXPECT_TRUE(job.knows_epoch());
  EXPECT_FALSE(with_field(job, "network", "gpt2_medium").knows_epoch());  // it is not that network's
  EXPECT_FALSE(with_field(job, "network", "step:0123456789ab").knows_epoch());
}

TEST(UnstatedEpoch, APredictionHasNoTime) {
  const TimeRegressor model = TimeRegressor::standard();
  const Workload unstated = on_a10("gpt2", 4), stated = with_field(unstated, "train_images", "50000");
  EXPECT_TRUE(has_none(model.predict(unstated).time_sec));
  EXPECT_GT(model.predict(stated).time_sec.p50, 0);
  EXPECT_EQ(model.predict(unstated).provenance, model.predict(stated).provenance);
  const std::vector<Workload> jobs = {on_a10("resnet18", 4), unstated, stated};
  const std::vector<Prediction> answers = model.predict(jobs);
  EXPECT_GT(answers[0].time_sec.p50, 0);
  EXPECT_TRUE(has_none(answers[1].time_sec));
  EXPECT_EQ(answers[2].time_sec.p50, model.predict(stated).time_sec.p50);
}

TEST(UnstatedEpoch, AForecastHasThatOfASteps) {
  const TimeRegressor model = TimeRegressor::standard();
  const Workload unstated = on_a10("gpt2", 4);
  Workload one_step = unstated;
  one_step.train_images = 4;
  const JobTerms terms = {.epochs = 3, .price_per_hour = 1, .budget_sec = 60};
  const Forecast job = forecast(model, unstated, terms), step = forecast(model, one_step, terms);
  EXPECT_TRUE(has_none(job.prediction.time_sec));
  EXPECT_TRUE(has_none(job.total_sec));
  EXPECT_FALSE(job.price);
  EXPECT_FALSE(job.epochs_in_budget);
  EXPECT_NEAR(job.step_sec.p50, step.prediction.time_sec.p50, 1e-9 * job.step_sec.p50);
  EXPECT_NEAR(job.images_per_sec.p50, 4 / job.step_sec.p50, 1e-9 * job.images_per_sec.p50);
  EXPECT_NEAR(job.images_per_sec.p05, 4 / job.step_sec.p95, 1e-9 * job.images_per_sec.p50);
  EXPECT_NEAR(job.tokens_per_sec->p50, 4 * 1024 / job.step_sec.p50, 1e-6 * job.tokens_per_sec->p50);
  double sec = 0;
  for (const TimeTerm& term : job.breakdown) sec += term.sec;
  EXPECT_NEAR(sec, job.step_sec.p50, 1e-9 * sec);
  EXPECT_EQ(job.memory->peak_bytes, step.memory->peak_bytes);
}

/// A batch of more samples than the number that keys have is a batch of that size.
TEST(UnstatedEpoch, ABatchMayBeLargerThanTheNumberInTheKey) {
  const TimeRegressor model = TimeRegressor::standard();
  Workload job = on_a10("lstm:layers=1,hidden=64,vocab=100", 60'000), stated = job;
  stated.train_images = 60'000;
  EXPECT_NEAR(forecast(model, job).step_sec.p50 / forecast(model, stated).step_sec.p50, 1, 1e-9);
}

TEST(UnstatedEpoch, MeasuredRowsStateIt) {
  std::vector<AggregateRow> rows;
  for (const std::int64_t batch : {8, 16, 32, 64, 128, 256}) {
    Workload job = Workload::zoo("transformer:layers=2,hidden=64,heads=4,vocab=100", batch, {32});
    job.device = "a device of nobody";
    rows.push_back(testing::row_of(job, 5 + 100 / static_cast<double>(batch)));
  }
  const TimeRegressor model = TimeRegressor::fit(rows);
  EXPECT_TRUE(model.example().knows_epoch());
  EXPECT_GT(forecast(model, with_field(model.example(), "batch_size", "48")).total_sec.p50, 0);
}

TEST(UnstatedEpoch, APlanLeavesTheRowOut) {
  std::vector<AggregateRow> rows(2);
  rows[0].workload = on_a10("resnet18", 64);
  rows[1].workload = on_a10("gpt2", 4);
  PlanRequest request;
  request.value = PlanValue::throughput;
  request.devices = {{"", 100'000}};
  const RunPlan plan = plan_runs(rows, request, TimeRegressor::standard());
  ASSERT_EQ(plan.left_out.size(), 1U);
  EXPECT_EQ(plan.left_out[0].key, rows[1].workload.key());
  EXPECT_EQ(plan.left_out[0].reason,
            "train_images is not stated: network gpt2 has no data that it is usually trained on");
  rows.erase(rows.begin());
  EXPECT_THAT(testing::refusal([&] { (void)plan_runs(rows, request, TimeRegressor::standard()); }),
              HasSubstr("train_images is not stated"));
}

}  // namespace
}  // namespace perfpred
