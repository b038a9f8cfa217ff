// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "statistics/quantiles.h"

namespace perfpred {
namespace {

TEST(Quantiles, Median) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1}), 2.5);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({9, 1, 5, 4, 2, 100}), 4.5);
  EXPECT_EQ(median({2, 2, 2, 1}), 2);
}

// The textbook example of the nearest rank: 15, 20, 35, 40, 50 has the percentiles 5 -> 15, 30 -> 20, 40 -> 20, 50 ->
// 35, 100 -> 50.
TEST(Quantiles, NearestRank) {
  const std::vector<double> values = {35, 20, 15, 50, 40};
  EXPECT_EQ(quantile(values, 0), 15);
  EXPECT_EQ(quantile(values, 0.05), 15);
  EXPECT_EQ(quantile(values, 0.3), 20);
  EXPECT_EQ(quantile(values, 0.4), 20);
  EXPECT_EQ(quantile(values, 0.5), 35);
  EXPECT_EQ(quantile(values, 1), 50);
}

}  // namespace
}  // namespace perfpred
