// SPDX-License-Identifier: Apache-2.0
#include "statistics/moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace perfpred {
namespace {

Moments of(const std::vector<double>& values) {
  Moments moments;
  for (const double value : values) moments.add(value);
  return moments;
}

TEST(Moments, TextbookValues) {
  const Moments moments = of({2, 4, 4, 4, 5, 5, 7, 9});  // mean 5, sum of squared deviations 32
  EXPECT_EQ(moments.n, 8);
  EXPECT_DOUBLE_EQ(moments.mean(), 5);
  EXPECT_DOUBLE_EQ(moments.deviation(), std::sqrt(32.0 / 7));
  EXPECT_EQ(moments.min, 2);
  EXPECT_EQ(moments.max, 9);
}

TEST(Moments, OneValueIsItselfWithoutDeviation) {
  const Moments moments = of({0.1});
  EXPECT_EQ(moments.mean(), 0.1);
  EXPECT_EQ(moments.deviation(), 0);
}

TEST(Moments, EqualValuesDoNotDeviate) {
  const Moments moments = of(std::vector<double>(1000, 1.1331833323929459));
  EXPECT_EQ(moments.mean(), 1.1331833323929459);
  EXPECT_EQ(moments.deviation(), 0);
}

// NIST StRD "NumAcc4": 1001 values around 1e7, mean 10000000.2, standard deviation 0.1, where sums of squares in double
// precision keep two digits.
TEST(Moments, NistNumAcc4) {
  std::vector<double> values = {10000000.2};
  for (int i = 0; i < 500; ++i) values.insert(values.end(), {10000000.1, 10000000.3});
  const Moments moments = of(values);
  EXPECT_NEAR(moments.mean(), 10000000.2, 1e-8);
  EXPECT_NEAR(moments.deviation(), 0.1, 1e-9);  // the values themselves are rounded to 2e-9
}

TEST(Moments, PartsMergeToTheSameInAnyOrder) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) values.push_back(1 + 1e-7 * std::generate_canonical<double, 53>(random));
  long double mean = 0;
  for (const double value : values) mean += static_cast<long double>(value) / 5000;
  long double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto deviation = static_cast<double>(std::sqrt(squares / 4999));
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<Moments> parts(7);
    for (const double value : values) parts[random() % parts.size()].add(value);
    Moments whole;
    for (const Moments& part : parts) whole.merge(part);
    EXPECT_NEAR(whole.mean(), static_cast<double>(mean), 1e-12);
    EXPECT_NEAR(whole.deviation() / deviation, 1, 1e-12);
  }
}

TEST(Moments, NothingMergesToNothing) {
  Moments moments;
  moments.merge(Moments());
  EXPECT_EQ(moments.n, 0);
  moments.merge(of({3}));
  EXPECT_EQ(moments.min, 3);
  EXPECT_EQ(moments.max, 3);
}

}  // namespace
}  // namespace perfpred
