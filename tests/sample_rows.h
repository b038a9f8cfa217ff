// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of runs_agg.csv made up for tests.
#include <perfpred/aggregator.h>

#include <optional>

namespace perfpred::testing {

/// One run of this workload.
inline AggregateRow row_of(const Workload& workload, double sec, std::optional<double> acc = {}) {
  AggregateRow row;
  row.workload = workload;
  row.params = workload.params();
  row.n = 1;
  row.steps_per_epoch = workload.steps_per_epoch();
  row.avg_time_mean = sec;
  row.thr_mean = static_cast<double>(workload.train_images) / sec;
  row.avg_time_std = row.thr_std = 0;
  row.acc_mean = acc;
  if (acc) row.acc_std = 0;
  return row;
}

}  // namespace perfpred::testing
