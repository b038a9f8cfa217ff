// SPDX-License-Identifier: Apache-2.0
#include "statistics/confidence.h"

#include <gtest/gtest.h>

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

TEST(StudentQuantile, FallsWithEveryPartOfADegree) {
  for (double freedom = 1; freedom < 40; freedom += 0.25) {
    EXPECT_LT(student_quantile(z95, freedom + 0.25), student_quantile(z95, freedom)) << freedom;
  }
  // Numerical integration: 1.5 and 2.5 degrees.
  EXPECT_NEAR(student_quantile(z95, 1.5), 6.016, 0.03 * 6.016);
  EXPECT_NEAR(student_quantile(z95, 2.5), 3.574, 0.03 * 3.574);
}

}  // namespace
}  // namespace perfpred
