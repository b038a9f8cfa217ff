// SPDX-License-Identifier: Apache-2.0
// What a fit learns, rejects and refuses.
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stop_token>

#include "ann_of_one_answer.h"
#include "child_process.h"
#include "made_up_rows.h"
#include "model/hybrid/hybrid.h"
#include "model/hybrid/hybrid_model.h"
#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TimeRegressor, LinearIsOrdinaryLeastSquares) {
  // One architecture, steps = images / batch exactly: log time on log2 batch is a line with a known slope.
  std::vector<AggregateRow> rows;
  for (const int batch : {20, 40, 100, 200, 500, 1000}) {
    rows.push_back(testing::row_of(Workload::cifar_cnn(2, 16, batch), 3.0 * std::pow(batch, -0.7)));
  }
  const TimeRegressor model = TimeRegressor::fit(rows, {.kind = "linear", .seed = 0});
  EXPECT_NEAR(model.predict(Workload::cifar_cnn(2, 16, 250)).time_sec.p50, 3.0 * std::pow(250, -0.7), 1e-9);
}

TEST(TimeRegressor, MemoryGrowsWithTheRowsAndNotWithTheirSquare) {
  if (testing::is_sanitized) GTEST_SKIP() << "sanitizers reserve address space";
  const auto fit_many = [] {
    std::vector<AggregateRow> rows;
    for (int i = 0; i < 20'000; ++i) {  // the square has 3.2 GB
      const Workload workload = Workload::cifar_cnn(1 + i % 5, 8 + i % 89, 1 + i);
      rows.push_back(testing::row_of(workload, 1.0 + i % 7));
    }
    return testing::leave_address_space(500) && TimeRegressor::fit(rows, {.kind = "linear"}).kind() == "linear" ? 0 : 1;
  };
  EXPECT_EQ(testing::exit_code_of(fit_many), 0);
}

TEST(TimeRegressor, DropsABadLabelAndSaysSo) {
  std::vector<AggregateRow> rows = made_up_rows();
  const double good = *rows[17].avg_time_mean;
  rows[17].avg_time_mean = 1.5 * good;
  const TimeRegressor model = TimeRegressor::fit(rows);
  ASSERT_EQ(model.dropped().size(), 1U);
  EXPECT_EQ(model.dropped()[0].key, rows[17].workload.key());
  EXPECT_THAT(model.dropped()[0].reason, ::testing::HasSubstr("standard deviations"));
  EXPECT_NEAR(model.predict(rows[17].workload).time_sec.p50 / good, 1, 0.03);
}

TEST(TimeRegressor, DropsBadLabelsOutsideTheSampleToo) {
  std::vector<AggregateRow> rows;
  for (const int batch : {32, 40, 48, 64, 96, 128, 200, 256, 320, 512, 700, 1024}) {
    for (const AggregateRow& one : made_up_rows(0.005, static_cast<std::uint64_t>(batch))) {
      if (one.workload.batch_size != 32) continue;
      AggregateRow& row = rows.emplace_back(one);
      row.workload.batch_size = batch;
      row.avg_time_mean = *one.avg_time_mean / made_up_time(one.workload, 0) * made_up_time(row.workload, 0);
    }
  }
  std::set<std::string> bad;
  for (std::size_t i = 5; i < rows.size(); i += 17) {
    rows[i].avg_time_mean = *rows[i].avg_time_mean * 1.4;
    bad.insert(rows[i].workload.key());
  }
  HybridConstants constants;
  constants.search_rows = 50;  // of 108
  std::set<std::string> dropped;
  for (const RejectedRun& row : fit_hybrid({rows, {}}, constants)->dropped()) dropped.insert(row.key);
  EXPECT_EQ(dropped, bad);
}

TEST(TimeRegressor, AWideLabelCountsLittle) {
  std::vector<AggregateRow> rows = made_up_rows();
  for (AggregateRow& row : rows) row.epoch_rel_sem = 0.002;
  AggregateRow& off = rows[17];
  const double good = *off.avg_time_mean;
  const auto predict = [&] { return TimeRegressor::fit(rows).predict(off.workload).time_sec; };
  off.avg_time_mean = 1.2 * good;
  EXPECT_EQ(TimeRegressor::fit(rows).dropped().size(), 1U);
  off.epoch_rel_sem = 0.1;
  EXPECT_TRUE(TimeRegressor::fit(rows).dropped().empty());
  EXPECT_NEAR(predict().p50 / good, 1, 0.02);
  // The same by what its runs show, where they are flagged.
  off.epoch_rel_sem = 0.002;
  off.n = 3;
  off.avg_time_std = 0.3 * good;
  off.flags.disagree = true;
  EXPECT_TRUE(TimeRegressor::fit(rows).dropped().empty());
  EXPECT_NEAR(predict().p50 / good, 1, 0.03);
}

TEST(TimeRegressor, RowsOfOneKeyArePooled) {
  std::vector<AggregateRow> rows = made_up_rows(0);
  rows.push_back(rows[3]);
  rows.back().env = "container";
  rows.back().n = 3;
  rows.back().avg_time_mean = 1.008 * *rows[3].avg_time_mean;
  const std::vector<AggregateRow> fitted = TimeRegressor::fit(rows).fitted_rows();
  EXPECT_EQ(fitted.size(), rows.size() - 1);
  for (const AggregateRow& row : fitted) {
    if (row.workload != rows[3].workload) continue;
    EXPECT_EQ(row.n, 4);
    EXPECT_NEAR(*row.avg_time_mean / *rows[3].avg_time_mean, 1.006, 1e-12);
  }
}

TEST(TimeRegressor, AFitShowsProgressAndCanBeStopped) {
  std::vector<double> shares;
  FitOptions options;
  std::stop_source stop;
  options.stop = stop.get_token();
  options.progress = [&](double share) { shares.push_back(share); };
  (void)TimeRegressor::fit(made_up_rows(), options);
  ASSERT_GT(shares.size(), 5U);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GE(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  options.progress = [&](double share) {
    if (share > 0.3) stop.request_stop();
    EXPECT_LT(share, 0.9);
  };
  EXPECT_THAT([&] { (void)TimeRegressor::fit(made_up_rows(), options); },
              ::testing::ThrowsMessage<Error>("the fit was stopped"));
  options.kind = "linear";
  EXPECT_THAT([&] { (void)TimeRegressor::fit(made_up_rows(), options); },
              ::testing::ThrowsMessage<Error>("the fit was stopped"));
}

TEST(TimeRegressor, OnlyKindsThatChooseByValidationRowsKeepThemOutOfTheFit) {
  const AnnOfOneAnswer ann;
  for (const auto& [kind, uses] : {std::pair("hybrid", false), std::pair("linear", false), std::pair("ann", true)})
    EXPECT_EQ(TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0}).uses_validation(), uses) << kind;
}

TEST(TimeRegressor, EpochsShowTheNoiseUntilRepeatsDo) {
  const auto run_noise = [](std::optional<double> epoch_rel_sem, bool repeated) {
    const std::vector<AggregateRow> all = made_up_rows(0.03);
    std::vector<AggregateRow> rows;  // so few that they do not show the noise themselves
    for (std::size_t i = 1; i < all.size(); i += 3) {
      rows.push_back(all[i]);
      rows.back().epoch_rel_sem = epoch_rel_sem;
      if (repeated && i % 2 == 0) {
        rows.back().n = 2;
        rows.back().avg_time_std = 0.005 * *rows.back().avg_time_mean;
      }
    }
    const auto model = fit_hybrid({rows, {}}, {});
    return std::sqrt(dynamic_cast<const HybridModel&>(*model).kernel.noise2());
  };
  EXPECT_GT(run_noise(0.03, false), 2 * run_noise(std::nullopt, false));
  EXPECT_EQ(run_noise(0.001, false), run_noise(std::nullopt, false)) << "runs differ by more than their epochs";
  EXPECT_EQ(run_noise(0.03, true), run_noise(std::nullopt, true)) << "repeats tell it directly";
}

TEST(TimeRegressor, IntervalsCoverLabelsOfWhichManyAreWide) {
  // A third of the labels are wide, and known to be. Asked for: new labels of the same kind.
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int covered = 0, asked = 0;
  for (int draw = 0; draw < 6; ++draw) {
    const auto labels = [&] {
      std::vector<AggregateRow> rows = made_up_rows(0.005, random());
      for (AggregateRow& row : rows) row.epoch_rel_sem = 0.005;
      for (std::size_t i = 0; i < rows.size(); i += 3) {
        rows[i].avg_time_mean = *rows[i].avg_time_mean * std::exp(0.08 * normal(random));
        rows[i].epoch_rel_sem = 0.08;
      }
      return rows;
    };
    const TimeRegressor model = TimeRegressor::fit(labels());
    for (const AggregateRow& row : labels()) {
      const Quantiles time = model.predict(row.workload).time_sec;
      covered += time.p05 <= *row.avg_time_mean && *row.avg_time_mean <= time.p95 ? 1 : 0;
      ++asked;
    }
  }
  EXPECT_GT(covered, asked * 85 / 100) << covered << " of " << asked;
}

TEST(TimeRegressor, RefusesWhatCannotBeFitted) {
  std::vector<AggregateRow> rows = made_up_rows();
  EXPECT_THROW((void)TimeRegressor::fit({}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(std::span(rows).first(4)), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(rows, {.kind = "magic", .seed = 0}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(std::span(rows).first(2), {.kind = "linear", .seed = 0}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(rows, {.kind = "ann", .seed = 0}), Error);  // this test links no LibTorch
  rows.push_back(rows[5]);
  for (const double sec : {-5.0, 0.0, std::nan(""), HUGE_VAL}) {  // also where another row has the same key
    rows.back().avg_time_mean = sec;
    EXPECT_THROW((void)TimeRegressor::fit(rows), InputError) << sec;
  }
  rows.pop_back();
  for (const double sem : {-0.1, std::nan(""), HUGE_VAL}) {
    rows[3].epoch_rel_sem = sem;
    EXPECT_THROW((void)TimeRegressor::fit(rows), InputError) << sem;
  }
  rows[3].epoch_rel_sem.reset();
  for (const double deviation : {-0.1, std::nan(""), HUGE_VAL}) {
    rows[3].avg_time_std = deviation;
    EXPECT_THAT(testing::refusal([&] { (void)TimeRegressor::fit(rows); }),
                AllOf(StartsWith(rows[3].workload.key()), HasSubstr("avg_time_std")));
  }
  rows[3].avg_time_std = 0;
  rows[3].avg_time_mean = NAN;
  EXPECT_THROW((void)TimeRegressor::fit(rows), InputError);
}

TEST(TimeRegressor, RefusesAGroupThatIsAllForValidation) {
  const AnnOfOneAnswer ann;
  const std::vector<AggregateRow> rows = made_up_rows();
  const std::vector<AggregateRow> val = as_group(rows, 1, [](Workload& w) { w.device = "b", w.threads = 2; });
  for (const char* kind : {"ann", "boosting"}) {
    EXPECT_THAT(
        [&] { (void)TimeRegressor::fit(rows, {.kind = kind, .seed = 0}, val); },
        ::testing::ThrowsMessage<InputError>("the group of device \"b\", 2 threads, fp32, adam, nchw has rows for "
                                             "validation and none to fit on"))
        << kind;
  }
  const Workload asked = val.front().workload;  // fitted on where nothing is chosen by it
  EXPECT_EQ(TimeRegressor::fit(rows, {.kind = "linear", .seed = 0}, val).predict(asked).reason, DomainViolation::none);
}

TEST(TimeRegressor, TheAnnsIntervalIsWideWhereFewRowsValidateIt) {
  const AnnOfOneAnswer ann;
  const std::vector<AggregateRow> rows = made_up_rows();
  const auto half_width = [&](std::vector<double> errors) {
    std::vector<AggregateRow> val(made_up_rows(0, 2));
    val.resize(errors.size());
    for (std::size_t i = 0; i < val.size(); ++i) val[i].avg_time_mean = AnnOfOneAnswer::sec * std::exp(errors[i]);
    const Quantiles q =
        TimeRegressor::fit(rows, {.kind = "ann", .seed = 0}, val).predict(rows.front().workload).time_sec;
    EXPECT_NEAR(q.p50, AnnOfOneAnswer::sec, 1e-6);
    return std::log(q.p95 / q.p50);
  };
  // Student's t at 95 %, of one and two degrees of freedom, over the normal's quantile.
  const double pi = std::acos(-1);
  EXPECT_NEAR(half_width({0.02, -0.03}), 0.03 * std::tan(0.45 * pi) / 1.644854, 1e-6);
  EXPECT_NEAR(half_width({-0.01, 0.02, -0.03}), 0.03 * 0.9 * std::sqrt(2 / (1 - 0.81)) / 1.644854, 1e-6);
}

TEST(TimeRegressor, NamesTheGroupThatIsTooSmall) {
  std::vector<AggregateRow> rows = made_up_rows();
  const std::vector<AggregateRow> few = as_group({rows.begin(), rows.begin() + 3}, 1, [](Workload& w) {
    w.device = "b";
    w.precision = Precision::fp16;
  });
  EXPECT_THAT([&] { (void)TimeRegressor::fit(few); },
              ::testing::ThrowsMessage<InputError>(
                  ::testing::StartsWith("3 rows are too few for a hybrid model: it needs 5 where the peaks")));
  rows.insert(rows.end(), few.begin(), few.end());
  EXPECT_THAT(
      [&] { (void)TimeRegressor::fit(rows); },
      ::testing::ThrowsMessage<InputError>(::testing::StartsWith(
          "the group of device \"b\", fp16, adam, nchw: 3 rows are too few for a hybrid model: it needs 5 where")));
}

TEST(TimeRegressor, TheSameRowsInAnyOrderGiveTheSameModel) {
  std::vector<AggregateRow> rows = made_up_rows();
  rows.push_back(rows[3]);  // one key, three labels
  rows.push_back(rows[3]);
  rows.back().avg_time_mean = 1.01 * *rows[3].avg_time_mean;
  rows.back().n = 3;
  for (const double factor : {2.0, 3.0}) {  // two groups of as many rows
    const std::vector<AggregateRow> more =
        as_group({rows.begin(), rows.begin() + 12}, factor, [&](Workload& w) { w.device = std::to_string(factor); });
    rows.insert(rows.end(), more.begin(), more.end());
  }
  const AnnOfOneAnswer ann;
  std::mt19937_64 random(2);
  for (const char* kind : {"hybrid", "linear", "ann"}) {
    const Prediction expected = TimeRegressor::fit(rows, {.kind = kind, .seed = 5}).predict(rows[0].workload);
    std::vector<AggregateRow> shuffled = rows;
    for (int round = 0; round < 3; ++round) {
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      const Prediction got = TimeRegressor::fit(shuffled, {.kind = kind, .seed = 5}).predict(rows[0].workload);
      EXPECT_EQ(got.model_id, expected.model_id) << kind;
      EXPECT_TRUE(same(got.time_sec, expected.time_sec)) << kind;
    }
  }
}

}  // namespace
}  // namespace perfpred
