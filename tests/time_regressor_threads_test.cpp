// SPDX-License-Identifier: Apache-2.0
// Readers of a model while another thread changes it: what the thread sanitizer is for.
#include <perfpred/time_regressor.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "made_up_rows.h"

namespace perfpred {
namespace {

TEST(TimeRegressor, PredictsWhileAnotherThreadObserves) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  std::atomic<bool> stop{false};
  std::atomic<long> bad{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 8; ++t) {
    readers.emplace_back([&, t] {
      while (!stop) {
        const Prediction prediction = model.predict(Workload::cifar_cnn(2 + t % 3, 32, 100 + t));
        if (!(prediction.time_sec.p50 > 0)) ++bad;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const Workload workload = Workload::cifar_cnn(3, 32, 100 + 10 * i);
    EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(workload, made_up_time(workload, 0))}).empty());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(bad.load(), 0);
}

}  // namespace
}  // namespace perfpred
