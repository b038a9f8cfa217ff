// SPDX-License-Identifier: Apache-2.0
// Readers of a model while another thread changes it: what the thread sanitizer is for.
#include <perfpred/time_regressor.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "made_up_rows.h"
#include "model/published.h"

namespace perfpred {
namespace {

TEST(Published, ReadersSeeWholeValuesAndOldOnesAreDeleted) {
  struct Value {
    long first = 0, second = 0;
    std::atomic<int>* alive;
    Value(long number, std::atomic<int>* count) : first(number), second(number), alive(count) { ++*alive; }
    Value(const Value&) = delete;
    Value& operator=(const Value&) = delete;
    ~Value() {
      first = -1;
      --*alive;
    }
  };
  std::atomic<int> alive{0};
  {
    Published<Value> published(std::make_unique<const Value>(0, &alive));
    std::atomic<bool> stop{false};
    std::atomic<long> torn{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 6; ++t) {
      readers.emplace_back([&] {
        long last = 0;
        while (!stop) {
          const auto value = published.read();
          if (value->first != value->second || value->first < last) ++torn;
          last = value->first;
        }
      });
    }
    for (long i = 1; i <= 300; ++i) {
      published.replace(std::make_unique<const Value>(i, &alive));
      EXPECT_EQ(alive.load(), 1);
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(torn.load(), 0);
    EXPECT_EQ(published.read()->second, 300);
  }
  EXPECT_EQ(alive.load(), 0);
}

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
