// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/run_recorder.h>
#include <perfpred/torch/collector.h>

#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../temporary_folder.h"
#include "company.h"
#include "torch/measure/suggested_runs.h"
#include "torch/monitor/proc.h"

namespace perfpred {
namespace {

/// A sweep of two configurations; `in_first_run` is done once, while the first of them trains.
CollectResult sweep(const std::string& runs_csv, const std::function<void()>& in_first_run) {
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  options.runs_csv = runs_csv;
  std::vector<Workload> workloads = {Workload::cifar_cnn(1, 2, 8), Workload::cifar_cnn(1, 4, 8)};
  for (Workload& workload : workloads) workload.train_images = 16;
  int asked = 0;
  return Collector(options).collect(
      workloads, [](const CollectProgress&) {},
      [&] {
        if (++asked == 2) in_first_run();  // the first time no run has begun
        return false;
      });
}

const c10::SourceLocation here{"forward", __FILE__, __LINE__};

TEST(Collector, ADeviceThatDisappearsIsAFailedRowWhichTheNextSweepMeasuresAgain) {
  const testing::TemporaryFolder folder;
  const std::string runs_csv = folder.file("runs.csv");
  const CollectResult lost =
      sweep(runs_csv, [] { throw c10::AcceleratorError(here, 719, "CUDA error: unspecified launch failure"); });
  ASSERT_EQ(lost.runs.size(), 2U);
  EXPECT_EQ(lost.failed, 1);
  EXPECT_EQ(lost.runs[0].outcome, Outcome::failed);
  EXPECT_NE(lost.runs[0].note.find("unspecified launch failure"), std::string::npos) << lost.runs[0].note;
  EXPECT_FALSE(lost.runs[0].avg_time_sec);
  EXPECT_TRUE(lost.runs[1].avg_time_sec);

  const CollectResult again = sweep(runs_csv, [] {});
  const bool disturbed = lost.runs[1].outcome == Outcome::untrusted;  // on a busy machine: measured again, too
  ASSERT_EQ(again.runs.size(), disturbed ? 2U : 1U);
  EXPECT_EQ(again.skipped, disturbed ? 0 : 1);
  EXPECT_EQ(again.runs[0].workload, lost.runs[0].workload);
  EXPECT_TRUE(again.runs[0].avg_time_sec);
  EXPECT_EQ(read_runs(runs_csv).size(), 2 + again.runs.size());
}

TEST(Collector, MeasuresAgainWhatFailedOrWasDisturbed) {
  const testing::TemporaryFolder folder;
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  options.runs_csv = folder.file("runs.csv");
  std::vector<Workload> asked;
  for (const Outcome outcome : {Outcome::ok, Outcome::oom, Outcome::failed, Outcome::interrupted, Outcome::untrusted}) {
    perfpred::Run run;
    run.workload = Collector(options).placed(Workload::cifar_cnn(1, 2, 8 << asked.size()));
    run.timestamp_utc = "2026-01-02T03:04:05.678Z";
    run.framework = "libtorch";
    run.epochs = 2;
    run.params = run.workload.params();
    run.outcome = outcome;
    if (outcome == Outcome::ok || outcome == Outcome::untrusted) {
      run.epoch_times = {2, 1};
      run.avg_time_sec = 1;
      run.images_per_sec = static_cast<double>(run.workload.train_images);
    }
    RunRecorder(options.runs_csv).append(run);
    asked.push_back(run.workload);
  }
  const std::vector<Workload> left = Collector(options).left(asked);
  EXPECT_EQ(left, std::vector<Workload>(asked.begin() + 2, asked.end()));
}

TEST(Collector, OutOfMemoryIsAnOutcomeThatIsNotTriedAgain) {
  const testing::TemporaryFolder folder;
  const std::string runs_csv = folder.file("runs.csv");
  const CollectResult out =
      sweep(runs_csv, [] { throw c10::OutOfMemoryError(here, "CUDA out of memory. Tried to allocate 2 GiB"); });
  ASSERT_EQ(out.runs.size(), 2U);
  EXPECT_EQ(out.runs[0].outcome, Outcome::oom);
  EXPECT_TRUE(out.runs[1].avg_time_sec);
  EXPECT_EQ(sweep(runs_csv, [] {}).skipped, out.runs[1].outcome == Outcome::untrusted ? 1 : 2);
}

TEST(Collector, AStepThatNeedsMoreThanTheMachineHasIsNotTried) {
  CollectOptions options;
  options.timing = Timing::steps;
  options.device = "cpu";
  const auto run = Collector(options).measure(Workload::zoo("gpt2", 4096), [] { return false; });  // 14 TB
  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, Outcome::oom);
  EXPECT_TRUE(run->note.starts_with("not tried: needs 1")) << run->note;
  EXPECT_FALSE(run->peak_mem_mb);
  EXPECT_FALSE(run->avg_time_sec);
}

TEST(Collector, ARunStoppedWhileItIsJudgedIsDropped) {
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  Workload workload = Workload::cifar_cnn(1, 2, 8);
  workload.train_images = 16;
  for (const int question : {2 + 1, 2 + 63 + 2 + 63, 2 + 63 + 2 + 63 + 1}) {  // after two steps, 500 images, ...
    int asked = 0;
    EXPECT_FALSE(Collector(options).measure(workload, [&] { return ++asked >= question; }));
    EXPECT_EQ(asked, question);
  }
}

TEST(Collector, MemoryOfEpochsHasNoBatchesOfTheValidation) {
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  Workload workload = Workload::cifar_cnn(1, 8, 128);
  workload.train_images = 512;
  const auto never = [] { return false; };
  const auto epochs = Collector(options).measure(workload, never);
  options.timing = Timing::steps;
  const auto steps = Collector(options).measure(workload, never);
  ASSERT_TRUE(epochs && steps);
  // A batch is 1.6 MB; with two of the validation there were 3.1 MB more.
  EXPECT_NEAR(*epochs->peak_mem_mb, *steps->peak_mem_mb, 0.5);
}

TEST(Collector, FreeMemoryIsThatBeforeTheNetworkIsBuilt) {
  CollectOptions options;
  options.timing = Timing::steps;
  options.device = "cpu";
  Workload workload = Workload::zoo("transformer:layers=1,hidden=64,heads=1,vocab=1000000", 50, {1});
  workload.optimizer = Optimizer::sgd;
  workload.train_images = 100;
  const double held_mb = 2 * 4e-6 * static_cast<double>(workload.params());  // weights and gradients
  ASSERT_GT(held_mb, 500);
  double more = 0;                                                       // was free before than after the first step
  for (int attempt = 0; attempt < 8 && more < held_mb / 2; ++attempt) {  // others take and give memory meanwhile
    double after = 0;
    const auto run = Collector(options).measure(workload, [&] {
      if (after == 0) after = static_cast<double>(*available_memory_bytes()) * 1e-6;
      return false;
    });
    ASSERT_TRUE(run && run->mem_free_mb);
    more = *run->mem_free_mb - after;
  }
  EXPECT_GT(more, held_mb / 2);
}

int argmaxes = 0;

std::unique_ptr<at::ObserverContext> count_argmax(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::argmax") ++argmaxes;
  return nullptr;
}

TEST(Collector, StepsAreTimedWithoutMetrics) {
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  Workload workload = Workload::cifar_cnn(1, 2, 8);
  workload.train_images = 16;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_argmax).scopes({at::RecordScope::FUNCTION}));
  for (const Timing timing : {Timing::epochs, Timing::steps}) {
    options.timing = timing;
    argmaxes = 0;
    const auto run = Collector(options).measure(workload);
    ASSERT_TRUE(run);
    EXPECT_EQ(argmaxes > 0, timing == Timing::epochs);
    EXPECT_TRUE(run->drift.has_value());
    EXPECT_EQ(run->clock_mhz.has_value(), run->clock_p05_mhz.has_value());
    if (run->clock_mhz) {
      EXPECT_LE(*run->clock_p05_mhz, *run->clock_mhz);
      EXPECT_LE(*run->clock_mhz, *run->clock_p95_mhz);
    }
    EXPECT_EQ(run->note.find("drift"), std::string::npos) << run->note;
  }
  at::removeCallback(handle);
}

TEST(Collector, RefusesALastBatchThatBatchNormalisationCannotTake) {
  CollectOptions options;
  options.device = "cpu";
  Workload workload = Workload::zoo("mobilenet_v2", 8, {3, 32, 32});  // its last layers see one pixel
  workload.train_images = 8 * 3 + 1;
  EXPECT_THROW(static_cast<void>(Collector(options).placed(workload)), InputError);
  workload.train_images = 8 * 3 + 2;
  EXPECT_NO_THROW(static_cast<void>(Collector(options).placed(workload)));
}

TEST(Collector, SuggestsOnlyWhatIsLeft) {
  const testing::TemporaryFolder folder;
  const std::string runs_csv = folder.file("runs.csv");
  const CollectResult swept = sweep(runs_csv, [] {});  // of base filters 2 and 4
  const auto disturbed = std::ranges::count(swept.runs, Outcome::untrusted, &perfpred::Run::outcome);
  CollectOptions options;
  options.device = "cpu";
  options.epochs = 2;
  options.runs_csv = runs_csv;
  Collector collector(options);
  std::vector<Workload> workloads;
  for (const int filters : {2, 4, 8, 16}) {
    workloads.push_back(Workload::cifar_cnn(1, filters, 8));
    workloads.back().train_images = 16;
  }
  const auto left = collector.left(workloads);
  ASSERT_EQ(left.size(), 2U + static_cast<std::size_t>(disturbed));
  const auto all = suggested_runs(collector, workloads, "", 9), one = suggested_runs(collector, workloads, "", 1);
  EXPECT_TRUE(std::is_permutation(all.begin(), all.end(), left.begin(), left.end()));
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0], all[0]);
}

TEST(Collector, EpochsMeasuredInCompanyAreUntrusted) {
  CollectOptions options;
  options.epochs = 2;
  options.device = "cpu";
  constexpr int steps = 15;
  Workload workload = Workload::cifar_cnn(1, 2, 8);
  workload.train_images = 8 * steps;
  // While an epoch trains, and not while it is judged on 500 pictures.
  constexpr int questions = steps + 63;
  std::optional<testing::Company> company;
  int asked = 0;
  const auto run = Collector(options).measure(workload, [&] {
    const int place = asked++ % questions;
    if (place >= steps || asked > options.epochs * questions) return false;
    if (place == 0) company.emplace();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
    if (place == steps - 1) company.reset();
    return false;
  });
  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, Outcome::untrusted);
  EXPECT_NE(run->note.find("company"), std::string::npos) << run->note;
  EXPECT_TRUE(run->avg_time_sec);
}

}  // namespace
}  // namespace perfpred
