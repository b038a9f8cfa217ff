// SPDX-License-Identifier: Apache-2.0
#include "statistics/confidence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace perfpred {
namespace {

// The table of every textbook, two-sided 90 % and 95 %.
TEST(StudentQuantile, IsThatOfTheTables) {
  struct Row {
    double freedom, t90, t95;
  };
  for (const Row& row : {Row{1, 6.314, 12.706}, Row{2, 2.920, 4.303}, Row{3, 2.353, 3.182}, Row{4, 2.132, 2.776},
                         Row{5, 2.015, 2.571}, Row{7, 1.895, 2.365}, Row{10, 1.812, 2.228}, Row{30, 1.697, 2.042},
                         Row{120, 1.658, 1.980}, Row{1e9, 1.645, 1.960}}) {
    EXPECT_NEAR(student_quantile(z90, row.freedom), row.t90, 6e-4) << row.freedom;
    EXPECT_NEAR(student_quantile(z95, row.freedom), row.t95, 6e-4) << row.freedom;
  }
}

TEST(StudentQuantile, TakesPartsOfADegree) {
  // By numerical integration.
  EXPECT_NEAR(student_quantile(z95, 1.5), 6.016, 1e-3);
  EXPECT_NEAR(student_quantile(z95, 2.5), 3.574, 1e-3);
}

TEST(NormalQuantile, IsThatOfTheTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  EXPECT_NEAR(normal_quantile(0.9), 1.2815515655446004, 1e-14);
  EXPECT_NEAR(normal_quantile(0.95), z90, 1e-14);
  EXPECT_NEAR(normal_quantile(0.975), z95, 1e-14);
  EXPECT_NEAR(normal_quantile(0.99), 2.3263478740408408, 1e-14);
  for (const double p : {0.51, 0.999, 1 - 1e-9}) {
    EXPECT_NEAR(std::erfc(normal_quantile(p) / std::sqrt(2.0)) / 2, 1 - p, 1e-12 * (1 - p) + 1e-16) << p;
  }
}

}  // namespace
}  // namespace perfpred
