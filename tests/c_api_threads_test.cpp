// SPDX-License-Identifier: Apache-2.0
// Threads on one handle of the C interface: what the thread sanitizer is for.
#include <perfpred/c_api.h>

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "made_up_rows.h"
#include "sample_runs.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

TEST(CApiThreads, AskOneModelWhileAnotherObserves) {
  const testing::TemporaryFolder folder;
  write_aggregate(folder.file("runs_agg.csv"), made_up_rows());
  perfpred_model* model = nullptr;
  ASSERT_EQ(perfpred_model_fit(folder.file("runs_agg.csv").c_str(), nullptr, nullptr, &model), PERFPRED_OK);
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      const std::string fields = R"({"depth": 3, "base_filters": 32, "batch_size": )" + std::to_string(100 + t) + "}";
      while (!stop) {
        perfpred_workload* job = nullptr;
        double seconds[3] = {0, 0, 0};
        if (perfpred_workload_create(model, fields.c_str(), &job) != PERFPRED_OK) ++bad;
        if (perfpred_predict(model, job, seconds, nullptr) != PERFPRED_OK || !(seconds[1] > 0)) ++bad;
        const double sizes[2] = {32, 64};
        if (perfpred_predict_field(model, job, "batch_size", sizes, 2, nullptr, seconds, nullptr) != PERFPRED_OK) ++bad;
        if (perfpred_forecast(model, fields.c_str(), nullptr, 0, nullptr) != PERFPRED_OK) ++bad;
        perfpred_workload_free(job);
        if (perfpred_predict(model, job, seconds, nullptr) != PERFPRED_WRONG_INPUT) ++bad;
      }
    });
  }
  for (int i = 0; i < 8; ++i) {
    const Workload workload = Workload::cifar_cnn(3, 32, 100 + 10 * i);
    const std::string runs = folder.write("runs.csv", testing::csv_of({run_of(workload, made_up_time(workload, 0))}));
    EXPECT_EQ(perfpred_model_observe(model, runs.c_str(), nullptr, 0, nullptr), PERFPRED_OK) << perfpred_last_error();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(bad.load(), 0);
  perfpred_model_free(model);
}

/// Every answer is that of the one model or of the other.
TEST(CApiThreads, AskAModelThatIsReloaded) {
  const testing::TemporaryFolder folder;
  write_aggregate(folder.file("runs_agg.csv"), made_up_rows());
  perfpred_model *hybrid = nullptr, *linear = nullptr, *model = nullptr;
  ASSERT_EQ(perfpred_model_fit(folder.file("runs_agg.csv").c_str(), nullptr, nullptr, &hybrid), PERFPRED_OK);
  ASSERT_EQ(perfpred_model_fit(folder.file("runs_agg.csv").c_str(), R"({"kind": "linear"})", nullptr, &linear),
            PERFPRED_OK);
  perfpred_workload* job = nullptr;
  ASSERT_EQ(perfpred_workload_from_key(Workload::cifar_cnn(3, 40, 300).key().c_str(), &job), PERFPRED_OK);
  double of_hybrid[3], of_linear[3];
  ASSERT_EQ(perfpred_predict(hybrid, job, of_hybrid, nullptr), PERFPRED_OK);
  ASSERT_EQ(perfpred_predict(linear, job, of_linear, nullptr), PERFPRED_OK);
  const std::string files[] = {folder.file("hybrid.json"), folder.file("linear.json")};
  ASSERT_EQ(perfpred_model_save(hybrid, files[0].c_str()), PERFPRED_OK);
  ASSERT_EQ(perfpred_model_save(linear, files[1].c_str()), PERFPRED_OK);
  ASSERT_EQ(perfpred_model_load(files[0].c_str(), nullptr, &model), PERFPRED_OK);
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        double seconds[3] = {0, 0, 0};
        if (perfpred_predict(model, job, seconds, nullptr) != PERFPRED_OK) ++bad;
        if (seconds[1] != of_hybrid[1] && seconds[1] != of_linear[1]) ++bad;
        perfpred_workload* made = nullptr;
        if (perfpred_workload_create(model, R"({"depth": 3, "base_filters": 32, "batch_size": 64})", &made) !=
            PERFPRED_OK) {
          ++bad;
        }
        perfpred_workload_free(made);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(perfpred_model_reload(model, files[(i + 1) % 2].c_str()), PERFPRED_OK) << perfpred_last_error();
    EXPECT_EQ(perfpred_model_reload(model, "no.json"), PERFPRED_WRONG_INPUT);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(bad.load(), 0);
  for (perfpred_model* one : {hybrid, linear, model}) perfpred_model_free(one);
  perfpred_workload_free(job);
}

/// A handle that goes during a call stays alive until the call is done.
TEST(CApiThreads, FreeAModelThatOthersAsk) {
  std::atomic<int> bad{0};
  for (int round = 0; round < 20; ++round) {
    perfpred_model* model = nullptr;
    ASSERT_EQ(perfpred_model_load(nullptr, nullptr, &model), PERFPRED_OK);
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
      readers.emplace_back([&, model] {
        const int status =
            perfpred_forecast(model, R"({"network": "alexnet", "batch_size": 8, "device": "T4", "fit_advice": false})",
                              nullptr, 0, nullptr);
        if (status != PERFPRED_OK && status != PERFPRED_WRONG_INPUT) ++bad;
      });
    }
    perfpred_model_free(model);
    for (std::thread& reader : readers) reader.join();
  }
  EXPECT_EQ(bad.load(), 0);
}

}  // namespace
}  // namespace perfpred
