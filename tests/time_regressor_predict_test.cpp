// SPDX-License-Identifier: Apache-2.0
// What a fitted model answers.
#include <perfpred/aggregator.h>
#include <perfpred/device.h>
#include <perfpred/forecast.h>
#include <perfpred/job_prediction.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>

#include <Eigen/Dense>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "counted_allocations.h"
#include "made_up_rows.h"
#include "refusal.h"

namespace perfpred {
namespace {

TEST(TimeRegressor, HybridPredictsWhatItDidNotSee) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  for (const auto& [depth, base, batch] : {std::tuple(2, 32, 64), std::tuple(3, 64, 512), std::tuple(4, 16, 128)}) {
    const Workload workload = Workload::cifar_cnn(depth, base, batch);
    const Prediction prediction = model.predict(workload);
    EXPECT_NEAR(prediction.time_sec.p50 / made_up_time(workload, 0), 1, 0.02);
    EXPECT_LT(prediction.time_sec.p05, prediction.time_sec.p50);
    EXPECT_LT(prediction.time_sec.p50, prediction.time_sec.p95);
    EXPECT_TRUE(prediction.in_domain());
  }
}

TEST(TimeRegressor, AKindOfWeightsThatNoRowHasCostsWhatTheOthersCost) {
  std::vector<AggregateRow> rows;  // no layer has 2 to 31 positions up to depth 3
  for (const AggregateRow& row : made_up_rows()) {
    if (*row.workload.depth() <= 3) rows.push_back(row);
  }
  const TimeRegressor model = TimeRegressor::fit(rows);
  const auto ask = [&](const Workload& workload, double factor) {
    const Quantiles q = model.predict(workload).time_sec;
    const double truth = made_up_time(workload, 0);
    EXPECT_LT(q.p50, factor * truth) << workload.key();
    EXPECT_GT(q.p50, truth / factor) << workload.key();
    EXPECT_LT(q.p05, truth) << workload.key();
    EXPECT_GT(q.p95, truth) << workload.key();
    // No wider than what is assumed of a cost before anything is measured: a factor of exp(1.5) is one deviation.
    EXPECT_LE(std::log(q.p95 / q.p05), 2 * 1.645 * 1.5) << workload.key();
  };
  ask(Workload::cifar_cnn(4, 32, 128), 1.2);
  ask(Workload::cifar_cnn(5, 64, 128), 1.5);
  Workload zoo = Workload::zoo("resnet18", 32);
  zoo.optimizer = Optimizer::adam;
  ask(zoo, 3);
}

/// 600 jobs of a model with runs and without; what cannot be has its own reason, and the others their answers.
TEST(TimeRegressor, ABadJobOfManyLeavesTheOthersTheirAnswers) {
  Workload card = Workload::zoo("resnet50", 32);
  card.device = "T4";
  card.precision = Precision::fp16;
  Workload unknown = card;
  unknown.device = "NoSuchGPU";
  Workload bf16 = card;
  bf16.precision = Precision::bf16;
  Workload without_batch = card;
  without_batch.batch_size = 0;
  const Workload known = Workload::cifar_cnn(3, 32, 64);
  const TimeRegressor model = TimeRegressor::fit(made_up_rows()), standard = TimeRegressor::standard();
  for (const TimeRegressor* by : {&model, &standard}) {
    std::vector<Workload> jobs;
    for (int i = 0; i < 100; ++i) {
      for (const Workload& job : {card, known, unknown, bf16, without_batch, known}) jobs.push_back(job);
    }
    const std::vector<JobPrediction> answers = predict_each(*by, jobs);
    ASSERT_EQ(answers.size(), jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::string error = testing::refusal([&] { (void)by->predict(jobs[i]); });
      EXPECT_EQ(answers[i].error, error) << i;
      if (error.empty()) {
        const double alone = by->predict(jobs[i]).time_sec.p95;
        EXPECT_EQ(answers[i].status, JobStatus::ok) << i;
        EXPECT_NEAR(answers[i].prediction.time_sec.p95, alone, 1e-12 * alone) << i;
      } else {
        EXPECT_EQ(answers[i].status, JobStatus::wrong_input) << i;
        EXPECT_TRUE(std::isnan(answers[i].prediction.time_sec.p50)) << i;
      }
    }
    EXPECT_EQ(answers[4].status, JobStatus::wrong_input);
    std::size_t first = 0;
    while (answers[first].error.empty()) ++first;
    EXPECT_EQ(testing::refusal([&] { (void)by->predict(jobs); }),
              "[" + std::to_string(first) + "]: " + answers[first].error);
  }
  EXPECT_TRUE(predict_each(standard, {}).empty());
}

TEST(TimeRegressor, OneRowDoesNotAllocate) {
  for (const char* kind : {"hybrid", "linear"}) {
    const TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0});
    const Workload workload = Workload::cifar_cnn(3, 40, 300);
    const long before = allocations.load();
    const Prediction prediction = model.predict(workload);
    EXPECT_EQ(allocations.load(), before) << kind;
    EXPECT_GT(prediction.time_sec.p50, 0);
  }
}

TEST(TimeRegressor, AnswersForTheSameJobOnOtherDevices) {
  const std::vector<AggregateRow> rows = made_up_rows();
  std::vector<AggregateRow> all = as_group(rows, 1, [](Workload& w) { w.device = "a gpu"; });
  for (const AggregateRow& row : as_group(rows, 5, [](Workload& w) { w.device = "a cpu", w.threads = 4; }))
    all.push_back(row);
  const TimeRegressor model = TimeRegressor::fit(all);
  Workload job = Workload::cifar_cnn(3, 32, 128);
  job.device = "a gpu";
  std::vector<Workload> there;
  for (const char* device : {"a cpu", "a gpu", "another"}) there.push_back(model.on_device(job, device));
  const std::vector<Prediction> answers = model.predict(there);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].reason, DomainViolation::none);
  EXPECT_EQ(answers[1].reason, DomainViolation::none);
  EXPECT_EQ(answers[2].reason, DomainViolation::other_device);
  EXPECT_TRUE(same(answers[1].time_sec, model.predict(job).time_sec));
  EXPECT_NEAR(answers[0].time_sec.p50 / answers[1].time_sec.p50, 5, 0.2);
}

TEST(TimeRegressor, OneDepthWidthOrBatchSaysNothingOfAnother) {
  const auto fit = [](auto keep) {
    std::vector<AggregateRow> rows = made_up_rows();
    std::erase_if(rows, [&](const AggregateRow& row) { return !keep(row.workload); });
    return TimeRegressor::fit(rows);
  };
  const Workload asked = Workload::cifar_cnn(3, 32, 128);
  const auto factor = [](const TimeRegressor& model, const Workload& workload) {
    const Quantiles q = model.predict(workload).time_sec;
    return std::min(q.p95 / q.p50, q.p50 / q.p05);
  };
  EXPECT_GE(factor(fit([](const Workload& w) { return w.depth() == 2; }), asked), 2.999);
  EXPECT_GE(factor(fit([](const Workload& w) { return w.base_filters() == 16; }), asked), 2.999);
  EXPECT_GE(factor(fit([](const Workload& w) { return w.batch_size == 1024; }), asked), 2.999);
  EXPECT_LT(factor(fit([](const Workload& w) { return w.depth() == 2; }), Workload::cifar_cnn(2, 32, 128)), 1.5);

  // Whatever that factor is, all runs of the other depth share it.
  const std::vector<Workload> both = {asked, Workload::cifar_cnn(3, 64, 1024), Workload::cifar_cnn(2, 32, 128)};
  const JointPrediction joint = fit([](const Workload& w) { return w.depth() == 2; }).joint(both);
  const Eigen::Map<const Eigen::Matrix3d> covariance(joint.covariance.data());
  const double variance = std::pow(std::log(3) / 1.645, 2);
  EXPECT_GE(covariance(0, 0), 0.99 * variance);
  EXPECT_GE(covariance(1, 1), 0.99 * variance);
  EXPECT_GE(covariance(0, 1), 0.5 * variance);
  EXPECT_LT(covariance(2, 2), 0.05 * variance);
  EXPECT_GT(Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d>(covariance).eigenvalues().minCoeff(), -1e-9);
}

TEST(TimeRegressor, ADeviceHasNoFieldsOfAnotherKind) {
  const std::vector<AggregateRow> rows =
      as_group(made_up_rows(), 1, [](Workload& w) { w.device = "a cpu", w.threads = 4; });
  const TimeRegressor model = TimeRegressor::fit(rows);
  Workload job = rows.front().workload;
  job.precision = Precision::fp32;
  job.device = "T4";  // which has no threads, so the rows of another device would answer in its place
  EXPECT_EQ(testing::refusal([&] { (void)model.predict(job); }), "threads are given, but the device is not a CPU");
  EXPECT_EQ(testing::refusal([&] { (void)model.predict(model.on_device(rows.front().workload, "T4")); }), "");
  job.device = "another";  // of a kind that nobody knows
  EXPECT_EQ(model.predict(job).reason, DomainViolation::other_device);
}

TEST(TimeRegressor, SaysWhyItCannotKnow) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload known = Workload::cifar_cnn(3, 32, 128);
  const auto reason = [&](auto change) {
    Workload workload = known;
    change(workload);
    return model.predict(workload).reason;
  };
  EXPECT_EQ(model.predict(known).reason, DomainViolation::none);
  EXPECT_EQ(reason([](Workload& w) { w.network = "cifar_cnn:depth=5,base_filters=32"; }),
            DomainViolation::depth_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.network = "cifar_cnn:depth=3,base_filters=128"; }),
            DomainViolation::width_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.batch_size = 4096; }), DomainViolation::batch_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.input = {3, 64, 64}; }), DomainViolation::size_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.device = "another"; }), DomainViolation::other_device);
  EXPECT_EQ(reason([](Workload& w) { w.precision = Precision::fp16; }), DomainViolation::other_precision);
  EXPECT_EQ(reason([](Workload& w) { w.optimizer = Optimizer::sgd; }), DomainViolation::other_optimizer);
  EXPECT_EQ(reason([](Workload& w) { w.layout = Layout::nhwc; }), DomainViolation::other_layout);
  const auto width = [&](const Workload& workload) {
    const Quantiles q = model.predict(workload).time_sec;
    return std::log(q.p95 / q.p05);
  };
  Workload other = known;
  other.device = "another";
  EXPECT_GT(width(other), 10 * width(known));
  EXPECT_GT(width(Workload::cifar_cnn(5, 128, 128)), width(known));
  Workload zoo = Workload::zoo("resnet18", 32);
  zoo.optimizer = known.optimizer;
  zoo.precision = known.precision;
  EXPECT_EQ(model.predict(zoo).reason, DomainViolation::other_network);
}

TEST(TimeRegressor, TheGroupThatAgreesInWhatMattersMostAnswers) {
  const std::vector<AggregateRow> most = made_up_rows();
  const std::vector<AggregateRow> some(most.begin(), most.begin() + 24);
  std::vector<AggregateRow> rows;
  const auto add = [&](std::vector<AggregateRow> part, double factor, const auto& change) {
    part = as_group(std::move(part), factor, change);
    rows.insert(rows.end(), part.begin(), part.end());
  };
  add(some, 3, [](Workload& w) { w.device = "b", w.precision = Precision::fp16; });
  add(some, 9, [](Workload& w) { w.device = "b", w.optimizer = Optimizer::sgd; });
  add(some, 27, [](Workload& w) { w.device = "b", w.precision = Precision::fp16, w.optimizer = Optimizer::sgd; });
  add(most, 1, [](Workload& w) { w.device = "a"; });
  const std::string file = scratch("groups");
  for (const char* kind : {"linear", "hybrid"}) {
    TimeRegressor model = TimeRegressor::fit(rows, {.kind = kind, .seed = 0});
    model.save(file);
    TimeRegressor again = TimeRegressor::load(file);
    std::filesystem::remove(file);
    const auto expect = [&](double factor, DomainViolation reason, const auto& change) {
      Workload asked = Workload::cifar_cnn(2, 32, 256);
      change(asked);
      for (const TimeRegressor* one : {&model, &again}) {
        const Prediction prediction = one->predict(asked);
        EXPECT_NEAR(std::log(prediction.time_sec.p50 / made_up_time(Workload::cifar_cnn(2, 32, 256), 0)),
                    std::log(factor), 0.5)
            << kind << " " << asked.key();
        EXPECT_EQ(prediction.reason, reason) << kind << " " << asked.key();
      }
      if (reason == DomainViolation::none || model.kind() != "hybrid") return;
      const std::vector<RejectedRun> refused = model.observe(std::vector<perfpred::Run>{run_of(asked, 1)});
      ASSERT_EQ(refused.size(), 1U);
      EXPECT_THAT(refused[0].reason, ::testing::StartsWith(std::string(to_string(reason))));
    };
    expect(1, DomainViolation::none, [](Workload& w) { w.device = "a"; });
    expect(3, DomainViolation::none, [](Workload& w) { w.device = "b", w.precision = Precision::fp16; });
    expect(9, DomainViolation::other_optimizer, [](Workload& w) { w.device = "b"; });
    expect(9, DomainViolation::other_layout,
           [](Workload& w) { w.device = "b", w.optimizer = Optimizer::sgd, w.layout = Layout::nhwc; });
    expect(3, DomainViolation::other_optimizer,
           [](Workload& w) { w.device = "b", w.precision = Precision::fp16, w.optimizer = Optimizer::rmsprop; });
    expect(27, DomainViolation::other_precision,  // as many rows as the one of fp32; its key comes first
           [](Workload& w) { w.device = "b", w.precision = Precision::bf16, w.optimizer = Optimizer::sgd; });
    expect(1, DomainViolation::other_precision, [](Workload& w) { w.device = "a", w.precision = Precision::fp16; });
    expect(1, DomainViolation::other_device, [](Workload& w) { w.device = "c"; });
    expect(3, DomainViolation::other_device, [](Workload& w) { w.device = "c", w.precision = Precision::fp16; });
    expect(1, DomainViolation::other_device, [](Workload& w) { w.device = "b", w.threads = 2; });
  }
}

TEST(TimeRegressor, JointAgreesWithSinglePredictions) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const std::vector<Workload> workloads = {Workload::cifar_cnn(5, 64, 128), Workload::cifar_cnn(5, 64, 256),
                                           Workload::cifar_cnn(2, 16, 128), Workload::cifar_cnn(5, 64, 128)};
  const JointPrediction joint = model.joint(workloads);
  ASSERT_EQ(joint.mean.size(), 4U);
  ASSERT_EQ(joint.covariance.size(), 16U);
  const Eigen::Map<const Eigen::Matrix4d> covariance(joint.covariance.data());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(joint.mean[i], std::log(model.predict(workloads[i]).time_sec.p50), 1e-9);
    EXPECT_GT(joint.covariance[4 * i + i], 0);
  }
  const auto correlation = [&](int i, int j) {
    return covariance(i, j) / std::sqrt(covariance(i, i) * covariance(j, j));
  };
  EXPECT_NEAR(correlation(0, 3), 1, 1e-6);  // the same workload
  EXPECT_GT(correlation(0, 1), 0.5);        // one family, never measured
  EXPECT_LT(correlation(0, 2), correlation(0, 1));
  EXPECT_GT(Eigen::SelfAdjointEigenSolver<Eigen::Matrix4d>(covariance).eigenvalues().minCoeff(), -1e-12);
}

/// It is alone wherever it stands: a cluster and what its replica would share with others say nothing of it.
TEST(TimeRegressor, AClusterSaysNothingOfOneDevice) {
  const auto in_cluster = [](Workload workload) {
    workload.cluster = "rack 7";
    workload.parallel.sharding = Sharding::fsdp;
    return workload;
  };
  std::vector<AggregateRow> rows = made_up_rows(), placed = rows;
  for (AggregateRow& row : placed) row.workload = in_cluster(row.workload);
  TimeRegressor plain = TimeRegressor::fit(rows), named = TimeRegressor::fit(placed);
  EXPECT_EQ(named.text(), plain.text());

  const Workload asked = Workload::cifar_cnn(5, 64, 128);
  std::vector<perfpred::Run> run = {run_of(asked, plain.predict(asked).time_sec.p50)}, placed_run = run;
  placed_run.front().workload = in_cluster(asked);
  EXPECT_TRUE(plain.observe(run).empty());
  EXPECT_TRUE(named.observe(placed_run).empty());
  EXPECT_EQ(named.text(), plain.text());
  EXPECT_THAT(named.observe(run), ::testing::SizeIs(1)) << "it is the run that was observed";

  const std::vector<Workload> jobs = {asked, Workload::cifar_cnn(2, 16, 128)};
  const std::vector<Workload> placed_jobs = {in_cluster(jobs[0]), in_cluster(jobs[1])};
  EXPECT_TRUE(named.was_fitted_on(placed_jobs[0]));
  EXPECT_EQ(named.joint(placed_jobs).mean, plain.joint(jobs).mean);
  EXPECT_EQ(named.predict(placed_jobs[1]).time_sec.p50, plain.predict(jobs[1]).time_sec.p50);
  EXPECT_FALSE(named.lacks_rates(placed_jobs[0]));
}

TEST(TimeRegressor, BreakdownAddsUp) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload workload = Workload::cifar_cnn(4, 64, 256);
  double sum = 0;
  for (const TimeTerm& term : model.breakdown(workload)) sum += term.sec;
  EXPECT_NEAR(sum, model.predict(workload).time_sec.p50, 1e-9);
}

TEST(Forecast, MakesTheStepOnce) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload job = Workload::zoo("bert_base", 8);
  const auto allocations_of = [](const auto& call) {
    const long before = allocations.load();
    call();
    return allocations.load() - before;
  };
  const long once = allocations_of([&] { (void)execute(job.graph(), DeviceKind::other); });
  const long first = allocations_of([&] { (void)forecast(model, job); });
  const long again = allocations_of([&] { (void)forecast(model, job); });
  EXPECT_LT(first, again + 3 * once);  // as written, and executed on its device
  EXPECT_LT(again, once);
}

TEST(TimeRegressor, FewOrPoorRowsGiveFiniteAnswers) {
  std::vector<AggregateRow> one_batch, one_architecture, repeated;
  for (const AggregateRow& row : made_up_rows()) {
    if (row.workload.batch_size == 256) one_batch.push_back(row);
    if (row.workload.depth() == 3 && row.workload.base_filters() == 32) one_architecture.push_back(row);
  }
  for (const int batch : {48, 512}) {
    AggregateRow row = one_architecture.front();
    row.workload.batch_size = batch;
    row.avg_time_mean = made_up_time(row.workload, 0);
    one_architecture.push_back(row);
  }
  repeated = made_up_rows();
  AggregateRow twice = repeated.front();
  twice.avg_time_mean = 1.02 * *twice.avg_time_mean;
  repeated.push_back(twice);  // one key, two labels
  for (const auto* rows : {&one_batch, &one_architecture, &repeated}) {
    for (const char* kind : {"hybrid", "linear"}) {
      if (rows == &one_architecture && std::string(kind) == "linear" && rows->size() < 4) continue;
      const TimeRegressor model = TimeRegressor::fit(*rows, {.kind = kind, .seed = 0});
      for (const Workload& workload : {Workload::cifar_cnn(3, 32, 64), Workload::cifar_cnn(5, 128, 2048)}) {
        const Quantiles q = model.predict(workload).time_sec;
        EXPECT_TRUE(std::isfinite(q.p05) && std::isfinite(q.p95)) << kind;
        EXPECT_LT(q.p05, q.p95) << kind;
      }
    }
  }
}

TEST(TimeRegressor, FiveRowsGiveIntervalsToo) {
  const std::vector<AggregateRow> all = made_up_rows(0.02);
  std::mt19937_64 random(11);
  for (const std::size_t count : {5U, 6U, 7U}) {
    double inside = 0, asked = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<AggregateRow> rows = all;
      std::shuffle(rows.begin(), rows.end(), random);
      const TimeRegressor model = TimeRegressor::fit(std::span(rows).first(count));
      for (std::size_t i = count; i < rows.size(); ++i) {
        const Quantiles q = model.predict(rows[i].workload).time_sec;
        inside += *rows[i].avg_time_mean >= q.p05 && *rows[i].avg_time_mean <= q.p95 ? 1 : 0;
        asked += 1;
      }
    }
    EXPECT_GE(inside / asked, 0.75) << count;
  }
}

TEST(TimeRegressor, LinesFollowedTooFarStayFinite) {
  for (const double steepness : {-3.0, 3.0}) {
    std::vector<AggregateRow> rows;
    for (const int base : {16, 17, 18, 19, 20, 22}) {
      AggregateRow& row = rows.emplace_back();
      row.workload = Workload::cifar_cnn(2, base, 64);
      row.n = 1;
      row.avg_time_mean = std::exp(steepness * base) * (base == 22 ? 1.5 : 1);
    }
    const TimeRegressor model = TimeRegressor::fit(rows, {.kind = "linear", .seed = 0});
    const Prediction prediction = model.predict(Workload::cifar_cnn(2, 65'536, 64));
    for (const double sec : {prediction.time_sec.p05, prediction.time_sec.p50, prediction.time_sec.p95}) {
      EXPECT_TRUE(std::isfinite(sec) && sec > 0) << sec;
    }
    EXPECT_LT(prediction.time_sec.p05, prediction.time_sec.p50);
    EXPECT_LT(prediction.time_sec.p50, prediction.time_sec.p95);
    EXPECT_EQ(prediction.reason, DomainViolation::width_out_of_range);
  }
}

TEST(TimeRegressor, PredictsThisCpuByRatesThatWereGivenAndMeasuresNothing) {
  Workload job = Workload::zoo("squeezenet1_1", 8);
  job.device = "cpu";
  const auto model_with = [](double gbs) {
    TimeRegressor model = TimeRegressor::standard();
    Device cpu = Device::this_cpu();
    cpu.fp32_tflops = cpu.fp32_vector_tflops = 1;
    cpu.mem_bw_gbs = gbs;
    model.set_cpu(cpu);
    return model;
  };
  const TimeRegressor without = TimeRegressor::standard(), slow = model_with(40), as_slow = model_with(40),
                      fast = model_with(80);
  EXPECT_TRUE(without.lacks_rates(job));
  EXPECT_THAT(testing::refusal([&] { (void)without.predict(job); }),
              ::testing::HasSubstr("perfpred-devices --measure"));
  EXPECT_THAT(testing::refusal([&] { (void)without.predict(std::vector{job}); }), ::testing::HasSubstr("--measure"));
  EXPECT_FALSE(slow.lacks_rates(job));
  const double sec = slow.predict(job).time_sec.p50;
  EXPECT_EQ(as_slow.predict(job).time_sec.p50, sec);
  EXPECT_GT(sec, 1.1 * fast.predict(job).time_sec.p50);
  job.device = "T4";
  EXPECT_FALSE(without.lacks_rates(job));

  std::vector<AggregateRow> rows = made_up_rows();
  for (AggregateRow& row : rows) row.workload.device = Device::this_cpu().name;
  const TimeRegressor of_runs = TimeRegressor::fit(rows);  // runs tell its time
  EXPECT_FALSE(of_runs.lacks_rates(rows.front().workload));
  EXPECT_EQ(of_runs.predict(rows.front().workload).provenance, Provenance::runs);
}

TEST(TimeRegressor, AHybridKnowsFromADeviceFileThatADeviceIsACpu) {
  DeviceCatalogue devices;
  Device lab;
  lab.name = "lab machine";
  lab.kind = DeviceKind::cpu;
  devices.add(lab);  // without rates, so that its runs alone answer
  const auto rows_of = [](std::optional<int> threads) {
    std::vector<AggregateRow> rows = made_up_rows();
    for (AggregateRow& row : rows) {
      row.workload.device = "lab machine";
      row.workload.threads = threads;
    }
    return rows;
  };
  const auto predicted = [&](std::optional<int> threads, const DeviceCatalogue& known) {
    // A CPU's registers hold 32 of these channels, a GPU's units 24.
    const Workload asked = with_field(rows_of(threads).front().workload, "base_filters", "20");
    return TimeRegressor::fit(rows_of(threads), {.devices = known}).predict(asked).time_sec.p50;
  };
  const double by_file = predicted({}, devices), by_threads = predicted(4, {}), as_gpu = predicted({}, {});
  EXPECT_DOUBLE_EQ(by_file, by_threads);
  EXPECT_NE(by_file, as_gpu);
}

}  // namespace
}  // namespace perfpred
