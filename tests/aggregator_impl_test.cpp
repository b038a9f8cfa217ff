// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "aggregated_runs.h"
#include "refusal.h"
#include "runs/run_log.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using testing::expect_close;
using testing::figures;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::many_runs;
using testing::rejected_of;
using testing::run_of_epochs;
using testing::run_without_time;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;
using Label = Aggregator::Label;

/// One row from these runs.
AggregateRow row_of(const std::vector<struct Run>& runs, Label label = Label::robust) {
  Aggregator aggregator(label);
  for (const auto& run : runs) aggregator.add(run);
  const auto rows = aggregator.rows();
  EXPECT_THAT(rows, SizeIs(1));
  return rows.at(0);
}

TEST(Aggregator, RobustLabelIsTheMeanOfMedianEpochs) {
  // Medians without the first epoch: 1.02 (of 1.00, 1.02, 1.09) and 1.06 (between 1.05 and 1.07).
  auto first = run_of_epochs({9, 1.09, 1.00, 1.02});
  auto second = run_of_epochs({9, 1.07, 1.05});
  first.test_acc = 0.60;
  second.test_acc = 0.64;
  const AggregateRow row = row_of({first, second});
  EXPECT_EQ(row.n, 2);
  EXPECT_EQ(row.n_rejected, 0);
  EXPECT_EQ(row.params, 280218);
  EXPECT_EQ(row.steps_per_epoch, 391);
  EXPECT_DOUBLE_EQ(*row.avg_time_mean, 1.04);
  EXPECT_NEAR(*row.avg_time_std, std::sqrt(2 * 0.02 * 0.02), 1e-15);
  EXPECT_DOUBLE_EQ(*row.thr_mean, (50'000 / 1.02 + 50'000 / 1.06) / 2);
  EXPECT_NEAR(*row.thr_std, (50'000 / 1.02 - 50'000 / 1.06) / std::sqrt(2.0), 1e-8);
  EXPECT_DOUBLE_EQ(*row.acc_mean, 0.62);
  EXPECT_NEAR(*row.acc_std, std::sqrt(2 * 0.02 * 0.02), 1e-15);
  EXPECT_FALSE(row.flags.any());
}

TEST(Aggregator, ScatterOfTimedEpochsIsTheStandardErrorOfTheirMean) {
  // s / sqrt(n) over the mean: epochs 0.98 and 1.02 give 0.02; 1.95, 2.0 and 2.05 give 0.05 / sqrt(3) / 2.
  const auto near_one = run_of_epochs({9, 0.98, 1.02});
  EXPECT_NEAR(row_of({near_one}).epoch_rel_sem.value(), 0.02, 1e-12);
  const double three = 0.05 / std::sqrt(3) / 2;
  EXPECT_NEAR(row_of({run_of_epochs({9, 2.05, 1.95, 2.0})}).epoch_rel_sem.value(), three, 1e-12);
  const auto far_apart = run_of_epochs({9, 1, 2});
  EXPECT_NEAR(
      row_of({near_one, far_apart, run_of_epochs({9, 1.95, 2.0, 2.05}), run_of_epochs({9, 1})}).epoch_rel_sem.value(),
      std::sqrt((0.02 * 0.02 + three * three) / 2), 1e-12)
      << "of kept runs that timed two epochs";
  EXPECT_NEAR(row_of({far_apart}).epoch_rel_sem.value(), 1.0 / 3, 1e-12)
      << "where no run is kept, of those in the means";
  EXPECT_EQ(row_of({run_of_epochs({9, 1})}).epoch_rel_sem, std::nullopt);
  EXPECT_NEAR(row_of({far_apart}, Label::mean).epoch_rel_sem.value(), 1.0 / 3, 1e-12);
  auto too_short_to_time = run_of_epochs({9, 0, 0});
  too_short_to_time.avg_time_sec = too_short_to_time.images_per_sec = 1e-9;
  EXPECT_EQ(row_of({too_short_to_time}, Label::mean).epoch_rel_sem, 0);
}

// Where a run says how well its time is known, that counts: sqrt((0.08^2 + 0.02^2) / 2).
TEST(Aggregator, ARunsOwnStandardErrorComesFirst) {
  auto steps = run_of_epochs({9, 1});
  steps.timing = Timing::steps;
  steps.epoch_times.clear();
  steps.epoch_rel_sem = 0.08;
  const AggregateRow row = row_of({steps, run_of_epochs({9, 0.98, 1.02})});
  EXPECT_EQ(row.n, 2);
  EXPECT_EQ(row.n_rejected, 0);
  EXPECT_NEAR(row.epoch_rel_sem.value(), std::sqrt((0.0064 + 0.0004) / 2), 1e-12);
}

TEST(Aggregator, RunsOfDifferentEnvStayApart) {
  const TemporaryFolder folder;
  auto quiet = run_of_epochs({9, 1, 1});
  auto shared = run_of_epochs({9, 2, 2});
  shared.env = "shared";
  Aggregator aggregator;
  aggregator.add_file(folder.write("runs.csv", testing::csv_of({shared, quiet, shared})));
  for (int merged = 0; merged < 2; ++merged) {
    const auto rows = aggregator.rows();
    ASSERT_THAT(rows, SizeIs(2));
    EXPECT_EQ(rows[0].workload, rows[1].workload);
    EXPECT_EQ(rows[0].env, "");
    EXPECT_EQ(rows[0].avg_time_mean, 1);
    EXPECT_EQ(rows[1].env, "shared");
    EXPECT_EQ(rows[1].avg_time_mean, 2);
    EXPECT_EQ(rows[1].n, 2);
    write_aggregate(folder.file("agg.csv"), rows);
    EXPECT_EQ(read_aggregate(folder.file("agg.csv")), rows);
    Aggregator again;
    again.merge(aggregator);
    aggregator = std::move(again);
  }
}

/// Kernels pad the names of CPUs with blanks, people write them small.
TEST(Aggregator, ADeviceIsOneHoweverItIsSpelled) {
  Aggregator aggregator;
  for (const char* name : {"AMD EPYC", "amd epyc", "AMD  EPYC", " AMD EPYC "}) {
    auto run = testing::run_of_epochs({2, 1, 1});
    run.workload.device = name;
    run.timestamp_utc += name;
    aggregator.add(run);
  }
  const std::vector<AggregateRow> rows = aggregator.rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].n, 4);
  EXPECT_EQ(rows[0].workload.device, "AMD EPYC");
}

TEST(Aggregator, ARowWhoseRunsCannotScatterSoIsRefused) {
  const TemporaryFolder folder;
  const AggregateRow good = row_of({run_of_epochs({9, 1, 1}), run_of_epochs({9, 3, 3})});
  const auto refusal_of = [&](const auto& change) {
    AggregateRow row = good;
    change(row);
    write_aggregate(folder.file("agg.csv"), {row});
    return testing::refusal([&] { (void)read_aggregate(folder.file("agg.csv")); });
  };
  const std::string place = folder.file("agg.csv") + ":2: ";
  EXPECT_EQ(refusal_of([](AggregateRow&) {}), "");
  // Two runs of times m - d and m + d, d at most m: a deviation of d sqrt(2).
  EXPECT_EQ(refusal_of([](AggregateRow& row) { row.avg_time_std = std::sqrt(2.0) * 2; }), "");
  EXPECT_EQ(refusal_of([](AggregateRow& row) { row.avg_time_std = 2.83; }), "") << "rounded";
  EXPECT_EQ(refusal_of([](AggregateRow& row) { std::swap(row.avg_time_mean, row.avg_time_std = 0.01); }),
            place + "avg_time_std \"2\" is not at most 0.0141 (n is 2, avg_time_mean is 0.01)");
  EXPECT_THAT(refusal_of([](AggregateRow& row) { std::swap(row.avg_time_mean, row.thr_mean); }),
              HasSubstr(place + "thr_std "));
  EXPECT_THAT(refusal_of([](AggregateRow& row) { std::swap(row.acc_mean, row.acc_std = 0.01); }),
              HasSubstr(place + "acc_std \"0.5\" is not at most"));
  EXPECT_EQ(refusal_of([](AggregateRow& row) { row.n = 1; }),
            place + "avg_time_std \"1.4142135623730951\" is not at most 0 (n is 1, avg_time_mean is 2)");
}

TEST(Aggregator, MeanLabelTakesTheRunsOwnFigures) {
  auto first = run_of_epochs({9, 1, 5});  // would be rejected otherwise
  first.images_per_sec = 7;               // not 50,000 / 3
  const AggregateRow row = row_of({first, run_of_epochs({9, 1, 1})}, Label::mean);
  EXPECT_EQ(row.n, 2);
  EXPECT_DOUBLE_EQ(*row.avg_time_mean, 2);
  EXPECT_DOUBLE_EQ(*row.thr_mean, (7 + 50'000) / 2.0);
  EXPECT_TRUE(row.flags.disagree);
}

TEST(Aggregator, EpochsMoreThanTenPercentApartRejectARun) {
  EXPECT_EQ(row_of({run_of_epochs({9, 1, 1.0999})}).n_rejected, 0);
  EXPECT_EQ(row_of({run_of_epochs({9, 1, 1.1001})}).n_rejected, 1);
  EXPECT_EQ(row_of({run_of_epochs({9, 0, 1})}).n_rejected, 1);
  const AggregateRow row = row_of({run_of_epochs({9, 1, 2}), run_of_epochs({9, 1, 1})});
  EXPECT_EQ(row.n, 1);
  EXPECT_EQ(row.n_rejected, 1);
  EXPECT_EQ(row.avg_time_mean, 1);
  EXPECT_EQ(row.avg_time_std, 0);
}

TEST(Aggregator, NothingKeptButTimedIsThePlainMeanAndUnstable) {
  auto untrusted = run_of_epochs({9, 4, 4});
  untrusted.outcome = Outcome::untrusted;
  const AggregateRow row = row_of({run_of_epochs({9, 1, 3}), run_without_time(Outcome::failed), untrusted});
  EXPECT_EQ(row.n, 2);
  EXPECT_EQ(row.n_rejected, 3);
  EXPECT_EQ(row.avg_time_mean, 3);
  EXPECT_EQ(row.flags.text(), "unstable");
}

TEST(Aggregator, StepsRunsCountByTheirEstimate) {
  auto run = run_of_epochs({9, 1, 1});
  run.timing = Timing::steps;
  run.epoch_times.clear();
  run.avg_time_sec = 2;
  run.images_per_sec = 1;
  run.test_acc = std::nullopt;
  const AggregateRow row = row_of({run});
  EXPECT_EQ(row.avg_time_mean, 2);
  EXPECT_EQ(row.thr_mean, 25'000);
  EXPECT_EQ(row.acc_mean, std::nullopt);
  EXPECT_EQ(row.acc_std, std::nullopt);
}

TEST(Aggregator, Flags) {
  EXPECT_EQ(row_of({run_of_epochs({9, 1, 1}), run_of_epochs({9, 1.11, 1.11})}).flags.text(), "disagree");
  EXPECT_EQ(row_of({run_of_epochs({9, 1, 1}), run_of_epochs({9, 1.09, 1.09})}).flags.text(), "");
  auto diverged = run_of_epochs({9, 1, 3});
  diverged.test_acc = 0.12;
  EXPECT_EQ(row_of({diverged}).flags.text(), "unstable+diverged");
  diverged.test_acc = 0.1201;
  EXPECT_EQ(row_of({diverged}).flags.text(), "unstable");
  const AggregateRow oom = row_of({run_without_time(Outcome::failed), run_without_time(Outcome::oom)});
  EXPECT_EQ(oom.flags.text(), "oom");
  EXPECT_EQ(oom.n, 0);
  EXPECT_EQ(oom.n_rejected, 2);
  EXPECT_EQ(oom.avg_time_mean, std::nullopt);
  EXPECT_EQ(row_of({run_without_time(Outcome::failed)}).flags.text(), "");
  EXPECT_EQ(row_of({run_without_time(Outcome::oom), run_of_epochs({9, 1, 1})}).flags.text(), "");
}

TEST(Aggregator, ReportsEachRejectedRunWithItsReason) {
  Aggregator aggregator;
  aggregator.add(run_of_epochs({9, 1, 1}));
  aggregator.add(run_of_epochs({9, 1, 2}));
  std::vector<std::string> reasons;
  for (const Outcome outcome : {Outcome::oom, Outcome::failed, Outcome::interrupted, Outcome::untrusted}) {
    aggregator.add(run_without_time(outcome));
  }
  EXPECT_EQ(aggregator.runs(), 6);
  EXPECT_EQ(aggregator.rejected(), 5);
  const auto rejected = rejected_of(aggregator);
  for (const RejectedRun& run : rejected) reasons.push_back(run.reason);
  EXPECT_THAT(reasons, ElementsAre("epochs_disagree", "oom", "failed", "interrupted", "untrusted"));
  EXPECT_EQ(rejected[0],
            (RejectedRun{Workload::cifar_cnn(2, 16, 128).key(), "epochs_disagree", "2026-01-01T00:00:00Z", 1.5}));
  EXPECT_EQ(rejected[1].avg_time_sec, std::nullopt);
}

TEST(Aggregator, RowsAreSortedBySize) {
  Aggregator aggregator;
  for (const int batch : {512, 64, 1024}) aggregator.add(run_of_epochs({9, 1, 1}, batch));
  std::vector<std::int64_t> batches;
  for (const AggregateRow& row : aggregator.rows()) batches.push_back(row.workload.batch_size);
  EXPECT_THAT(batches, ElementsAre(64, 512, 1024));
}

TEST(Aggregator, RefusesWhatCannotBeSummedOrBelongsNotTogether) {
  auto tiny = run_of_epochs({9, 1, 1});
  tiny.epoch_times = {1, 1e-200, 1e-200};
  Aggregator aggregator;
  EXPECT_THROW(aggregator.add(tiny), InputError);
  const auto expect_refused = [&](const auto& change) {
    auto run = run_of_epochs({9, 1, 1});
    change(run);
    EXPECT_THROW(aggregator.add(run), InputError);
  };
  expect_refused([](auto& run) { run.epoch_times = {9, -1, -1}; });
  expect_refused([](auto& run) { run.epoch_times = {9, 1, NAN}; });
  expect_refused([](auto& run) { run.workload.batch_size = 0; });
  expect_refused([](auto& run) { run.test_acc = NAN; });
  expect_refused([](auto& run) { run.epoch_rel_sem = -0.1; });
  // What read_runs() refuses, too.
  expect_refused([](auto& run) { run.test_acc = 1.5; });
  expect_refused([](auto& run) { run.params = -1; });
  expect_refused([](auto& run) { run.epochs = -5; });
  expect_refused([](auto& run) { run.step_cv = INFINITY; });
  expect_refused([](auto& run) { run.avg_time_sec = std::nullopt; });
  // Its square, which is summed, is not finite.
  expect_refused([](auto& run) { run.epoch_rel_sem = 1e200; });
  EXPECT_THAT(aggregator.rows(), IsEmpty());
  aggregator.add(run_of_epochs({9, 1, 1}));
  auto other = run_of_epochs({9, 1, 1});
  other.params = 5;
  aggregator.add(other);
  EXPECT_THAT([&] { (void)aggregator.rows(); },
              ThrowsMessage<InputError>(HasSubstr("runs of one workload differ in params, 5 and 280218")));
  EXPECT_THROW(aggregator.merge(Aggregator(Label::mean)), InputError);
}

TEST(Aggregator, PartsMergeToTheWholeInAnyOrder) {
  std::mt19937_64 random(1);
  for (const Label label : {Label::robust, Label::mean}) {
    const auto runs = many_runs(400, 7);
    Aggregator whole(label);
    for (const auto& run : runs) whole.add(run);
    for (int round = 0; round < 20; ++round) {
      std::vector<Aggregator> parts;
      for (int part = 0; part < 6; ++part) parts.emplace_back(label);
      for (const auto& run : runs) parts[random() % 6].add(run);
      std::shuffle(parts.begin(), parts.end(), random);
      Aggregator merged(label);
      for (const Aggregator& part : parts) {
        merged.merge(part);
      }
      expect_close(merged.rows(), whole.rows(), 1e-12);
      EXPECT_EQ(merged.runs(), whole.runs());
      auto a = rejected_of(merged);
      auto b = rejected_of(whole);
      const auto by_time = [](const RejectedRun& x, const RejectedRun& y) { return x.timestamp_utc < y.timestamp_utc; };
      std::stable_sort(a.begin(), a.end(), by_time);
      std::stable_sort(b.begin(), b.end(), by_time);
      EXPECT_EQ(a, b);
    }
  }
}

TEST(Aggregator, RefusesAnEmptyFunction) { EXPECT_THROW(Aggregator().for_each_rejected(nullptr), InputError); }

TEST(Aggregator, ReferenceCollection) {
  const char* reference = std::getenv("PERFPRED_REFERENCE_DIR");
  if (reference == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const std::string folder = std::string(reference) + "/a100_cifar10/";
  const auto expected = read_aggregate(folder + "runs_agg.csv");
  const Workload contended = [] {
    Workload workload = Workload::cifar_cnn(3, 32, 320);
    workload.precision = Precision::unknown;
    return workload;
  }();

  Aggregator mean(Label::mean);
  mean.add_file(folder + "runs.csv");
  const auto rows = mean.rows();
  ASSERT_EQ(rows.size(), 121U);
  ASSERT_EQ(expected.size(), 121U);
  int equal = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].workload, expected[i].workload);
    bool same = rows[i].n == expected[i].n && rows[i].params == expected[i].params &&
                rows[i].steps_per_epoch == expected[i].steps_per_epoch;
    for (const auto figure : figures) {
      if (figure == &AggregateRow::epoch_rel_sem) continue;  // the collection has no such column
      same = same && std::abs(*(rows[i].*figure) - *(expected[i].*figure)) <= 1e-9 * *(expected[i].*figure);
    }
    equal += same ? 1 : 0;
    EXPECT_EQ(same, rows[i].workload != contended);
    if (rows[i].workload == contended) {
      EXPECT_NEAR(*rows[i].avg_time_mean, 2.98, 0.005);
      EXPECT_NEAR(*rows[i].avg_time_std, 2.76, 0.005);
    }
  }
  EXPECT_EQ(equal, 120);

  Aggregator robust;
  robust.add_file(folder + "runs.csv");
  const auto rejected = rejected_of(robust);
  ASSERT_THAT(rejected, SizeIs(2));
  EXPECT_THAT(rejected[0].key, HasSubstr("depth=3;base_filters=16;batch_size=512;"));
  EXPECT_THAT(rejected[1].key, HasSubstr("depth=3;base_filters=32;batch_size=320;"));
  EXPECT_THAT(rejected[1].timestamp_utc, HasSubstr("01:05:38"));
  for (const AggregateRow& row : robust.rows()) {
    EXPECT_EQ(row.flags.unstable, row.n_rejected == 1 && row.workload != contended);
    if (row.workload == contended) {
      EXPECT_NEAR(*row.avg_time_mean, 1.0329, 5e-5);
    }
  }
}

}  // namespace
}  // namespace perfpred
