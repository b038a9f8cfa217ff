// SPDX-License-Identifier: Apache-2.0
// What c_api.h promises, asked through the shared library; the expected answers are those of the C++ library in this
// program and of the programs.
#include <perfpred/aggregator.h>
#include <perfpred/c_api.h>
#include <perfpred/run_plan.h>
#include <perfpred/step_samples.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/spawn.h"
#include "counted_allocations.h"
#include "made_up_rows.h"
#include "sample_runs.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using TextCall = std::function<int(char* buffer, size_t capacity, size_t* needed)>;

/// The whole text that a call gives, asked for twice as c_api.h says.
std::string text_of(const TextCall& call) {
  size_t needed = 0;
  EXPECT_EQ(call(nullptr, 0, &needed), PERFPRED_OK) << perfpred_last_error();
  std::string text(needed, '?');
  EXPECT_EQ(perfpred_last_text(text.data(), text.size(), &needed), PERFPRED_OK);
  EXPECT_EQ(needed, text.size());
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

std::string forecast_of(const perfpred_model* model, const std::string& request) {
  return text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_forecast(model, request.c_str(), buffer, capacity, needed);
  });
}

void expect_refused(int status, const std::string& what, const std::string& type = "InputError") {
  EXPECT_EQ(status, PERFPRED_WRONG_INPUT);
  EXPECT_THAT(perfpred_last_error(), HasSubstr(what));
  EXPECT_EQ(perfpred_last_error_type(), type);
}

/// Models and workloads that are freed when the test ends.
class CApi : public ::testing::Test {
 protected:
  ~CApi() override {
    for (perfpred_model* model : models_) perfpred_model_free(model);
    for (perfpred_workload* workload : workloads_) perfpred_workload_free(workload);
  }

  perfpred_model* standard() {
    perfpred_model* model = nullptr;
    EXPECT_EQ(perfpred_model_load(nullptr, nullptr, &model), PERFPRED_OK) << perfpred_last_error();
    return models_.emplace_back(model);
  }

  [[nodiscard]] std::string table() const {
    write_aggregate(folder_.file("runs_agg.csv"), made_up_rows());
    return folder_.file("runs_agg.csv");
  }

  perfpred_model* fitted(const char* options = nullptr) {
    perfpred_model* model = nullptr;
    EXPECT_EQ(perfpred_model_fit(table().c_str(), options, nullptr, &model), PERFPRED_OK) << perfpred_last_error();
    return models_.emplace_back(model);
  }

  perfpred_workload* workload(const perfpred_model* model, const std::string& fields) {
    perfpred_workload* made = nullptr;
    EXPECT_EQ(perfpred_workload_create(model, fields.c_str(), &made), PERFPRED_OK) << perfpred_last_error();
    return workloads_.emplace_back(made);
  }

  perfpred_workload* of_key(const Workload& of) {
    perfpred_workload* made = nullptr;
    EXPECT_EQ(perfpred_workload_from_key(of.key().c_str(), &made), PERFPRED_OK) << perfpred_last_error();
    return workloads_.emplace_back(made);
  }

  testing::TemporaryFolder folder_;

 private:
  std::vector<perfpred_model*> models_;
  std::vector<perfpred_workload*> workloads_;
};

constexpr const char* resnet = R"({"network": "ResNet-50", "batch_size": 64, "device": "A100-80GB-PCIe",
                                   "precision": "fp16", "train_images": 100000})";

TEST_F(CApi, AForecastIsTheDocumentOfTheProgram) {
  const std::string request = R"({"network": "resnet18", "batch_size": 32, "device": "T4", "input": [3, 64, 64],
                                  "epochs": 3, "price_per_hour": 2.5, "cuda_graph": false, "classes": null})";
  const testing::Finished finished =
      testing::spawn({testing::program("predict"), "--network", "resnet18", "--batch-size", "32", "--device", "T4",
                      "--input", "3x64x64", "--epochs", "3", "--price-per-hour", "2.5", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(forecast_of(standard(), request) + "\n", finished.out);
}

TEST_F(CApi, PredictsWhatTheLibraryPredicts) {
  const TimeRegressor expected = TimeRegressor::fit(made_up_rows());
  const perfpred_model* model = fitted();
  const Workload known = Workload::cifar_cnn(3, 40, 300), far = Workload::cifar_cnn(5, 512, 7);
  for (const Workload& one : {known, far}) {
    double seconds[3] = {0, 0, 0};
    int in_domain = -1;
    ASSERT_EQ(perfpred_predict(model, of_key(one), seconds, &in_domain), PERFPRED_OK) << perfpred_last_error();
    const Prediction answer = expected.predict(one);
    EXPECT_EQ(seconds[0], answer.time_sec.p05);
    EXPECT_EQ(seconds[1], answer.time_sec.p50);
    EXPECT_EQ(seconds[2], answer.time_sec.p95);
    EXPECT_EQ(in_domain, answer.in_domain() ? 1 : 0);
  }
}

TEST_F(CApi, APredictionByRunsAllocatesNothing) {
  for (const char* options : {R"({"kind": "hybrid"})", R"({"kind": "linear"})"}) {
    const perfpred_model* model = fitted(options);
    const perfpred_workload* job = of_key(Workload::cifar_cnn(3, 40, 300));
    double seconds[3] = {0, 0, 0};
    ASSERT_EQ(perfpred_predict(model, job, seconds, nullptr), PERFPRED_OK);
    const long before = allocations.load();
    EXPECT_EQ(perfpred_predict(model, job, seconds, nullptr), PERFPRED_OK);
    EXPECT_EQ(allocations.load(), before) << options;
  }
  const long before = allocations.load();
  EXPECT_NE(fitted(), nullptr);
  EXPECT_GT(allocations.load(), before) << "the library's allocations are not counted";
}

TEST_F(CApi, ArraysHoldWhatSingleCallsGive) {
  const perfpred_model* model = fitted();
  std::vector<double> depths, widths, batches;
  std::vector<const perfpred_workload*> jobs;
  for (int i = 0; i < 700; ++i) {
    depths.push_back(2 + i % 3);
    widths.push_back(16 + i % 40);
    batches.push_back(32 + i);
    jobs.push_back(of_key(Workload::cifar_cnn(2 + i % 3, 16 + i % 40, 32 + i)));
  }
  const std::size_t n = jobs.size();
  std::vector<double> low(n), middle(n), high(n), by_columns(n);
  ASSERT_EQ(perfpred_predict_many(model, jobs.data(), n, low.data(), middle.data(), high.data()), PERFPRED_OK)
      << perfpred_last_error();
  const char* fields[] = {"depth", "base_filters", "batch_size"};
  const double* values[] = {depths.data(), widths.data(), batches.data()};
  ASSERT_EQ(perfpred_predict_columns(model, jobs[0], fields, values, 3, n, nullptr, by_columns.data(), nullptr),
            PERFPRED_OK)
      << perfpred_last_error();
  for (std::size_t i = 0; i < n; ++i) {
    double one[3] = {0, 0, 0};
    ASSERT_EQ(perfpred_predict(model, jobs[i], one, nullptr), PERFPRED_OK);
    EXPECT_NEAR(low[i], one[0], 1e-12 * one[0]);
    EXPECT_NEAR(middle[i], one[1], 1e-12 * one[1]);
    EXPECT_NEAR(high[i], one[2], 1e-12 * one[2]);
    EXPECT_EQ(by_columns[i], middle[i]);
  }
}

TEST_F(CApi, BatchSizesOfTheStandardModelAreThoseOfASweep) {
  const perfpred_model* model = standard();
  const std::vector<double> sizes = {1, 7, 64, 1000, 30000};
  std::vector<double> seconds(sizes.size());
  ASSERT_EQ(perfpred_predict_field(model, workload(model, resnet), "batch_size", sizes.data(), sizes.size(), nullptr,
                                   seconds.data(), nullptr),
            PERFPRED_OK)
      << perfpred_last_error();
  const testing::Finished sweep =
      testing::spawn({testing::program("predict"), "--network", "resnet50", "--device", "A100-80GB-PCIe", "--precision",
                      "fp16", "--train-images", "100000", "--sweep", "batch_size=1,7,64,1000,30000", "--json"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const Json answers = Json::parse(sweep.out);
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(seconds[i], answers.at(i).at("time_sec").at("p50")) << i;
}

Quantiles forecast_sec(const perfpred_model* model, const Json& request) {
  const Json sec = Json::parse(forecast_of(model, request.dump())).at("time_sec");
  return {sec.at("p05"), sec.at("p50"), sec.at("p95")};
}

Quantiles predicted_sec(const perfpred_model* model, const perfpred_workload* job) {
  double seconds[3] = {0, 0, 0};
  EXPECT_EQ(perfpred_predict(model, job, seconds, nullptr), PERFPRED_OK) << perfpred_last_error();
  return {seconds[0], seconds[1], seconds[2]};
}

void expect_near(const Quantiles& got, const Quantiles& expected, double relative) {
  EXPECT_NEAR(got.p05, expected.p05, relative * expected.p05);
  EXPECT_NEAR(got.p50, expected.p50, relative * expected.p50);
  EXPECT_NEAR(got.p95, expected.p95, relative * expected.p95);
}

double width_of(const Quantiles& sec) { return std::log(sec.p95 / sec.p05); }

TEST_F(CApi, OneQuestionHasOneIntervalHoweverItIsAsked) {
  const perfpred_model* model = standard();
  for (const char* text :
       {resnet, R"({"network": "gpt2", "batch_size": 4, "device": "T4", "precision": "fp16", "train_images": 9000})",
        R"({"network": "vgg16", "batch_size": 32, "device": "L4", "layout": "nhwc"})"}) {
    Json request = Json::parse(text);
    request["fit_advice"] = false;
    const perfpred_workload* job = workload(model, text);
    const double batch = request.at("batch_size");
    const Quantiles expected = forecast_sec(model, request);
    expect_near(predicted_sec(model, job), expected, 1e-9);
    perfpred_workload* other = of_key(Workload::zoo("resnet18", 3));
    ASSERT_EQ(perfpred_workload_set(other, "device", "T4"), PERFPRED_OK);
    const perfpred_workload* jobs[] = {other, job};
    double low[2], middle[2], high[2];
    ASSERT_EQ(perfpred_predict_many(model, jobs, 2, low, middle, high), PERFPRED_OK) << perfpred_last_error();
    expect_near({low[1], middle[1], high[1]}, expected, 1e-9);
    ASSERT_EQ(perfpred_predict_field(model, job, "batch_size", &batch, 1, low, middle, high), PERFPRED_OK);
    expect_near({low[0], middle[0], high[0]}, expected, 1e-9);
  }
}

TEST_F(CApi, AFieldIsStatedOnceAnyoneHasSetIt) {
  const perfpred_model* model = standard();
  Json request = Json::parse(resnet);
  request["fit_advice"] = false;
  const Quantiles guessed = forecast_sec(model, request);
  request["compiled"] = false;
  const Quantiles eager = forecast_sec(model, request);
  EXPECT_LT(width_of(eager), 0.98 * width_of(guessed));
  perfpred_workload* job = workload(model, resnet);
  ASSERT_EQ(perfpred_workload_set(job, "compiled", "0"), PERFPRED_OK);
  expect_near(predicted_sec(model, job), eager, 1e-9);
  const double no = 0;
  double low = 0, middle = 0, high = 0;
  ASSERT_EQ(perfpred_predict_field(model, workload(model, resnet), "compiled", &no, 1, &low, &middle, &high),
            PERFPRED_OK);
  expect_near({low, middle, high}, eager, 1e-9);
  const std::string key = text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_workload_key(job, buffer, capacity, needed);
  });
  for (const auto& [field, value] : {std::pair("layout", "nchw"), {"software", "pytorch"}, {"loader", "none"}})
    request[field] = value;
  perfpred_workload* of_key = nullptr;
  ASSERT_EQ(perfpred_workload_from_key(key.c_str(), &of_key), PERFPRED_OK);  // a key states all fields
  expect_near(predicted_sec(model, of_key), forecast_sec(model, request), 1e-9);
  perfpred_workload_free(of_key);
}

/// Half widths of neighbouring batch sizes are alike.
TEST_F(CApi, ArraysOfBatchSizesHaveTheIntervalsOfSingleCalls) {
  const perfpred_model* model = standard();
  const std::vector<double> sizes = {3, 7, 24, 96, 100, 1000, 35e6};  // twice the last is more than any device takes
  std::vector<double> low(sizes.size()), middle(sizes.size()), high(sizes.size());
  ASSERT_EQ(perfpred_predict_field(model, workload(model, resnet), "batch_size", sizes.data(), sizes.size(), low.data(),
                                   middle.data(), high.data()),
            PERFPRED_OK);
  Json request = Json::parse(resnet);
  request["fit_advice"] = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    request["batch_size"] = sizes[i];
    const Quantiles one = forecast_sec(model, request);
    EXPECT_NEAR(middle[i], one.p50, 1e-9 * one.p50);
    EXPECT_NEAR(width_of({low[i], middle[i], high[i]}), width_of(one), 0.02 * width_of(one)) << sizes[i];
  }
}

TEST_F(CApi, TheCallerLearnsWhichOfManyIsWrong) {
  const perfpred_model* model = standard();
  perfpred_workload* job = workload(model, resnet);
  std::vector<double> sizes(300, 8), seconds(300);
  sizes[270] = NAN;
  const auto ask = [&] {
    return perfpred_predict_field(model, job, "batch_size", sizes.data(), sizes.size(), nullptr, seconds.data(),
                                  nullptr);
  };
  expect_refused(ask(), "[270]: batch_size");
  sizes[270] = 1e15;  // a value, but of no device
  expect_refused(ask(), "[270]: ");
  sizes[270] = 0.5;
  expect_refused(ask(), "[270]: batch_size");
  expect_refused(
      perfpred_predict_field(model, job, "network", sizes.data(), sizes.size(), nullptr, seconds.data(), nullptr),
      "network is not a numeric field");
  expect_refused(perfpred_predict_field(model, job, "batch", sizes.data(), 1, nullptr, seconds.data(), nullptr),
                 "batch");
}

std::string job_error(std::size_t index) {
  return text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_job_error(index, buffer, capacity, needed);
  });
}

/// A job of a queue that the model cannot know, one whose handle is gone: the others are answered all the same.
TEST_F(CApi, ABadJobOfManyLeavesTheOthersTheirAnswers) {
  const perfpred_model* model = standard();
  const auto with = [](const char* device, const char* precision) {
    return Json{{"network", "resnet50"}, {"batch_size", 64}, {"device", device}, {"precision", precision}}.dump();
  };
  perfpred_workload* gone = workload(model, resnet);
  perfpred_workload_free(gone);
  const std::vector<const perfpred_workload*> jobs = {
      workload(model, with("T4", "fp16")), workload(model, with("T4", "bf16")), gone, nullptr, workload(model, resnet)};
  const std::vector<double> quantiles = {0.05, 0.5, 0.95};
  double low[5], middle[5], high[5];
  double* const seconds[] = {low, middle, high};
  int statuses[5];
  ASSERT_EQ(perfpred_predict_jobs(model, jobs.data(), 5, quantiles.data(), 3, seconds, statuses), PERFPRED_OK)
      << perfpred_last_error();
  for (const std::size_t i : {0U, 4U}) {
    double one[3];
    ASSERT_EQ(perfpred_predict(model, jobs[i], one, nullptr), PERFPRED_OK);
    EXPECT_EQ(statuses[i], PERFPRED_OK);
    EXPECT_EQ(job_error(i), "");
    EXPECT_NEAR(low[i], one[0], 1e-12 * one[0]);
    EXPECT_NEAR(middle[i], one[1], 1e-12 * one[1]);
    EXPECT_NEAR(high[i], one[2], 1e-12 * one[2]);
  }
  for (const std::size_t i : {1U, 2U, 3U}) {
    EXPECT_EQ(statuses[i], PERFPRED_WRONG_INPUT);
    EXPECT_TRUE(std::isnan(low[i]) && std::isnan(middle[i]) && std::isnan(high[i]));
  }
  EXPECT_THAT(job_error(1), HasSubstr("bf16"));
  EXPECT_THAT(job_error(2), HasSubstr("not open"));
  EXPECT_THAT(job_error(3), HasSubstr("NULL"));
  // Without statuses the call fails, with the place of the first; the answers of the others are there.
  double plain[5] = {0, 0, 0, 0, 0};
  expect_refused(perfpred_predict_many(model, jobs.data(), 5, nullptr, plain, nullptr), "[1]: ");
  EXPECT_EQ(plain[0], middle[0]);
  EXPECT_EQ(plain[4], middle[4]);
  EXPECT_TRUE(std::isnan(plain[1]));
  expect_refused(perfpred_predict_jobs(model, jobs.data(), 5, quantiles.data(), 3, seconds, nullptr), "[1]: ");
  // What is wrong with all fails the call.
  expect_refused(perfpred_predict_jobs(nullptr, jobs.data(), 5, quantiles.data(), 3, seconds, statuses), "model");
  expect_refused(perfpred_predict_jobs(model, jobs.data(), 5, nullptr, 3, seconds, statuses), "quantiles is NULL");
  const double certain = 1;
  expect_refused(perfpred_predict_jobs(model, jobs.data(), 5, &certain, 1, seconds, statuses), "quantile 1 ");
}

TEST_F(CApi, ABadVariantOfManyLeavesTheOthersTheirAnswers) {
  const perfpred_model* model = standard();
  const perfpred_workload* job = workload(model, resnet);
  const char* fields[] = {"batch_size"};
  std::vector<double> sizes(600, 64);
  sizes[0] = NAN;
  sizes[300] = -8;
  sizes[599] = 1e15;
  const double* values[] = {sizes.data()};
  const double quantile = 0.5;
  std::vector<double> median(sizes.size());
  double* const seconds[] = {median.data()};
  std::vector<int> statuses(sizes.size(), -1);
  ASSERT_EQ(
      perfpred_predict_variants(model, job, fields, values, 1, sizes.size(), &quantile, 1, seconds, statuses.data()),
      PERFPRED_OK)
      << perfpred_last_error();
  double expected[3];
  ASSERT_EQ(perfpred_predict(model, job, expected, nullptr), PERFPRED_OK);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool bad = sizes[i] != 64;
    EXPECT_EQ(statuses[i], bad ? PERFPRED_WRONG_INPUT : PERFPRED_OK) << i;
    if (bad) {
      EXPECT_TRUE(std::isnan(median[i])) << i;
    } else {
      EXPECT_NEAR(median[i], expected[1], 1e-12 * expected[1]) << i;
    }
  }
  EXPECT_THAT(job_error(300), HasSubstr("batch_size"));
}

/// median * (p95 / median)^(t(q) / t(0.95)), t from a table of Student's distribution with 4 degrees of freedom (R:
/// qt(q, 4)).
TEST_F(CApi, AQuantileIsAskedForByNumber) {
  const perfpred_model* model = standard();
  const perfpred_workload* job = workload(model, resnet);
  double ends[3], value = 0;
  ASSERT_EQ(perfpred_predict(model, job, ends, nullptr), PERFPRED_OK);
  const double t95 = 2.1318467863266499;
  for (const auto& [q, t] :
       {std::pair(0.99, 3.7469473879791968), {0.999, 7.1731822197823083}, {0.75, 0.7406970841096826}}) {
    ASSERT_EQ(perfpred_predict_quantile(model, job, q, &value), PERFPRED_OK) << perfpred_last_error();
    EXPECT_NEAR(value, ends[1] * std::pow(ends[2] / ends[1], t / t95), 1e-9 * value) << q;
    ASSERT_EQ(perfpred_predict_quantile(model, job, 1 - q, &value), PERFPRED_OK);
    EXPECT_NEAR(value, ends[1] * std::pow(ends[0] / ends[1], t / t95), 1e-9 * value) << q;
  }
  std::size_t i = 0;
  for (const double q : {0.05, 0.5, 0.95}) {
    ASSERT_EQ(perfpred_predict_quantile(model, job, q, &value), PERFPRED_OK);
    EXPECT_EQ(value, ends[i++]) << q;
  }
  for (const double q : {0.0, 1.0, -1.0, 2.0, std::nan("")})
    expect_refused(perfpred_predict_quantile(model, job, q, &value), "quantile");
  expect_refused(perfpred_predict_quantile(model, job, 0.9, nullptr), "seconds is NULL");
}

TEST_F(CApi, AForecastHasTheQuantilesOfTheJob) {
  const perfpred_model* model = standard();
  Json request = Json::parse(resnet);
  request.update({{"epochs", 10}, {"startup_sec", 100}, {"quantiles", {0.95, 0.5, 0.999}}, {"fit_advice", false}});
  const Json answer = Json::parse(forecast_of(model, request.dump()));
  const Json& quantiles = answer.at("quantiles");
  ASSERT_EQ(quantiles.size(), 3);
  EXPECT_EQ(quantiles[0].at("q"), 0.95);
  EXPECT_EQ(quantiles[0].at("total_sec"), answer.at("total_sec").at("p95"));
  EXPECT_EQ(quantiles[0].at("step_sec"), answer.at("step_sec").at("p95"));
  EXPECT_EQ(quantiles[1].at("total_sec"), answer.at("total_sec").at("p50"));
  double epoch = 0;
  ASSERT_EQ(perfpred_predict_quantile(model, workload(model, resnet), 0.999, &epoch), PERFPRED_OK);
  EXPECT_NEAR(quantiles[2].at("total_sec").get<double>(), 100 + 10 * epoch, 1e-9 * epoch);
  request["quantiles"] = 0.99;
  EXPECT_EQ(Json::parse(forecast_of(model, request.dump())).at("quantiles").size(), 1);
  for (const Json& bad : {Json(1), Json("0.99"), Json({0.5, "x"}), Json({{"q", 0.9}})}) {
    request["quantiles"] = bad;
    expect_refused(perfpred_forecast(model, request.dump().c_str(), nullptr, 0, nullptr), "quantile");
  }
}

TEST_F(CApi, RefusesHandlesThatAreNotOpen) {
  perfpred_model* model = nullptr;
  ASSERT_EQ(perfpred_model_load(nullptr, nullptr, &model), PERFPRED_OK);
  const perfpred_workload* job = workload(model, resnet);
  double seconds[3];
  expect_refused(perfpred_predict(nullptr, job, seconds, nullptr), "the model is NULL");
  expect_refused(perfpred_predict(model, nullptr, seconds, nullptr), "the workload is NULL");
  expect_refused(perfpred_predict(reinterpret_cast<const perfpred_model*>(job), job, seconds, nullptr),
                 "the model is not open");
  expect_refused(perfpred_predict(model, job, nullptr, nullptr), "seconds is NULL");
  perfpred_model_free(model);
  expect_refused(perfpred_predict(model, job, seconds, nullptr), "the model is not open");
  expect_refused(perfpred_workload_create(model, resnet, nullptr), "out is NULL");
  perfpred_model_free(model);
  perfpred_model_free(nullptr);
  EXPECT_NE(standard(), model) << "a handle is used once only";
}

TEST_F(CApi, RefusesWhatIsNoRequest) {
  const perfpred_model* model = standard();
  char text[64];
  const auto ask = [&](const char* request) { return perfpred_forecast(model, request, text, sizeof text, nullptr); };
  expect_refused(ask(nullptr), "request is NULL");
  expect_refused(ask("resnet50"), "JSON object");
  expect_refused(ask("[]"), "JSON object");
  expect_refused(ask(R"({"network": {}})"), "network");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": "many", "device": "T4"})"), "batch_size \"many\"");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": [1, "x"], "device": "T4"})"), "batch_size");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": NaN, "device": "T4"})"), "line 1, column 39");
  expect_refused(ask(R"({"batch_size": 1e999})"), "number overflow parsing '1e999' at byte 20");
  expect_refused(ask(R"({"network": "\ud800"})"), "surrogate");
  expect_refused(ask(R"({"batch_size": 8, "device": "T4", "batch_size": 16})"), "\"batch_size\" is there twice");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "epochs": true})"), "epochs \"true\"");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "epochs": [3]})"), "epochs \"[3]\"");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": true, "device": "T4"})"), "batch_size \"true\"");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "prices": {"L4": 1}})"),
                 "prices has no device \"T4\"");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "H100"})"), "H100-NVL-94GB; name one");
  const char* twice[] = {"batch_size", "batch_size"};
  const double size = 8;
  const double* sizes[] = {&size, &size};
  expect_refused(
      perfpred_predict_columns(model, workload(model, resnet), twice, sizes, 2, 1, nullptr, nullptr, nullptr),
      "batch_size is given twice");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "epochs": -1})"), "epochs");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "colour": 1})"), "colour");
  for (const char* name : {"gpus", "nodes", "world_size", "nproc_per_node"}) {
    const std::string request = R"({"network": "resnet50", "batch_size": 8, "device": "T4", ")" + std::string(name);
    expect_refused(ask((request + "\": 8}").c_str()),
                   "several devices are the fields gpus_per_node (8, 1+3, 8x32) and parallel (ddp, fsdp, tp=2,pp=4)");
  }
  expect_refused(ask(R"({"network": "yolov8n", "batch_size": 8, "device": "T4"})"), "perfpred.capture records a step");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "no such"})"), "no such");
  expect_refused(ask(R"({"config": "gone.json", "batch_size": 8, "device": "T4"})"), "gone.json");
  expect_refused(ask(R"({"step": "gone.json", "device": "T4"})"), "gone.json");
  expect_refused(ask(R"({"network": "resnet50", "batch_size": 8, "device": "T4", "accumulate": 4611686018427387904})"),
                 "accumulate 4611686018427387904 is too large");
  expect_refused(ask("{\"network\": \"resnet50\", \"batch_size\": 8, \"device\": \"T4\\u0000\"}"), "is not known");
  std::string long_input = "3";
  for (int i = 0; i < 100'000; ++i) long_input += ",3";
  expect_refused(
      ask((R"({"network": "resnet50", "batch_size": 8, "device": "T4", "input": [)" + long_input + "]}").c_str()),
      "too many sizes");
  EXPECT_LT(std::string(perfpred_last_error()).size(), 200U);
  perfpred_workload* made = nullptr;
  expect_refused(perfpred_workload_create(model, R"({"network": "resnet50", "batch_size": 8, "epochs": 2})", &made),
                 "epochs");
  expect_refused(perfpred_workload_from_key("network=resnet50", &made), "key");
  expect_refused(perfpred_forecast(model, resnet, nullptr, 5, nullptr), "buffer is NULL");
}

TEST_F(CApi, MoreJobsThanMemoryHasAreRefused) {
  const perfpred_model* model = standard();
  const perfpred_workload* job = workload(model, resnet);
  const double size = 8;
  for (const std::size_t count : {SIZE_MAX, SIZE_MAX - 254, SIZE_MAX / 8 + 1}) {
    expect_refused(perfpred_predict_many(model, &job, count, nullptr, nullptr, nullptr), "is more than an array has");
    expect_refused(perfpred_predict_field(model, job, "batch_size", &size, count, nullptr, nullptr, nullptr),
                   "is more than an array has");
  }
}

TEST_F(CApi, RanksLayouts) {
  const perfpred_model* model = standard();
  const auto ask = [&](const std::string& rest) {
    const std::string request =
        R"({"network": "gpt2", "batch_size": 64, "device": "A100-SXM4-80GB", "precision": "bf16")" + rest + "}";
    return text_of([&](char* buffer, std::size_t capacity, std::size_t* needed) {
      return perfpred_layouts(model, request.c_str(), buffer, capacity, needed);
    });
  };
  const Json all = Json::parse(ask(R"(, "gpus": 8, "top": 1000)"));
  EXPECT_EQ(all["space"], all["layouts"].size());
  std::int64_t fit = 0;
  double before = 0;
  for (const Json& one : all["layouts"]) {
    fit += one["verdict"] == "fits" ? 1 : 0;
    if (one["verdict"] != "fits") continue;
    EXPECT_GE(one["step_sec"]["p50"].get<double>(), before);
    before = one["step_sec"]["p50"].get<double>();
  }
  EXPECT_EQ(all["fit"], fit);
  const Json best = Json::parse(ask(R"(, "gpus": 8, "top": 1)"))["layouts"];
  ASSERT_EQ(best.size(), 1U);
  EXPECT_EQ(best.front(), all["layouts"].front());
  char text[16];
  const auto refuse = [&](const char* request, const char* why) {
    expect_refused(perfpred_layouts(model, request, text, sizeof text, nullptr), why);
  };
  refuse(R"({"network": "gpt2", "batch_size": 64, "device": "T4"})", "gpus is missing");
  refuse(R"({"network": "resnet50", "batch_size": 64, "device": "T4", "gpus": 8})", "resnet50 is none");
  refuse(R"({"network": "gpt2", "batch_size": 64, "device": "T4", "gpus": 8, "parallel": "ddp"})",
         "is what is searched for");
  refuse(R"({"network": "gpt2", "batch_size": 7, "device": "T4", "gpus": 13})",
         "no layout of 13 devices divides 7 samples");
}

TEST_F(CApi, AnInspectionIsTheDocumentOfTheProgram) {
  const perfpred_model* model = standard();
  const auto inspected = [&](const std::string& request) {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_inspect(model, request.c_str(), buffer, capacity, needed);
    }));
  };
  const auto of_program = [](std::vector<std::string> options) {
    options.insert(options.begin(), testing::program("inspect"));
    options.emplace_back("--json");
    return testing::answer(options);
  };
  const Json of_resnet = inspected(resnet);
  EXPECT_EQ(of_resnet, of_program({"--network", "resnet50", "--batch-size", "64", "--device", "A100-80GB-PCIe",
                                   "--precision", "fp16", "--layers"}));
  EXPECT_EQ(of_resnet["params"], 25'557'032);  // torchvision's
  EXPECT_EQ(inspected(R"({"network": "gpt2", "optimizer": "adamw", "input": 128})"),
            of_program({"--network", "gpt2", "--optimizer", "adamw", "--input", "128", "--layers"}));
  const std::string ranks = R"({"network": "gpt2", "batch_size": 1, "gpus_per_node": 2, "parallel": "tp=2",
                                "precision": "bf16"})";
  EXPECT_EQ(inspected(ranks), of_program({"--network", "gpt2", "--batch-size", "1", "--gpus-per-node", "2",
                                          "--parallel", "tp=2", "--precision", "bf16"}));
  char text[16];
  const auto refuse = [&](const char* request, const char* why) {
    expect_refused(perfpred_inspect(model, request, text, sizeof text, nullptr), why);
  };
  refuse(R"({"network": "resent50"})", "did you mean resnet50?");
  refuse(R"({"network": "resnet50", "device": "no such card"})", "is not known");
  refuse(R"({"network": "resnet50", "batch_size": 0})", "batch_size");
  refuse(nullptr, "request");
}

TEST_F(CApi, AnInspectionHasTheMemoryOfTheAnswer) {
  for (const char* how : {"\"compiled\": true", "\"software\": \"tensorflow\"", "\"padding\": \"padded\""}) {
    const std::string request =
        R"({"network": "bert_base", "batch_size": 16, "device": "T4", )" + std::string(how) + "}";
    const Json step = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_inspect(standard(), request.c_str(), buffer, capacity, needed);
    }));
    const Json answer = Json::parse(forecast_of(standard(), request));
    EXPECT_EQ(step["memory"]["peak_bytes"], answer["memory_bytes"]) << how;
    EXPECT_EQ(step["device"]["largest_batch"], answer["largest_batch"]) << how;
  }
}

TEST_F(CApi, AnExplanationIsTheDocumentOfTheProgram) {
  const std::string request = R"({"network": "resnet50", "batch_size": 64, "device": "T4", "measured_ms": 500})";
  const Json found = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_explain(standard(), request.c_str(), buffer, capacity, needed);
  }));
  const std::vector<std::string> command = {testing::program("explain"),
                                            "--measured-ms",
                                            "500",
                                            "--network",
                                            "resnet50",
                                            "--batch-size",
                                            "64",
                                            "--device",
                                            "T4"};
  EXPECT_EQ(found, testing::answer(command));
  const std::string text = text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_explanation_text(found.dump().c_str(), buffer, capacity, needed);
  });
  EXPECT_EQ(text, testing::spawn(command).out);
  char buffer[16];
  expect_refused(perfpred_explain(standard(), "{}", buffer, sizeof buffer, nullptr), "one of runs, log, measured_ms");
  expect_refused(perfpred_explain(standard(), R"({"measured_ms": "5"})", buffer, sizeof buffer, nullptr),
                 "measured_ms \"\"5\"\" is not a positive number");
  expect_refused(perfpred_explanation_text("[{}]", buffer, sizeof buffer, nullptr), "this is no explanation");
  expect_refused(perfpred_explanation_text("{", buffer, sizeof buffer, nullptr), "this is no explanation");
}

TEST_F(CApi, AnAnswerHasTheWorkOfItsStep) {
  const Json said = Json::parse(forecast_of(standard(), resnet));
  const Json inspected = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_inspect(standard(), resnet, buffer, capacity, needed);
  }));
  EXPECT_EQ(said["params"], 25'557'032);
  EXPECT_EQ(said["flops"], inspected["flops"]);
}

TEST_F(CApi, ListsNetworksByAWord) {
  const auto names = [](const char* word) {
    std::vector<std::string> found;
    const Json document = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_networks(word, buffer, capacity, needed);
    }));
    for (const Json& network : document.at("networks")) {
      EXPECT_GT(network.at("params"), 0) << network;
      EXPECT_TRUE(network.contains("input") && network.contains("classes") && network.contains("hub"));
      found.push_back(network.at("name"));
    }
    return found;
  };
  const std::vector<std::string> all = names(nullptr);
  EXPECT_GT(all.size(), 100U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_THAT(names("ResNeXt"),
              ::testing::IsSupersetOf({"resnext101_32x4d", "resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d",
                                       "seresnext50_32x4d"}));  // the last: recorded
  EXPECT_EQ(names("meta-llama/Llama-3.1-8B-Instruct"), std::vector<std::string>{"llama3.1_8b"});
  EXPECT_EQ(names("bert-base-uncased"), (std::vector<std::string>{"bert_base", "distilbert_base"}));
  expect_refused(perfpred_networks("resent50", nullptr, 0, nullptr), "did you mean resnet50?");
  expect_refused(perfpred_networks("-", nullptr, 0, nullptr), "is not known");
}

TEST_F(CApi, AGpuOfAllComputesInThePrecision) {
  const perfpred_model* model = standard();
  const auto gpus = [&](const char* precision) {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
             return perfpred_model_gpus(model, precision, buffer, capacity, needed);
           }))
        .at("devices")
        .get<std::set<std::string>>();
  };
  EXPECT_TRUE(gpus("fp16").contains("T4"));
  EXPECT_FALSE(gpus("bf16").contains("T4"));  // Turing has no bf16
  EXPECT_TRUE(gpus("bf16").contains("RTX 3090"));
  EXPECT_EQ(gpus(nullptr), gpus("fp32"));
  expect_refused(perfpred_model_gpus(model, "fp17", nullptr, 0, nullptr), "fp17");
}

TEST_F(CApi, TakesWhatPyTorchAndTrainersWrite) {
  const perfpred_model* model = standard();
  const std::string job =
      R"({"network": "gpt2", "batch_size": 2, "input": 64, "device": "RTX 3090", "fit_advice": 0, )";
  const auto key = [&](const std::string& rest) {
    return Json::parse(forecast_of(model, job + rest + "}")).at("key").get<std::string>();
  };
  for (const auto& [other, word] :
       std::vector<std::pair<std::string, std::string>>{{"AdamW", "adamw"},
                                                        {"torch.optim.AdamW", "adamw"},
                                                        {"adamw_torch_fused", "adamw"},
                                                        {"SGD", "sgd"},
                                                        {"adamw_bnb_8bit", "adamw8bit"},
                                                        {"paged_adamw_8bit", "paged_adamw8bit"},
                                                        {"RMSprop", "rmsprop"}}) {
    EXPECT_THAT(key(R"("optimizer": ")" + other + R"(")"), HasSubstr(";optimizer=" + word + ";")) << other;
  }
  EXPECT_THAT(key(R"("precision": "torch.bfloat16")"), HasSubstr(";precision=bf16;"));
  EXPECT_THAT(key(R"("checkpoint": true)"), HasSubstr(";checkpoint=all"));
  EXPECT_EQ(key(R"("checkpoint": false)"), key(R"("accumulate": 1)"));
  EXPECT_EQ(forecast_of(model, job + R"("reserved_by_others": "1.5 GB"})"),
            forecast_of(model, job + R"("reserved_by_others": 1500000000})"));
  EXPECT_EQ(forecast_of(model, job + R"("reserved_by_others": "2GiB"})"),
            forecast_of(model, job + R"("reserved_by_others": 2147483648})"));
  char text[16];
  const auto refuse = [&](const std::string& rest, const char* why) {
    expect_refused(perfpred_forecast(model, (job + rest + "}").c_str(), text, sizeof text, nullptr), why);
  };
  refuse(R"("reserved_by_others": "2 GPUs")", "a size in bytes such as 1500MB or 2GiB");
  refuse(R"("reserved_by_others": "1e300TB")", "a size in bytes such as 1500MB or 2GiB");
  refuse(R"("reserved_by_others": "1.2.3GB")", "a size in bytes such as 1500MB or 2GiB");
  refuse(R"("optimizer": "AdamZ")", "is not one of");
  refuse(R"("gpu": "T4")", "it is device");
  refuse(R"("dtype": "bf16")", "it is precision");
  refuse(R"("bs": 8)", "it is batch_size");
  refuse(R"("seq_len": 8)", "it is input");
  refuse(R"("steps": 8)", "it is train_images");
}

TEST_F(CApi, AForecastHasTheIdOfItsRequest) {
  const perfpred_model* model = standard();
  const std::string asked = R"({"network": "resnet50", "batch_size": 8, "device": "T4", "id": )";
  EXPECT_EQ(Json::parse(forecast_of(model, asked + "[7, \"a\"]}")).at("id"), (Json{7, "a"}));
  EXPECT_FALSE(
      Json::parse(forecast_of(model, R"({"network": "resnet50", "batch_size": 8, "device": "T4"})")).contains("id"));
}

TEST_F(CApi, ATextThatDoesNotFitIsCutOff) {
  const perfpred_model* model = standard();
  const std::string whole = forecast_of(model, resnet);
  std::string cut(10, '?');
  size_t needed = 0;
  ASSERT_EQ(perfpred_forecast(model, resnet, cut.data(), 6, &needed), PERFPRED_OK);
  EXPECT_EQ(needed, whole.size() + 1);
  EXPECT_EQ(cut, whole.substr(0, 5) + '\0' + "????");
}

TEST_F(CApi, SavesWhatItLoads) {
  const perfpred_model* model = fitted();
  const std::string file = folder_.file("model.json");
  ASSERT_EQ(perfpred_model_save(model, file.c_str()), PERFPRED_OK) << perfpred_last_error();
  const TimeRegressor expected = TimeRegressor::load(file);
  double seconds[3];
  const Workload job = Workload::cifar_cnn(2, 20, 100);
  ASSERT_EQ(perfpred_predict(model, of_key(job), seconds, nullptr), PERFPRED_OK);
  EXPECT_EQ(seconds[1], expected.predict(job).time_sec.p50);
  const Json info = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_model_info(model, buffer, capacity, needed);
  }));
  EXPECT_EQ(info.at("kind"), "hybrid");
  EXPECT_EQ(info.at("rows"), made_up_rows().size());
  EXPECT_EQ(info.at("networks"), Json({"cifar_cnn"}));
}

TEST_F(CApi, RefusesModelsOfAnotherVersion) {
  const std::string file = folder_.file("model.json");
  ASSERT_EQ(perfpred_model_save(fitted(), file.c_str()), PERFPRED_OK);
  Json document = Json::parse(testing::slurp(file));
  document["format"] = document["format"].get<int>() + 1;
  perfpred_model* model = nullptr;
  expect_refused(perfpred_model_load(folder_.write("new.json", document.dump()).c_str(), nullptr, &model), "format",
                 "ModelError");
  expect_refused(perfpred_model_load(folder_.write("bad.json", "{").c_str(), nullptr, &model), "bad.json",
                 "ModelError");
  std::filesystem::remove(file);
  expect_refused(perfpred_model_load(file.c_str(), nullptr, &model), "model.json");
  expect_refused(perfpred_model_fit(file.c_str(), nullptr, nullptr, &model), "model.json");
  expect_refused(perfpred_model_fit(table().c_str(), R"({"kind": "guess"})", nullptr, &model), "guess");
  expect_refused(perfpred_model_fit(table().c_str(), R"({"sort": "linear"})", nullptr, &model), "sort");
  EXPECT_EQ(perfpred_model_save(fitted(), "/no/such/folder/model.json"), PERFPRED_WRONG_INPUT);
}

TEST_F(CApi, AReloadedModelKeepsItsHandle) {
  const std::string file = folder_.file("model.json");
  ASSERT_EQ(perfpred_model_save(fitted(), file.c_str()), PERFPRED_OK);
  perfpred_model* model = fitted(R"({"kind": "linear"})");
  const perfpred_workload* job = of_key(Workload::cifar_cnn(3, 40, 300));
  double before[3], kept[3], after[3];
  ASSERT_EQ(perfpred_predict(model, job, before, nullptr), PERFPRED_OK);
  expect_refused(perfpred_model_reload(model, "no.json"), "no.json");
  expect_refused(perfpred_model_reload(model, folder_.write("bad.json", "{").c_str()), "bad.json", "ModelError");
  ASSERT_EQ(perfpred_predict(model, job, kept, nullptr), PERFPRED_OK) << "a failed reload keeps the model";
  EXPECT_EQ(kept[1], before[1]);
  ASSERT_EQ(perfpred_model_reload(model, file.c_str()), PERFPRED_OK) << perfpred_last_error();
  ASSERT_EQ(perfpred_predict(model, job, after, nullptr), PERFPRED_OK);
  EXPECT_EQ(after[1], TimeRegressor::load(file).predict(Workload::cifar_cnn(3, 40, 300)).time_sec.p50);
  EXPECT_NE(after[1], before[1]);
  ASSERT_EQ(perfpred_model_reload(model, nullptr), PERFPRED_OK) << "NULL is the standard model";
  EXPECT_EQ(Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
              return perfpred_model_info(model, buffer, capacity, needed);
            })).at("rows"),
            0);
  perfpred_model_free(model);
  expect_refused(perfpred_model_reload(model, file.c_str()), "not open");
}

TEST_F(CApi, AReloadedModelKnowsTheDevicesOfItsCatalogue) {
  const std::string devices = folder_.write("own.csv", "name,fp32_tflops,mem_bw_gbs,mem_gb\nMyCard,20,500,16\n");
  perfpred_catalogue* catalogue = nullptr;
  ASSERT_EQ(perfpred_catalogue_create(devices.c_str(), &catalogue), PERFPRED_OK) << perfpred_last_error();
  perfpred_model* model = nullptr;
  ASSERT_EQ(perfpred_model_load(nullptr, catalogue, &model), PERFPRED_OK);
  perfpred_catalogue_free(catalogue);
  const perfpred_workload* job =
      workload(model, R"({"network": "resnet18", "batch_size": 32, "device": "MyCard", "precision": "fp32"})");
  double before[3], after[3];
  ASSERT_EQ(perfpred_predict(model, job, before, nullptr), PERFPRED_OK) << perfpred_last_error();
  ASSERT_EQ(perfpred_model_reload(model, nullptr), PERFPRED_OK);
  ASSERT_EQ(perfpred_predict(model, job, after, nullptr), PERFPRED_OK) << perfpred_last_error();
  EXPECT_EQ(after[1], before[1]);
  perfpred_model_free(model);
}

TEST_F(CApi, AFitLeavesOutWhatTheProgramLeavesOut) {
  std::vector<AggregateRow> rows = made_up_rows();
  const std::size_t usable = rows.size();
  rows.push_back(rows.front());
  rows.back().workload.network = "nonet";
  const std::string file = folder_.file("some.csv");
  write_aggregate(file, rows);
  perfpred_model* model = nullptr;
  static std::vector<std::string> notes;
  notes.clear();
  perfpred_set_note_callback([](const char* line) { notes.emplace_back(line); });
  EXPECT_EQ(perfpred_model_fit(file.c_str(), nullptr, nullptr, &model), PERFPRED_OK) << perfpred_last_error();
  perfpred_set_note_callback(nullptr);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_THAT(notes.front(), HasSubstr("some.csv:" + std::to_string(usable + 2) + ": "));
  EXPECT_THAT(notes.front(), HasSubstr("nonet"));
  const Json info = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_model_info(model, buffer, capacity, needed);
  }));
  EXPECT_EQ(info.at("rows"), usable);
  ASSERT_EQ(info.at("dropped").size(), 1);
  EXPECT_THAT(info.at("dropped").at(0).at("key").get<std::string>(), HasSubstr("network=nonet"));
  perfpred_model_free(model);
  write_aggregate(file, {rows.back()});
  expect_refused(perfpred_model_fit(file.c_str(), nullptr, nullptr, &model), "nonet");
}

TEST_F(CApi, LearnsFromObservedRuns) {
  perfpred_model* model = fitted();
  const Workload job = Workload::cifar_cnn(3, 33, 200);
  const perfpred_workload* asked = of_key(job);
  double before[3], after[3];
  ASSERT_EQ(perfpred_predict(model, asked, before, nullptr), PERFPRED_OK);
  const std::string runs = folder_.write("runs.csv", testing::csv_of({run_of(job, before[1] * 1.005)}));
  const auto observe = [&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_model_observe(model, runs.c_str(), buffer, capacity, needed);
  };
  EXPECT_EQ(Json::parse(text_of(observe)), Json({{"observed", 1}, {"set_aside", Json::array()}}));
  ASSERT_EQ(perfpred_predict(model, asked, after, nullptr), PERFPRED_OK);
  EXPECT_GT(after[1], before[1]);
  EXPECT_EQ(Json::parse(text_of(observe)).at("set_aside").at(0).at("reason"), "already observed");
  std::filesystem::remove(runs);
  expect_refused(observe(nullptr, 0, nullptr), "runs.csv");
}

/// What a scheduler has of a job that is done.
TEST_F(CApi, LearnsFromKeysAndSecondsInMemory) {
  perfpred_model* model = fitted();
  const Workload job = run_of(Workload::cifar_cnn(3, 33, 200), 1).workload;
  const perfpred_workload* asked = of_key(job);
  double before[3], after[3];
  ASSERT_EQ(perfpred_predict(model, asked, before, nullptr), PERFPRED_OK);
  const std::string rows = "key,timestamp_utc,epochs,seconds,outcome\n" + job.key() + ",2026-01-01T00:00:00Z,10," +
                           std::to_string(before[1] * 10.05) + ",ok\n" + job.key() + ",2026-01-02T00:00:00Z,10,,oom\n";
  const auto observe = [&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_model_observe_text(model, rows.data(), rows.size(), buffer, capacity, needed);
  };
  const Json done = Json::parse(text_of(observe));
  EXPECT_EQ(done.at("observed"), 1);
  ASSERT_EQ(done.at("set_aside").size(), 1);
  EXPECT_EQ(done.at("set_aside").at(0).at("reason"), "oom");
  ASSERT_EQ(perfpred_predict(model, asked, after, nullptr), PERFPRED_OK);
  EXPECT_GT(after[1], before[1]);
  EXPECT_EQ(Json::parse(text_of(observe)).at("observed"), 0) << "already observed";
  expect_refused(perfpred_model_observe_text(model, "key,outcome\n", 12, nullptr, 0, nullptr),
                 "runs:1: column \"avg_time_sec\" is missing");
  expect_refused(perfpred_model_observe_text(model, nullptr, 0, nullptr, 0, nullptr), "text is NULL");
}

TEST_F(CApi, CorrectsAModelFile) {
  const std::string file = folder_.file("model.json"), other = folder_.file("other.json");
  perfpred_model* model = fitted();
  ASSERT_EQ(perfpred_model_save(model, file.c_str()), PERFPRED_OK);
  const Workload job = Workload::cifar_cnn(3, 33, 200);
  double expected[3];
  ASSERT_EQ(perfpred_predict(model, of_key(job), expected, nullptr), PERFPRED_OK);
  const std::string runs = folder_.write("runs.csv", testing::csv_of({run_of(job, expected[1] * 1.005)}));
  const auto observe = [&](const char* out) {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_observe_file(file.c_str(), runs.c_str(), out, nullptr, buffer, capacity, needed);
    }));
  };
  EXPECT_EQ(observe(other.c_str()), Json({{"observed", 1}, {"set_aside", Json::array()}}));
  EXPECT_TRUE(TimeRegressor::load(other).was_fitted_on(run_of(job, 1).workload));
  EXPECT_EQ(observe(nullptr).at("observed"), 1);  // the file itself was left as it was
  EXPECT_EQ(observe(nullptr).at("set_aside").at(0).at("reason"), "already observed");
  expect_refused(perfpred_observe_file(nullptr, runs.c_str(), nullptr, nullptr, nullptr, 0, nullptr), "path");
  expect_refused(perfpred_observe_file(file.c_str(), "no.csv", nullptr, nullptr, nullptr, 0, nullptr), "no.csv");
}

TEST_F(CApi, AggregatesAndPlans) {
  const std::string runs = folder_.write(
      "runs.csv", testing::csv_of({testing::run_of_epochs({9, 1, 1.01}), testing::run_of_epochs({9, 1, 2})}));
  const std::string out = folder_.file("agg.csv");
  const std::string options = Json({{"runs", runs}, {"out", out}}).dump();
  const Json aggregated = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
    return perfpred_aggregate(options.c_str(), buffer, capacity, needed);
  }));
  EXPECT_EQ(aggregated.at("runs"), 2);
  EXPECT_EQ(aggregated.at("rejected").size(), 1);
  EXPECT_EQ(read_aggregate(out).size(), 1);

  std::vector<AggregateRow> rows = made_up_rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].acc_mean = 0.5 + 0.01 * static_cast<double>(i % 7);
    rows[i].acc_std = 0;
  }
  write_aggregate(folder_.file("plan_rows.csv"), rows);
  const Json asked = {{"runs_agg", folder_.file("plan_rows.csv")}, {"budget_sec", "1:00:00"}, {"epochs", 20}};
  perfpred_plan* plan = nullptr;
  ASSERT_EQ(perfpred_plan_create(asked.dump().c_str(), nullptr, &plan), PERFPRED_OK) << perfpred_last_error();
  const testing::Finished finished =
      testing::spawn({testing::program("plan"), "--runs-agg", folder_.file("plan_rows.csv"), "--budget-sec", "3600",
                      "--epochs", "20", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(text_of([&](char* buffer, size_t capacity, size_t* needed) {
              return perfpred_plan_text(plan, buffer, capacity, needed);
            }) + "\n",
            finished.out);
  size_t n = 0;
  ASSERT_EQ(perfpred_plan_size(plan, &n), PERFPRED_OK);
  const Json items = Json::parse(finished.out).at("items");
  ASSERT_EQ(n, items.size());
  ASSERT_GT(n, 0);
  std::vector<std::int64_t> cost(n), start(n);
  std::vector<double> value(n);
  ASSERT_EQ(perfpred_plan_columns(plan, cost.data(), value.data(), start.data()), PERFPRED_OK);
  EXPECT_EQ(cost.back(), items.back().at("cost_sec"));
  EXPECT_EQ(value.back(), items.back().at("value"));
  EXPECT_EQ(start.back(), items.back().at("start_sec"));
  perfpred_workload* run = nullptr;
  ASSERT_EQ(perfpred_plan_workload(plan, n - 1, &run), PERFPRED_OK);
  EXPECT_EQ(text_of([&](char* buffer, size_t capacity, size_t* needed) {
              return perfpred_workload_key(run, buffer, capacity, needed);
            }),
            items.back().at("key"));
  perfpred_workload_free(run);
  expect_refused(perfpred_plan_workload(plan, n, &run), "of a plan with");
  perfpred_plan_free(plan);

  ASSERT_EQ(perfpred_plan_create(asked.dump().c_str(), fitted(), &plan), PERFPRED_OK) << perfpred_last_error();
  perfpred_plan_free(plan);
  expect_refused(perfpred_plan_create(R"({"runs_agg": "x.csv"})", nullptr, &plan), "budget_sec is missing");
  expect_refused(perfpred_plan_create(R"({"budget_sec": 1, "epochs": 1, "speed": 1})", nullptr, &plan), "speed");
  expect_refused(perfpred_plan_create(R"({"budget_sec": 1, "epochs": true})", nullptr, &plan), "epochs \"true\"");
  EXPECT_EQ(
      perfpred_plan_create(
          Json({{"runs_agg", folder_.file("plan_rows.csv")}, {"budget_sec", 3600}, {"epochs", 20}, {"min_acc", 0.99}})
              .dump()
              .c_str(),
          nullptr, &plan),
      PERFPRED_FAILED);
  EXPECT_THAT(perfpred_last_error(), HasSubstr("0.56"));
}

TEST_F(CApi, AggregatesTheLogsOfOtherSoftware) {
  const auto log = [](const char* name) { return std::string(PERFPRED_SOURCE_DIR) + "/tests/data/logs/" + name; };
  const Json facts = {{"network", "resnet18"}, {"batch_size", 32}, {"train_images", 512}, {"optimizer", "sgd"},
                      {"precision", "fp32"},   {"device", "T4"},   {"env", "ours"}};
  Json options = facts;
  options["from"] = log("keras.csv");
  options["runs_out"] = folder_.file("keras_runs.csv");
  options["out"] = folder_.file("keras_agg.csv");
  const auto aggregate = [&](const Json& asked) {
    return [text = asked.dump()](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_aggregate(text.c_str(), buffer, capacity, needed);
    };
  };
  EXPECT_EQ(Json::parse(text_of(aggregate(options))).at("runs"), 1);
  const std::vector<AggregateRow> rows = read_aggregate(folder_.file("keras_agg.csv"));
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].workload.network, "resnet18");
  const auto runs = read_runs(folder_.file("keras_runs.csv"));
  ASSERT_EQ(runs.size(), 1);
  EXPECT_NEAR(*runs[0].avg_time_sec, 0.40778273799999926, 1e-12);
  EXPECT_EQ(runs[0].env, "ours");
  options.erase("from");
  expect_refused(aggregate(options)(nullptr, 0, nullptr), "is for logs (from)");
  options = facts;
  options["from"] = log("keras.csv");
  options["counted"] = "images";
  expect_refused(aggregate(options)(nullptr, 0, nullptr), "counted \"images\" is not steps or epochs");
  options.erase("counted");
  options["colour"] = 1;
  expect_refused(aggregate(options)(nullptr, 0, nullptr), "colour");
}

TEST_F(CApi, PlansFromMemory) {
  const Json columns = {{"network", {"resnet50", "resnet18"}},
                        {"batch_size", {64, 32}},
                        {"value", {2, 1}},
                        {"id", {"a", nullptr}},
                        {"count", {2, 1}},
                        {"epochs", {1, 2}}};
  const Json asked = {{"rows", columns}, {"devices", {"T4", "T4"}}, {"budget_sec", {{"T4", "1-00:00:00"}}}};
  perfpred_plan* plan = nullptr;
  ASSERT_EQ(perfpred_plan_create(asked.dump().c_str(), standard(), &plan), PERFPRED_OK) << perfpred_last_error();
  size_t n = 0;
  ASSERT_EQ(perfpred_plan_size(plan, &n), PERFPRED_OK);
  ASSERT_EQ(n, 3);
  std::vector<size_t> device(n);
  ASSERT_EQ(perfpred_plan_devices(plan, device.data()), PERFPRED_OK);
  EXPECT_THAT(device, ::testing::Each(::testing::Lt(2U)));
  EXPECT_EQ(text_of([&](char* buffer, size_t capacity, size_t* needed) {
              return perfpred_plan_device_name(plan, 1, buffer, capacity, needed);
            }),
            "T4 #2");
  expect_refused(perfpred_plan_device_name(plan, 2, nullptr, 0, nullptr), "device 2 of a plan with 2 devices");
  double value = 0, bound = 0;
  int optimal = 0;
  ASSERT_EQ(perfpred_plan_bound(plan, &value, &bound, &optimal), PERFPRED_OK);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(bound, 5);
  EXPECT_EQ(optimal, 1);
  ASSERT_EQ(perfpred_plan_bound(plan, nullptr, nullptr, nullptr), PERFPRED_OK);
  const auto document = [&] {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_plan_text(plan, buffer, capacity, needed);
    }));
  };
  const Json of_columns = document();
  perfpred_plan_free(plan);
  Json as_text = asked;
  as_text["rows"] = "network,batch_size,value,id,count,epochs\nresnet50,64,2,a,2,1\nresnet18,32,1,,1,2\n";
  ASSERT_EQ(perfpred_plan_create(as_text.dump().c_str(), standard(), &plan), PERFPRED_OK) << perfpred_last_error();
  EXPECT_EQ(document(), of_columns);
  perfpred_plan_free(plan);
  const auto refused = [&](const char* name, const Json& value_of, const char* what) {
    Json changed = asked;
    changed[name] = value_of;
    expect_refused(perfpred_plan_create(changed.dump().c_str(), standard(), &plan), what);
  };
  refused("rows", {{"network", {"resnet50"}}, {"batch_size", {1, 2}}}, "has 1 values, those before 2");
  refused("rows", {{"network", "resnet50"}}, "the column \"network\" is not a list");
  refused("rows", 7, "rows is neither the text of a table nor an object of columns");
  refused("rows", "network\nnonet\n", "rows:2: ");
  refused("runs_agg", "x.csv", "runs_agg and rows are both given");
  refused("budget_sec", {{"L4", 1}}, "budget_sec of \"L4\": the plan has no such device");
}

TEST_F(CApi, PlansWorkloadsByAModelAtThePricesOfDevices) {
  perfpred_plan* plan = nullptr;
  const std::string table =
      folder_.write("workloads.csv", "network,batch_size,device\nresnet18,32,T4\nresnet50,32,L4\n");
  Json by_model = {{"runs_agg", table}, {"budget_sec", 1e6}, {"epochs", 1}, {"value", "thr"}};
  expect_refused(perfpred_plan_create(by_model.dump().c_str(), nullptr, &plan), "column \"depth\" is missing");
  const auto planned = [&](const Json& prices) {
    by_model["prices"] = prices;
    EXPECT_EQ(perfpred_plan_create(by_model.dump().c_str(), standard(), &plan), PERFPRED_OK) << perfpred_last_error();
    Json document = Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_plan_text(plan, buffer, capacity, needed);
    }));
    perfpred_plan_free(plan);
    return document;
  };
  const Json of_object = planned({{"T4", 0.4}, {"L4", 0.8}});
  double price = 0;
  for (const Json& run : of_object.at("items"))
    price += run.at("cost_sec").get<double>() * (run.at("device") == "T4" ? 0.4 : 0.8) / 3600;
  EXPECT_EQ(of_object.at("items").size(), 2);
  EXPECT_DOUBLE_EQ(of_object.at("price").get<double>(), price);
  EXPECT_EQ(planned(folder_.write("prices.csv", "device,price_per_hour\nT4,0.4\nL4,0.8\n")), of_object);
  const auto refused = [&](const Json& prices, const char* why) {
    by_model["prices"] = prices;
    expect_refused(perfpred_plan_create(by_model.dump().c_str(), standard(), &plan), why);
  };
  refused({{"T4", "cheap"}}, "that of \"T4\" is not a number");
  refused({{"no such", 1}}, "device \"no such\" is not known");
  refused(3, "prices 3 is neither");

  // A forecast takes them, too: an hour's price of its seconds.
  const Json job = Json::parse(
      forecast_of(standard(), R"({"network": "resnet18", "batch_size": 32, "device": "T4", "prices": {"T4": 0.4}})"));
  EXPECT_DOUBLE_EQ(job.at("price").at("p50").get<double>(), job.at("total_sec").at("p50").get<double>() * 0.4 / 3600);
}

TEST_F(CApi, WorkloadsTakeFieldsAndFiles) {
  const perfpred_model* model = standard();
  perfpred_workload* job = workload(model, resnet);
  const auto key = [&] {
    return text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_workload_key(job, buffer, capacity, needed);
    });
  };
  EXPECT_THAT(key(), HasSubstr("network=resnet50;depth=;base_filters=;batch_size=64;input=3x224x224"));
  ASSERT_EQ(perfpred_workload_set(job, "batch_size", "128"), PERFPRED_OK);
  EXPECT_THAT(key(), HasSubstr("batch_size=128"));
  expect_refused(perfpred_workload_set(job, "batch_size", "0"), "batch_size");
  expect_refused(perfpred_workload_set(job, "colour", "1"), "colour");
  EXPECT_THAT(key(), HasSubstr("batch_size=128"));
  std::int64_t params = 0;
  EXPECT_EQ(perfpred_workload_params(job, &params), PERFPRED_OK);
  EXPECT_EQ(params, 25'557'032);  // torchvision's table of models
  EXPECT_EQ(perfpred_workload_params(job, nullptr), PERFPRED_WRONG_INPUT);
  const std::string config = std::string(PERFPRED_SOURCE_DIR) + "/tests/data/transformers/bert.json";
  const Json answer = Json::parse(
      forecast_of(model, Json({{"config", config}, {"batch_size", 4}, {"input", 128}, {"device", "T4"}}).dump()));
  EXPECT_THAT(answer.at("key").get<std::string>(), HasSubstr("network=config:"));
}

TEST_F(CApi, DevicesAreTheCatalogue) {
  const std::string own = folder_.write("own.csv", "name,kind,mem_gb,fp32_tflops,mem_bw_gbs\nMy Card,gpu,10,20,500\n");
  perfpred_catalogue* catalogue = nullptr;
  ASSERT_EQ(perfpred_catalogue_create(own.c_str(), &catalogue), PERFPRED_OK) << perfpred_last_error();
  const auto devices = [&](const char* name) {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_catalogue_devices(catalogue, name, buffer, capacity, needed);
    }));
  };
  EXPECT_GT(devices(nullptr).at("devices").size(), 50);
  EXPECT_EQ(devices("my card").at("devices").at(0).at("mem_bw_gbs"), 500);
  expect_refused(perfpred_catalogue_devices(catalogue, "no such", nullptr, 0, nullptr), "no such");
  perfpred_model* model = nullptr;
  ASSERT_EQ(perfpred_model_load(nullptr, catalogue, &model), PERFPRED_OK);
  perfpred_catalogue_free(catalogue);
  EXPECT_THAT(forecast_of(model, R"({"network": "resnet18", "batch_size": 8, "device": "My Card"})"),
              HasSubstr("My Card"));
  perfpred_model_free(model);
  expect_refused(perfpred_catalogue_create("gone.csv", &catalogue), "gone.csv");
}

TEST_F(CApi, AnEpochThatNobodyStatedHasNoTime) {
  perfpred_model* model = standard();
  perfpred_workload* job = workload(model, R"({"network": "gpt2", "batch_size": 4, "device": "T4"})");
  double seconds[3] = {0, 0, 0};
  int in_domain = -1;
  EXPECT_EQ(perfpred_predict(model, job, seconds, &in_domain), PERFPRED_UNSTATED);
  EXPECT_STREQ(perfpred_last_error(),
               "train_images is not stated: network gpt2 has no data that it is usually trained on");
  for (const double sec : seconds) EXPECT_TRUE(std::isnan(sec));
  EXPECT_NE(in_domain, -1);
  const double sizes[2] = {1, 2}, images[2] = {100, 200};
  double expected[2] = {0, 0};
  EXPECT_EQ(perfpred_predict_field(model, job, "batch_size", sizes, 2, nullptr, expected, nullptr), PERFPRED_UNSTATED);
  EXPECT_THAT(perfpred_last_error(), HasSubstr("[0]: train_images is not stated"));
  for (const double sec : expected) EXPECT_TRUE(std::isnan(sec));
  EXPECT_EQ(perfpred_predict_field(model, job, "train_images", images, 2, nullptr, expected, nullptr), PERFPRED_OK);
  EXPECT_NEAR(expected[1] / expected[0], 2, 1e-6);
  EXPECT_EQ(perfpred_workload_set(job, "train_images", "50000"), PERFPRED_OK);
  EXPECT_EQ(perfpred_predict(model, job, seconds, &in_domain), PERFPRED_OK) << perfpred_last_error();
  const Json answer = Json::parse(forecast_of(model, R"({"network": "gpt2", "batch_size": 4, "device": "T4"})"));
  EXPECT_TRUE(answer.at("time_sec").is_null());
  EXPECT_NEAR(seconds[1], 12'500 * answer.at("step_sec").at("p50").get<double>(), 1e-6 * seconds[1]);
}

TEST_F(CApi, ShowsAnAnswerAsTheProgramPrintsIt) {
  const std::string request = R"({"network": "gpt2", "batch_size": 8, "device": "T4", "train_images": 1000,
                                  "padding": "packed", "input": 256, "epochs": 3, "quantiles": [0.99]})";
  const testing::Finished finished = testing::spawn(
      {testing::program("predict"), "--network", "gpt2", "--batch-size", "8", "--device", "T4", "--train-images",
       "1000", "--padding", "packed", "--input", "256", "--epochs", "3", "--quantile", "0.99"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto text = [](const std::string& answers) {
    return text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_answer_text(answers.c_str(), buffer, capacity, needed);
    });
  };
  const Json answer = Json::parse(forecast_of(standard(), request));
  EXPECT_EQ(text(answer.dump()), std::regex_replace(finished.out, std::regex("say --([a-z]+) and"), "say $1= and"));

  const Json table = {{"fields", {"device", "batch_size"}},
                      {"values", Json::parse(R"([["T4", "8"], ["T5", "16"]])")},
                      {"answers", {answer, {{"key", nullptr}, {"error", "no such device"}}}}};
  std::istringstream lines(text(table.dump()));
  std::string head, first, second;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_THAT(head, ::testing::StartsWith("device  batch_size  epoch s"));
  EXPECT_THAT(first, ::testing::StartsWith("    T4           8  "));
  EXPECT_EQ(second, "    T5          16  no such device");

  expect_refused(perfpred_answer_text("{}", nullptr, 0, nullptr), "this is no answer");
  expect_refused(perfpred_answer_text(R"({"fields": ["a"], "values": [], "answers": [{}]})", nullptr, 0, nullptr),
                 "values are not a list for each answer");
  Json other = answer;
  other["provenance"] = "guess";
  expect_refused(perfpred_answer_text(other.dump().c_str(), nullptr, 0, nullptr), "guess");
}

TEST_F(CApi, SamplesMakeTheLabelThatTheLibraryMakes) {
  const auto label = [](perfpred_samples* samples, int ended) {
    return Json::parse(text_of([&](char* buffer, size_t capacity, size_t* needed) {
      return perfpred_samples_label(samples, ended, buffer, capacity, needed);
    }));
  };
  StepSamplesOptions options;
  options.limit_sec = 100;
  StepSamples expected(options);
  perfpred_samples* samples = nullptr;
  ASSERT_EQ(perfpred_samples_create(100, &samples), PERFPRED_OK) << perfpred_last_error();
  int finished = 0;
  for (int i = 0; i < 1000 && finished == 0; ++i) {
    const double sec = (i < 4 ? 0.2 : 0.01) * (1 + 0.001 * (i * i % 7));
    const int disturbed = i % 10 == 9 ? 1 : 0;
    expected.add(sec, disturbed == 1);
    ASSERT_EQ(perfpred_samples_add(samples, &sec, &disturbed, 1, &finished), PERFPRED_OK);
    ASSERT_EQ(finished == 1, expected.finished());
  }
  const StepLabel want = expected.label();
  const Json found = label(samples, 0);
  EXPECT_EQ(found.at("median"), want.median);
  EXPECT_EQ(found.at("mean_rel_sem"), want.mean_rel_sem);
  EXPECT_EQ(found.at("warmup"), 4);
  EXPECT_EQ(found.at("discarded"), want.discarded);
  EXPECT_EQ(found.at("stopped_by"), "interval");
  perfpred_samples_free(samples);
  expect_refused(perfpred_samples_add(samples, nullptr, nullptr, 0, &finished), "not open");

  ASSERT_EQ(perfpred_samples_create(100, &samples), PERFPRED_OK);
  const double few[3] = {1, 2, 3};
  ASSERT_EQ(perfpred_samples_add(samples, few, nullptr, 1, nullptr), PERFPRED_OK);
  EXPECT_TRUE(label(samples, 0).at("mean_rel_sem").is_null());
  EXPECT_EQ(perfpred_samples_label(samples, 1, nullptr, 0, nullptr), PERFPRED_FAILED);
  EXPECT_THAT(perfpred_last_error(), HasSubstr("1 steps were timed, where 3 are needed"));
  ASSERT_EQ(perfpred_samples_add(samples, few + 1, nullptr, 2, nullptr), PERFPRED_OK);
  EXPECT_EQ(label(samples, 1).at("stopped_by"), "limit");
  EXPECT_EQ(label(samples, 1).at("median"), 2);
  perfpred_samples_free(samples);
  expect_refused(perfpred_samples_create(0, &samples), "positive");
}

TEST_F(CApi, NamesEveryFieldWithItsWordsAndWhatItIsWhereNobodySaysIt) {
  const Json fields = Json::parse(text_of(perfpred_fields)).at("fields");
  perfpred_model* model = standard();
  perfpred_workload* job = workload(model, R"({"network": "resnet18", "batch_size": 8, "device": "T4"})");
  const std::string key = ";" + text_of([&](char* buffer, size_t capacity, size_t* needed) {
                            return perfpred_workload_key(job, buffer, capacity, needed);
                          }) +
                          ";";
  std::set<std::string> names;
  for (const Json& field : fields) {
    const std::string name = field.at("name");
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(field.at("meaning").get<std::string>().empty()) << name;
    if (field.at("of") != "workload") continue;
    const bool is_in_key = key.find(";" + name + "=") != std::string::npos;
    if (is_in_key && !field.at("default").is_null()) {
      EXPECT_THAT(key, HasSubstr(";" + name + "=" + field.at("default").get<std::string>() + ";"));
    }
    if (field.at("type") != "word") continue;
    EXPECT_GE(field.at("words").size(), 2U) << name;
    for (const Json& word : field.at("words")) {
      perfpred_workload* said =
          workload(model, R"({"network": "gpt2", "batch_size": 8, "device": "T4", "adapter": "lora:r=16"})");
      EXPECT_EQ(perfpred_workload_set(said, name.c_str(), word.get<std::string>().c_str()), PERFPRED_OK)
          << perfpred_last_error();
    }
    expect_refused(perfpred_workload_set(job, name.c_str(), "no such word"), "no such word");
  }
  for (const char* name : {"network", "checkpoint", "config", "step", "epochs", "prices", "quantiles", "fit_advice"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace perfpred
