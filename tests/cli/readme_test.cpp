// SPDX-License-Identifier: Apache-2.0
// The program of README.md, with a model of rows that were measured on one machine.
#include <perfpred/aggregator.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "spawn.h"

namespace perfpred {
namespace {

TEST(Readme, ItsProgramAnswersInsideTheDomain) {
  const testing::TemporaryFolder folder;
  const auto rows = read_aggregate(PERFPRED_SOURCE_DIR "/data/intel_xeon_processor_2_threads/runs_agg.csv");
  TimeRegressor::fit(rows).save(folder.file("model.json"));
  const testing::Finished finished =
      testing::spawn({"/bin/sh", "-c", "cd " + folder.path() + " && " PERFPRED_BIN_DIR "/../tests/readme_program"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, ::testing::Not(::testing::HasSubstr("outside")));
  double p50 = 0, p05 = 0, p95 = 0;
  ASSERT_EQ(std::sscanf(finished.out.c_str(), "%lf s an epoch, 90 %% interval %lf to %lf s", &p50, &p05, &p95), 3)
      << finished.out;
  EXPECT_LT(p95, 4 * p05);  // outside the domain it is 9 or more
  for (const AggregateRow& row : rows) {
    const Workload& measured = row.workload;
    if (measured.depth() != 3 || measured.base_filters() != 32 || measured.batch_size != 256) continue;
    EXPECT_GT(p50, *row.avg_time_mean / 1.5);
    EXPECT_LT(p50, *row.avg_time_mean * 1.5);
  }
}

}  // namespace
}  // namespace perfpred
