// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <perfpred/aggregator.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sample_runs.h"

namespace perfpred::testing {

/// Runs of a few workloads with noise, repeats, disturbed and failed ones.
inline std::vector<Run> many_runs(int n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.0065);
  std::vector<Run> runs;
  for (int i = 0; i < n; ++i) {
    const auto batch = std::int64_t{32} << (random() % 6);
    Run run = run_of_epochs({9, noise(random), noise(random), noise(random) * (random() % 10 == 0 ? 2 : 1)}, batch);
    run.test_acc = std::generate_canonical<double, 53>(random);
    if (random() % 20 == 0) run.outcome = Outcome::untrusted;
    if (batch == 1024) {
      run = run_without_time(Outcome::oom);
      run.workload.batch_size = batch;
    }
    if (batch == 512) run.outcome = Outcome::interrupted;
    run.timestamp_utc = "run " + std::to_string(i);
    runs.push_back(run);
  }
  return runs;
}

inline std::vector<RejectedRun> rejected_of(const Aggregator& aggregator) {
  std::vector<RejectedRun> rejected;
  aggregator.for_each_rejected([&rejected](const RejectedRun& run) { rejected.push_back(run); });
  return rejected;
}

inline constexpr std::optional<double> AggregateRow::*figures[] = {
    &AggregateRow::avg_time_mean, &AggregateRow::avg_time_std, &AggregateRow::thr_mean,     &AggregateRow::thr_std,
    &AggregateRow::acc_mean,      &AggregateRow::acc_std,      &AggregateRow::epoch_rel_sem};

inline void expect_close(const std::vector<AggregateRow>& a, const std::vector<AggregateRow>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    AggregateRow same = b[i];
    for (const auto figure : figures) {
      ASSERT_EQ((a[i].*figure).has_value(), (b[i].*figure).has_value());
      if (a[i].*figure) {
        ASSERT_NEAR(*(a[i].*figure), *(b[i].*figure), relative * std::abs(*(b[i].*figure)));
      }
      same.*figure = a[i].*figure;
    }
    ASSERT_EQ(a[i], same);
  }
}

}  // namespace perfpred::testing
