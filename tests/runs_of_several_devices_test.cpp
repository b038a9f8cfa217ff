// SPDX-License-Identifier: Apache-2.0
// What runs on several devices teach a model, through the public interface.
#include <perfpred/aggregator.h>
#include <perfpred/forecast.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred::testing {
namespace {

using ::testing::HasSubstr;

Workload job(std::string_view network, const char* placement, std::int64_t batch = 32) {
  Workload workload = Workload::zoo(network, batch);
  workload.device = "RTX 3090";
  workload.train_images = 10'000'000;  // so that its last step is nothing
  if (placement != nullptr) workload.gpus_per_node = Placement::parse(placement);
  return workload;
}

const TimeRegressor& standard() {
  static const TimeRegressor model = TimeRegressor::standard();
  return model;
}

/// Of a machine that the standard model does not know: devices that are 1.2 times as slow, and links that give a ring
/// of them 2 GB/s (Patarasuk and Yuan 2009: each moves 2 (n - 1) / n of the gradients), of which nothing is hidden.
double true_step(const Workload& workload) {
  Workload alone = workload;
  alone.gpus_per_node = {};
  const auto n = static_cast<double>(workload.gpus_per_node.devices());
  const double bytes = 4 * static_cast<double>(workload.params());
  return 1.2 * forecast(standard(), alone).step_sec.p50 + 2 * (n - 1) / n * bytes / 2e9;
}

Run run_of(const Workload& workload, double step_sec) {
  static int second = 10;
  const double sec = step_sec * static_cast<double>(workload.steps_per_epoch());
  Run run;
  run.workload = workload;
  run.timestamp_utc = "2026-01-01T00:00:" + std::to_string(second++) + "Z";
  run.epoch_times = {sec, sec};
  run.epochs = 2;
  run.avg_time_sec = sec;
  run.images_per_sec = static_cast<double>(workload.train_images) / sec;
  return run;
}

Run run_of(const Workload& workload) { return run_of(workload, true_step(workload)); }

struct Judged {
  double error = 0;  // of the logarithm
  double width = 0;  // p95 / p05
  bool holds = false;
};

Judged judge(const TimeRegressor& model, const Workload& workload) {
  const Quantiles step = forecast(model, workload).step_sec;
  const double truth = true_step(workload);
  return {std::abs(std::log(step.p50 / truth)), step.p95 / step.p05, step.p05 <= truth && truth <= step.p95};
}

TimeRegressor taught(const std::vector<Run>& runs) {
  TimeRegressor model = TimeRegressor::standard();
  EXPECT_TRUE(model.observe(runs).empty());
  return model;
}

TEST(RunsOfSeveralDevices, TellOfMoreDevices) {
  for (const char* network : {"vgg16", "resnet50"}) {
    const TimeRegressor model = taught({run_of(job(network, "2")), run_of(job(network, "4"))});
    for (const char* placement : {"2", "4", "8"}) {
      const Workload asked = job(network, placement);
      const Judged now = judge(model, asked), before = judge(standard(), asked);
      EXPECT_LT(now.error, 0.1) << network << " on " << placement << ", before " << before.error;
      EXPECT_LT(now.error, before.error) << network << " on " << placement;
      EXPECT_TRUE(now.holds) << network << " on " << placement;
      const bool is_measured = placement != std::string("8");
      EXPECT_TRUE(!is_measured || now.width < before.width) << network << " on " << placement;
    }
  }
}

TEST(RunsOfSeveralDevices, TellOfOtherNetworksInTheCluster) {
  const TimeRegressor model =
      taught({run_of(job("vgg16", "4")), run_of(job("alexnet", "4")), run_of(job("vgg19", "4"))});
  const Workload asked = job("resnet101", "4");
  EXPECT_LT(judge(model, asked).error, judge(standard(), asked).error);
  EXPECT_TRUE(judge(model, asked).holds);
}

TEST(RunsOfSeveralDevices, AreWhatTheAnswerRestsOn) {
  const TimeRegressor model = taught({run_of(job("vgg16", "4"))});
  const Prediction same = model.predict(job("vgg16", "4"));
  EXPECT_EQ(same.provenance, Provenance::runs);
  EXPECT_EQ(same.reason, DomainViolation::none);
  EXPECT_EQ(model.predict(job("vgg16", "8")).reason, DomainViolation::other_placement);
  EXPECT_NE(model.predict(job("resnet50", "4")).provenance, Provenance::runs);
}

TEST(RunsOfSeveralDevices, LeaveOneDeviceAlone) {
  const TimeRegressor model = taught({run_of(job("vgg16", "4"))});
  EXPECT_EQ(model.predict(job("vgg16", nullptr)).time_sec.p50, standard().predict(job("vgg16", nullptr)).time_sec.p50);
}

TEST(RunsOfSeveralDevices, AreKeptInTheModelFile) {
  const TimeRegressor model = taught({run_of(job("vgg16", "2")), run_of(job("vgg16", "4"))});
  const TemporaryFolder folder;
  model.save(folder.file("model.json"));
  const TimeRegressor read = TimeRegressor::load(folder.file("model.json"));
  EXPECT_EQ(read.text(), model.text());
  EXPECT_TRUE(read.was_fitted_on(job("vgg16", "4")));
  EXPECT_EQ(read.predict(job("vgg16", "8")).time_sec.p50, model.predict(job("vgg16", "8")).time_sec.p50);
}

TEST(RunsOfSeveralDevices, AreFittedAsRows) {
  Aggregator aggregator;
  for (const char* placement : {"2", "4"}) aggregator.add(run_of(job("vgg16", placement)));
  const TimeRegressor model = TimeRegressor::fit(aggregator.rows());
  EXPECT_LT(judge(model, job("vgg16", "8")).error, 0.1);
  EXPECT_THAT(refusal([&] {
                FitOptions linear;
                linear.kind = "linear";
                (void)TimeRegressor::fit(aggregator.rows(), linear);
              }),
              HasSubstr("several devices, from which a model of kind linear does not learn"));
}

/// Steps of ResNet-50 on T4s of g4dn.12xlarge, which Pollux' authors measured (Qiao et al. 2021): four of up to four
/// devices tell what all others take.
TEST(RunsOfSeveralDevices, TellOfPlacementsThatOthersMeasured) {
  const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
  if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  std::ifstream table(std::string(folder) + "/multi_gpu/visible.csv");
  std::vector<std::string> names;
  std::string line;
  std::getline(table, line);
  const auto cells = [](const std::string& of) {
    std::vector<std::string> all;
    std::istringstream rest(of);
    for (std::string cell; std::getline(rest, cell, ',');) all.push_back(cell);
    return all;
  };
  names = cells(line);
  std::vector<std::pair<Workload, double>> measured;
  while (std::getline(table, line)) {
    const std::vector<std::string> row = cells(line);
    std::map<std::string, std::string> of;
    for (std::size_t i = 0; i < std::min(row.size(), names.size()); ++i) of[names[i]] = row[i];
    if (of["cluster"] != "aws-g4dn.12xlarge" || of["network"] != "resnet50" || of["gpus_per_node"] == "1") continue;
    Workload workload = Workload::zoo("resnet50", std::stoll(of["local_batch"]));
    workload.device = "T4";
    workload.precision = Precision::fp16;
    workload.accumulate = std::stoll(of["accum"]);
    workload.gpus_per_node = Placement::parse(of["gpus_per_node"]);
    measured.emplace_back(workload, std::stod(of["step_ms"]) / 1e3);
  }
  ASSERT_GT(measured.size(), 500U);
  std::vector<perfpred::Run> small;
  for (const auto& [workload, sec] : measured) {
    if (workload.gpus_per_node.devices() <= 4) small.push_back(run_of(workload, sec));
  }
  std::vector<perfpred::Run> known;
  for (std::size_t i = 0; i < 4; ++i) known.push_back(small[i * small.size() / 4]);
  const TimeRegressor model = taught(known);
  const auto median_error = [&](const TimeRegressor& by) {
    std::vector<double> errors;
    for (const auto& [workload, sec] : measured)
      errors.push_back(std::abs(forecast(by, workload).step_sec.p50 / sec - 1));
    std::ranges::nth_element(errors, errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2));
    return errors[errors.size() / 2];
  };
  EXPECT_LT(median_error(model), 0.1);
  EXPECT_GT(median_error(standard()), 0.3);
}

/// A cluster that runs alone know needs no links.csv; and what is not asked for is that of the runs.
TEST(RunsOfSeveralDevices, KnowTheirCluster) {
  Workload of_cluster = job("vgg16", "4");
  of_cluster.cluster = "lab";
  const double step_sec = true_step(job("vgg16", "4"));
  const TimeRegressor model = taught({run_of(of_cluster, step_sec)});
  EXPECT_NEAR(forecast(model, of_cluster).step_sec.p50 / step_sec, 1, 0.1);
  Aggregator aggregator;
  aggregator.add(run_of(of_cluster, step_sec));
  const TimeRegressor fitted = TimeRegressor::fit(aggregator.rows());
  EXPECT_EQ(fitted.example().device, "RTX 3090");
  EXPECT_EQ(fitted.example().train_images, of_cluster.train_images);
  EXPECT_TRUE(fitted.example().gpus_per_node.nodes.empty());
}

/// Ranks that share a machine's processor take far longer than one alone.
TEST(RunsOfSeveralDevices, ReproduceWhatTheyMeasured) {
  std::vector<perfpred::Run> runs;
  for (const std::int64_t batch : {16, 32, 64, 128}) {
    const Workload workload = job("resnet18", "2", batch);
    Workload alone = workload;
    alone.gpus_per_node = {};
    runs.push_back(run_of(workload, 2.2 * forecast(standard(), alone).step_sec.p50));
  }
  const TimeRegressor model = taught(runs);
  for (const std::int64_t batch : {16, 32, 64, 128}) {
    const Workload workload = job("resnet18", "2", batch);
    Workload alone = workload;
    alone.gpus_per_node = {};
    EXPECT_NEAR(forecast(model, workload).step_sec.p50 / (2.2 * forecast(standard(), alone).step_sec.p50), 1, 0.15);
  }
}

TEST(RunsOfSeveralDevices, AreSetAsideOnceObserved) {
  TimeRegressor model = TimeRegressor::standard();
  const perfpred::Run run = run_of(job("vgg16", "4"));
  EXPECT_TRUE(model.observe(std::vector{run}).empty());
  EXPECT_EQ(model.observe(std::vector{run}).at(0).reason, "already observed");
}

Workload split_job(const char* layout, const char* placement = "8", std::int64_t micro_batches = 8) {
  Workload workload = job("gpt2", placement, 4);
  workload.parallel = ParallelLayout::parse(layout);
  workload.accumulate = micro_batches;
  return workload;
}

/// On a machine where a step of such ranks takes 1.4 times what is expected, and 1.1 times more where tp is 4.
double true_split_step(const Workload& workload) {
  return 1.4 * (workload.parallel.tp == 4 ? 1.1 : 1) * forecast(standard(), workload).step_sec.p50;
}

Judged judge_split(const TimeRegressor& model, const Workload& workload) {
  const Quantiles step = forecast(model, workload).step_sec;
  const double truth = true_split_step(workload);
  return {std::abs(std::log(step.p50 / truth)), step.p95 / step.p05, step.p05 <= truth && truth <= step.p95};
}

std::vector<perfpred::Run> split_runs() {
  std::vector<perfpred::Run> runs;
  for (const char* layout : {"tp=2,pp=2", "tp=4,pp=2", "tp=2,pp=4"})
    runs.push_back(run_of(split_job(layout), true_split_step(split_job(layout))));
  return runs;
}

TEST(RunsOfSplitNetworks, TellOfOtherLayoutsOnTheCluster) {
  const TimeRegressor model = taught(split_runs());
  for (const Workload& asked : {split_job("tp=2,pp=2"), split_job("tp=4,pp=2"), split_job("tp=4"), split_job("pp=2"),
                                split_job("tp=2,pp=2", "8", 32), split_job("tp=4,pp=2", "16")}) {
    const Judged now = judge_split(model, asked), before = judge_split(standard(), asked);
    EXPECT_LT(now.error, 0.5 * before.error) << asked.key();
    EXPECT_TRUE(now.holds) << asked.key();
    EXPECT_LT(now.width, before.width) << asked.key();
  }
  EXPECT_LT(judge_split(model, split_job("tp=4,pp=2")).error, 0.03);
}

TEST(RunsOfSplitNetworks, AreWhatTheAnswerRestsOn) {
  const TimeRegressor model = taught(split_runs());
  EXPECT_EQ(model.predict(split_job("tp=2,pp=2")).provenance, Provenance::runs);
  EXPECT_EQ(model.predict(split_job("tp=2,pp=2")).reason, DomainViolation::none);
  EXPECT_EQ(model.predict(split_job("pp=4")).reason, DomainViolation::other_placement);
}

TEST(RunsOfSplitNetworks, LeaveOtherMachinesReplicasAndOneDeviceAlone) {
  const TimeRegressor model = taught(split_runs());
  Workload other = split_job("tp=2,pp=2");
  other.device = "A100-SXM4-80GB";
  for (const Workload& asked : {other, split_job("ddp"), job("gpt2", nullptr, 4)})
    EXPECT_EQ(model.predict(asked).time_sec.p50, standard().predict(asked).time_sec.p50) << asked.key();
}

TEST(RunsOfSplitNetworks, AreKeptInTheModelFileAndLearntAtOnceOrOneByOne) {
  const TimeRegressor model = taught(split_runs());
  const TemporaryFolder folder;
  model.save(folder.file("model.json"));
  const TimeRegressor read = TimeRegressor::load(folder.file("model.json"));
  TimeRegressor step_by_step = TimeRegressor::standard();
  for (const perfpred::Run& run : split_runs()) EXPECT_TRUE(step_by_step.observe(std::vector{run}).empty());
  const Workload asked = split_job("tp=4");
  EXPECT_EQ(read.predict(asked).time_sec.p50, model.predict(asked).time_sec.p50);
  EXPECT_NEAR(step_by_step.predict(asked).time_sec.p50 / model.predict(asked).time_sec.p50, 1, 1e-9);
}

/// The reasons for what is lost are those of the corrected step.
TEST(RunsOfSplitNetworks, KeepTheSharesOfWhatIsLost) {
  const TimeRegressor model = taught(split_runs());
  const Scaling before = forecast(standard(), split_job("tp=2,pp=4")).scaling.value();
  const Scaling now = forecast(model, split_job("tp=2,pp=4")).scaling.value();
  EXPECT_NEAR(now.efficiency, before.efficiency, 1e-9);
  EXPECT_NEAR(now.limits.bubble, before.limits.bubble, 1e-9);
  EXPECT_NEAR(now.limits.links, before.limits.links, 1e-9);
}

TEST(RunsOfSplitNetworks, AreRefusedWhereTheLayoutDoesNotFit) {
  TimeRegressor model = TimeRegressor::standard();
  Workload wrong = split_job("tp=8");  // gpt2 has twelve heads
  EXPECT_THAT(model.observe(std::vector{run_of(wrong, 1)}).at(0).reason, HasSubstr("tp = 8"));
}

}  // namespace
}  // namespace perfpred::testing
