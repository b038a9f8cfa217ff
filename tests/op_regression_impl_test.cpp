// SPDX-License-Identifier: Apache-2.0
// A regressor where the op model answers: without runs, and corrected by few of them.
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/time_regressor.h>

#include <Eigen/Dense>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "evaluate/protocol.h"
#include "made_up_machines.h"
#include "made_up_rows.h"
#include "model/ops/op_regression.h"
#include "optime/known_machine.h"
#include "optime/op_model_state.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::job;
using testing::standard_and;
using testing::step_sec;

/// Seconds of an epoch as the op model alone expects them, with its interval.
Quantiles op_quantiles(const Workload& workload) {
  const Device device = DeviceCatalogue().find(workload.device);
  const ExecutedStep step = execute(workload.graph(), device.kind);
  const StepAnswer answer =
      OpModelAccess::predict(OpTimeModel::standard(),
                             {step, device, workload.precision, false, {}, {workload.network, workload.input.back()}});
  const double steps = static_cast<double>(workload.train_images) / static_cast<double>(workload.batch_size);
  const Quantiles sec = answer.time.quantiles();
  return {steps * sec.p05, steps * sec.p50, steps * sec.p95};
}

double op_sec(const Workload& workload) { return op_quantiles(workload).p50; }

AggregateRow row_of(const Workload& workload, double sec) {
  AggregateRow row;
  row.workload = workload;
  row.n = 1;
  row.avg_time_mean = sec;
  return row;
}

double width(const Prediction& prediction) { return std::log(prediction.time_sec.p95 / prediction.time_sec.p05); }

TEST(OpRegression, WithoutRunsAnswersAreTheOpModels) {
  const TimeRegressor model = TimeRegressor::standard();
  const Workload asked = job("resnet50", 64, "A100-80GB-PCIe");
  const Prediction answer = model.predict(asked);
  EXPECT_DOUBLE_EQ(answer.time_sec.p50, op_sec(asked));
  EXPECT_FALSE(answer.in_domain());
  EXPECT_EQ(answer.reason, DomainViolation::other_device);
  EXPECT_NE(answer.provenance, Provenance::runs);
  EXPECT_TRUE(model.fitted_rows().empty());
  double sum = 0;
  for (const TimeTerm& term : model.breakdown(asked)) sum += term.sec;
  EXPECT_NEAR(sum, answer.time_sec.p50, 1e-9 * sum);
  EXPECT_EQ(model.predict(std::vector<Workload>{asked})[0].time_sec.p50, answer.time_sec.p50);
}

TEST(OpRegression, WithoutRunsAnIntervalIsTheOpModelsAlsoWhereTheDeviceWasNotMeasured) {
  const TimeRegressor model = TimeRegressor::standard();
  for (const char* device : {"A100-80GB-PCIe", "L4", "RTX 5080"}) {
    const Workload asked = job("resnet50", 64, device);
    const Quantiles expected = op_quantiles(asked), given = model.predict(asked).time_sec;
    EXPECT_NEAR(given.p05 / expected.p05, 1, 1e-9) << device;
    EXPECT_NEAR(given.p95 / expected.p95, 1, 1e-9) << device;
    const JointPrediction joint = model.joint(std::vector<Workload>{asked, asked});
    EXPECT_NEAR(std::log(expected.p95 / expected.p50), 1.6448536 * std::sqrt(joint.covariance[1]), 1e-6) << device;
  }
}

Estimate epoch_of(const OpPrior& prior, const Workload& workload) {
  static const DeviceCatalogue devices;
  PredictedSteps none;
  return prior.epoch(Job(workload, devices), none).time;
}

TEST(OpRegression, WhatStepsOfANetworkTookElsewhereIsExpectedOfItInTheSamePrecision) {
  OpModelState state = OpModelAccess::state(OpTimeModel::standard());
  state.steps.networks.clear();
  const auto prior_of = [](const OpModelState& of) {
    return OpPrior(std::make_shared<const OpTimeModel>(OpModelAccess::model(of)));
  };
  const OpPrior without = prior_of(state);
  const StepDevice on =
      step_device(DeviceCatalogue().find("V100-SXM2-16GB"), Precision::fp32, StepArithmetic::as_graph);
  state.steps.networks[arithmetic_key(Precision::fp32, on, StepArithmetic::as_graph)] = {
      0.1, {{{"resnet50", 224}, std::log(1.5)}}};
  const OpPrior with = prior_of(state);
  const auto longer = [&](const Workload& workload) {
    return epoch_of(with, workload).sec() / epoch_of(without, workload).sec();
  };
  Workload known = job("resnet50", 32, "V100-SXM2-16GB");
  EXPECT_NEAR(longer(known), 1.5, 1e-9);
  EXPECT_LT(epoch_of(with, known).deviation(), epoch_of(without, known).deviation());
  known.input = {3, 192, 192};
  EXPECT_EQ(longer(known), 1);
  known = job("resnet50", 32, "V100-SXM2-16GB");
  known.precision = Precision::fp16;
  EXPECT_EQ(longer(known), 1);
  known = job("resnet50", 32, "A100-SXM4-80GB");
  known.precision = Precision::tf32;
  EXPECT_EQ(longer(known), 1);  // on matrix units
  EXPECT_EQ(longer(job("resnet34", 32, "V100-SXM2-16GB")), 1);
  EXPECT_EQ(longer(job("resnet50", 32, "MI210")), 1);  // the formula was fitted to devices of NVIDIA
}

TEST(OpRegression, RunsOfOtherNetworksTellAboutTheDevice) {
  // This T4 takes half as long again as the op model expects, whatever it trains.
  std::vector<AggregateRow> rows;
  for (const char* network : {"resnet18", "vgg16", "densenet121", "mobilenet_v2"}) {
    const Workload measured = job(network, 32, "T4");
    rows.push_back(row_of(measured, 1.5 * op_sec(measured)));
  }
  const TimeRegressor model = TimeRegressor::fit(rows), without = TimeRegressor::standard();
  const Workload asked = job("resnet50", 32, "T4");
  const Prediction answer = model.predict(asked);
  EXPECT_NEAR(answer.time_sec.p50 / op_sec(asked), 1.5, 0.1);
  EXPECT_LT(width(answer), 0.6 * width(without.predict(asked)));
  EXPECT_EQ(answer.reason, DomainViolation::other_network);
  // In another precision half of that is known, on another device nearly nothing.
  Workload half = asked, other = asked;
  half.precision = Precision::fp16;
  other.device = "A100-SXM4-80GB";
  const double in_half = model.predict(half).time_sec.p50 / without.predict(half).time_sec.p50;
  const double elsewhere = model.predict(other).time_sec.p50 / without.predict(other).time_sec.p50;
  EXPECT_LT(in_half, 1.45);
  EXPECT_GT(in_half, elsewhere);
  EXPECT_GT(elsewhere, 1);
  EXPECT_LT(elsewhere, 1.15);
  EXPECT_EQ(model.predict(other).reason, DomainViolation::other_device);
}

TEST(OpRegression, ACardWithoutUnitsForHalfPrecisionLearnsFromRunsInIt) {
  std::vector<AggregateRow> rows;
  for (const char* network : {"resnet18", "vgg16", "densenet121"}) {
    Workload measured = job(network, 32, "GTX 1080 Ti");
    measured.precision = Precision::fp16;
    rows.push_back(row_of(measured, 1.5 * op_sec(measured)));
  }
  Workload asked = job("resnet50", 32, "GTX 1080 Ti");
  asked.precision = Precision::fp16;
  EXPECT_NEAR(TimeRegressor::fit(rows).predict(asked).time_sec.p50 / op_sec(asked), 1.5, 0.15);
}

TEST(OpRegression, IntervalsHoldRunsOfAMachineWhoseSpeedWanders) {
  std::vector<AggregateRow> exact;
  for (const char* network : {"resnet18", "resnet50", "vgg11", "densenet121", "squeezenet1_1", "alexnet",
                              "mobilenet_v2", "googlenet", "mnasnet0_5", "shufflenet_v2_x1_0"}) {
    for (const std::int64_t batch : {16, 32, 64}) {
      const Workload measured = job(network, batch, "T4");
      exact.push_back(row_of(measured, op_sec(measured)));
    }
  }
  double inside = 0, asked = 0;
  for (unsigned seed = 0; seed < 5; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.2);
    std::vector<AggregateRow> rows = exact;
    for (AggregateRow& row : rows) *row.avg_time_mean *= std::exp(noise(random));
    const ProtocolEvaluation left_out = evaluate_protocol(rows, Protocol::lono, FitOptions());
    inside += *left_out.all.coverage90 * static_cast<double>(left_out.scored.size());
    asked += static_cast<double>(left_out.scored.size());
  }
  EXPECT_EQ(asked, 150);
  EXPECT_GE(inside, 0.87 * asked);  // a process that took a run's noise for 10 % at most held 84 of 100
  EXPECT_LE(inside, 0.98 * asked);
}

TEST(OpRegression, ARowIsLearnedWhereTheOpModelHasAnAnswer) {
  const OpPrior prior(nullptr);
  const DeviceCatalogue devices;
  for (const Precision precision :
       {Precision::fp64, Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::default_}) {
    Workload asked = job("squeezenet1_1", 1, "T4");
    asked.precision = precision;
    for (const Device& device : devices.devices()) {
      asked.device = device.name;
      bool answers = true;
      try {
        PredictedSteps none;
        (void)prior.epoch(Job(asked, devices), none);
      } catch (const InputError&) {
        answers = false;
      }
      EXPECT_EQ(knows_rates(asked, devices.resolve(asked.device)), answers) << asked.key();
    }
  }
}

TEST(OpRegression, ASlowHostIsToldFromASlowDevice) {
  // No step of this card is known. Steps that wait for the host and steps that do not take as long as on a machine
  // whose host needs 1.3 times the usual time, or whose units reach 0.75 times the usual rate.
  const char* card = "RTX-A6000";
  const StepDevice on = step_device(DeviceCatalogue().find(card), Precision::fp32, StepArithmetic::as_graph);
  const MachineEffects usual = known_machine(OpModelAccess::state(OpTimeModel::standard()).steps, {}, on.chip,
                                             arithmetic_key(Precision::fp32, on, StepArithmetic::as_graph))
                                   .effects;
  const auto fitted_to = [&](const MachineEffects& beside) {
    const MachineEffects effects = {usual.compute + beside.compute, usual.memory + beside.memory,
                                    usual.host + beside.host};
    std::vector<AggregateRow> rows;
    for (const auto& [network, batch] :
         {std::pair("shufflenet_v2_x1_0", 1), {"densenet121", 1}, {"resnet50", 1}, {"vgg16", 64}, {"resnet18", 64}}) {
      const Workload measured = job(network, batch, card);
      const MachineKey machine = {"lab", DeviceCatalogue().find(card).name};
      const double step = step_sec(standard_and({{machine, effects}}), measured).p50;
      rows.push_back(row_of(measured, step * static_cast<double>(measured.steps_per_epoch())));
    }
    return TimeRegressor::fit(rows);
  };
  // Steps unlike those, with nothing but the machine in common.
  const Workload waits = job("convnext_tiny", 1, card), computes = job("bert_base", 64, card);
  const TimeRegressor slow_host = fitted_to({0, 0, std::log(1.3)}), slow_units = fitted_to({std::log(0.75), 0, 0});
  const auto ratio = [](const TimeRegressor& model, const Workload& asked) {
    return model.predict(asked).time_sec.p50 / op_sec(asked);
  };
  EXPECT_GT(ratio(slow_host, waits), 1.17);  // 1.25 if nothing else could be the reason
  EXPECT_LT(ratio(slow_host, waits), 1.27);
  EXPECT_NEAR(ratio(slow_host, computes), 1, 0.05);
  EXPECT_NEAR(ratio(slow_units, waits), 1, 0.05);
  EXPECT_GT(ratio(slow_units, computes), 1.17);
}

TEST(OpRegression, ANetworksRunsOnOneDeviceCarryToAnother) {
  // ShuffleNet takes 30 % longer than expected on the T4, other networks as long as expected.
  std::vector<AggregateRow> rows;
  for (const char* network : {"resnet18", "vgg16", "resnet50", "shufflenet_v2_x1_0"}) {
    for (const char* device : {"T4", "V100-SXM2-16GB"}) {
      for (int batch = 2; batch <= 128; batch *= 2) {  // with and without a wait for the host: it is not the machine
        const Workload measured = job(network, batch, device);
        const bool slow = measured.network == "shufflenet_v2_x1_0";
        if (slow && measured.device != "T4") continue;
        rows.push_back(row_of(measured, (slow ? 1.3 : 1) * op_sec(measured)));
      }
    }
  }
  const TimeRegressor model = TimeRegressor::fit(rows);
  const Workload shuffle = job("shufflenet_v2_x1_0", 32, "V100-SXM2-16GB"), vgg = job("vgg19", 32, "V100-SXM2-16GB");
  EXPECT_GT(model.predict(shuffle).time_sec.p50 / op_sec(shuffle), 1.1);
  EXPECT_NEAR(model.predict(vgg).time_sec.p50 / op_sec(vgg), 1, 0.05);
}

TEST(OpRegression, OneRunIsEnoughAndItsBatchIsInsideTheDomain) {
  const Workload measured = job("bert_base", 8, "T4");
  const TimeRegressor model = TimeRegressor::fit(std::vector<AggregateRow>{row_of(measured, 0.7 * op_sec(measured))});
  const Prediction same = model.predict(measured);
  EXPECT_NEAR(same.time_sec.p50 / op_sec(measured), 0.7, 0.03);
  EXPECT_EQ(same.provenance, Provenance::runs);
  EXPECT_TRUE(same.in_domain());
  Workload larger = measured;
  larger.batch_size = 16;
  EXPECT_NEAR(model.predict(larger).time_sec.p50 / op_sec(larger), 0.7, 0.06);
  EXPECT_EQ(model.predict(larger).reason, DomainViolation::batch_out_of_range);
  EXPECT_GT(width(model.predict(larger)), width(same));
}

TEST(OpRegression, AFamilyWithRowsOfItsOwnKeepsItsModel) {
  std::vector<AggregateRow> rows = made_up_rows();
  for (AggregateRow& row : rows) row.workload.device = "T4";
  const TimeRegressor alone = TimeRegressor::fit(rows);
  Workload measured = job("resnet18", 32, "T4");
  measured.optimizer = rows.front().workload.optimizer;
  rows.push_back(row_of(measured, 2 * op_sec(measured)));
  const TimeRegressor both = TimeRegressor::fit(rows);
  Workload asked = Workload::cifar_cnn(3, 32, 128);
  asked.device = "T4";
  EXPECT_EQ(both.predict(asked).time_sec.p50, alone.predict(asked).time_sec.p50);
  EXPECT_TRUE(both.predict(asked).in_domain());
  EXPECT_NEAR(both.predict(measured).time_sec.p50 / op_sec(measured), 2, 0.1);
}

TEST(OpRegression, ErrorsOfSimilarWorkloadsGoTogether) {
  const std::vector<Workload> asked = {job("resnet18", 32, "T4"), job("resnet34", 32, "T4"),
                                       job("bert_base", 8, "A100-SXM4-80GB")};
  const TimeRegressor model = TimeRegressor::standard();
  const JointPrediction joint = model.joint(asked);
  const auto correlation = [&](std::size_t i, std::size_t j) {
    return joint.covariance[3 * i + j] / std::sqrt(joint.covariance[4 * i] * joint.covariance[4 * j]);
  };
  EXPECT_GT(correlation(0, 1), 0.9);
  EXPECT_LT(correlation(0, 2), 0.3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(std::exp(joint.mean[i]), op_sec(asked[i]), 1e-9 * op_sec(asked[i]));
    EXPECT_NEAR(2 * 1.6448536 * std::sqrt(joint.covariance[4 * i]), width(model.predict(asked[i])), 1e-6);
  }
}

TEST(OpRegression, ObservesRunsAndKeepsThemInItsFile) {
  TimeRegressor model = TimeRegressor::standard();
  const Workload asked = job("resnet50", 32, "T4"), other = job("resnet101", 32, "T4");
  const double before = model.predict(other).time_sec.p50;
  std::vector<perfpred::Run> runs = {run_of(asked, 1.4 * op_sec(asked)), run_of(asked, 1.4 * op_sec(asked))};
  std::vector<RejectedRun> result = model.observe(runs);
  ASSERT_EQ(result.size(), 1U);  // the second has the same time stamp
  EXPECT_EQ(result[0].reason, "already observed");
  EXPECT_TRUE(model.was_fitted_on(asked));
  EXPECT_GT(model.predict(other).time_sec.p50, 1.2 * before);
  result = model.observe(std::vector<perfpred::Run>{run_of(other, 20 * before, 1)});
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0].reason, "outlier");

  const testing::TemporaryFolder folder;
  model.save(folder.file("model.json"));
  const TimeRegressor loaded = TimeRegressor::load(folder.file("model.json"));
  for (const Workload& workload : {asked, other}) {
    EXPECT_NEAR(loaded.predict(workload).time_sec.p50, model.predict(workload).time_sec.p50, 1e-9);
    EXPECT_NEAR(width(loaded.predict(workload)), width(model.predict(workload)), 1e-9);
  }
  EXPECT_EQ(loaded.predict(asked).model_id, model.predict(asked).model_id);
}

TEST(OpRegression, AnOpModelsFileIsARegressorWithoutRuns) {
  const testing::TemporaryFolder folder;
  OpTimeModel::standard().save(folder.file("ops.json"));
  const TimeRegressor model = TimeRegressor::load(folder.file("ops.json"));
  const Workload asked = job("resnet50", 64, "L4");
  EXPECT_NEAR(model.predict(asked).time_sec.p50, op_sec(asked), 1e-9 * op_sec(asked));
}

TEST(OpRegression, TheStandardModelsFileIsTheStandardModel) {
  const TimeRegressor model = TimeRegressor::load(PERFPRED_SOURCE_DIR "/data/standard_ops.json");
  const Workload asked = job("resnet50", 64, "L4");
  const Prediction loaded = model.predict(asked), standard = TimeRegressor::standard().predict(asked);
  EXPECT_EQ(loaded.time_sec.p50, standard.time_sec.p50);
  EXPECT_EQ(loaded.model_id, standard.model_id);
}

TEST(OpRegression, ADeviceThatNothingIsKnownOfIsRefusedOrAnsweredByTheClosestGroup) {
  const Workload asked = job("resnet50", 64, "No such GPU");
  EXPECT_THAT(testing::refusal([&] { (void)TimeRegressor::standard().predict(asked); }), HasSubstr("No such GPU"));
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());  // of a device that has no name
  const Prediction answer = model.predict(asked);
  EXPECT_EQ(answer.reason, DomainViolation::other_device);
  EXPECT_GE(width(answer), 2 * std::log(3.0) - 1e-9);
  // The user's own table of devices tells of it.
  DeviceCatalogue devices;
  Device mine = devices.find("T4");
  mine.name = "No such GPU";
  mine.aliases.clear();
  devices.add(mine);
  EXPECT_NEAR(TimeRegressor::standard(devices).predict(asked).time_sec.p50 / op_sec(job("resnet50", 64, "T4")), 1, 0.1);
}

TEST(OpRegression, FewerThreadsOfACpuTakeLongerAndNoneWereMeasured) {
  DeviceCatalogue devices;
  Device cpu;
  cpu.name = "eight cores";
  cpu.kind = DeviceKind::cpu;
  cpu.sms = 8;
  cpu.fp32_tflops = cpu.fp32_vector_tflops = 0.8;
  cpu.mem_bw_gbs = 60;
  devices.add(cpu);
  const TimeRegressor model = TimeRegressor::standard(devices);
  Workload asked = job("resnet18", 8, "eight cores");
  const auto with = [&](std::optional<int> threads) {
    asked.threads = threads;
    return model.predict(asked);
  };
  const double all = with(std::nullopt).time_sec.p50;
  EXPECT_EQ(with(8).time_sec.p50, all);
  EXPECT_GT(with(4).time_sec.p50, 1.2 * all);
  EXPECT_GT(with(1).time_sec.p50, 1.2 * with(4).time_sec.p50);
  EXPECT_LE(with(1).time_sec.p50, 8.001 * all);
  EXPECT_LT(with(1).time_sec.p05, 1.001 * all);
  EXPECT_GT(with(1).time_sec.p95, 7.999 * all);
  EXPECT_DOUBLE_EQ(with(16).time_sec.p50, all);
  for (const int threads : {4, 16}) {
    EXPECT_GE(width(with(threads)), 2 * std::log(3.0) - 1e-9);
    EXPECT_EQ(with(threads).reason, DomainViolation::other_device);
  }
}

TEST(OpRegression, OfManyRowsTheNearestTellNearlyWhatAllDo) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<AggregateRow> rows;
  const DeviceCatalogue devices;
  OpRegression regression(std::make_shared<const OpPrior>(nullptr));
  for (const std::string_view network : zoo_networks()) {
    const double away = 0.2 + 0.1 * normal(random);
    for (std::int64_t batch = 1; batch <= 64; batch *= 2) {
      const Workload measured = job(std::string(network).c_str(), batch, "T4");
      PredictedSteps steps;
      const double expected = regression.estimate(Job(measured, devices), steps).log_sec;
      rows.push_back(row_of(measured, std::exp(expected + away + 0.02 * normal(random))));
    }
  }
  const std::string bad = rows[100].workload.key();
  *rows[100].avg_time_mean *= 20;
  regression.learn(rows, devices);
  ASSERT_THAT(regression.dropped(), ::testing::Contains(::testing::Field(&RejectedRun::key, bad)));

  // All rows, as the model's file has them, by a dense solve.
  const FileRows file(regression.workloads());
  const nlohmann::json json = regression.to_json(file);
  const ErrorSpread spread{json["scale"], json["noise"]};
  std::vector<OpError> known;
  for (const nlohmann::json& item : json["rows"]) {
    OpFeatures features;
    for (int i = 0; i < features.size(); ++i) features[i] = item["features"][static_cast<std::size_t>(i)];
    ByEffect slopes;
    for (int i = 0; i < slopes.size(); ++i) slopes[i] = item["slopes"][static_cast<std::size_t>(i)];
    const Workload& workload = file.workload(item["workload"]);
    known.push_back({workload, OpInput(workload, item["deviation"], features, slopes), item["log_ratio"],
                     item["label_variance"], item["runs"]});
  }
  const auto n = static_cast<Eigen::Index>(known.size());
  ASSERT_GT(n, static_cast<Eigen::Index>(exact_rows));
  Eigen::MatrixXd covariance(n, n);
  Eigen::VectorXd ratios(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const OpError& row = known[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < n; ++j)
      covariance(i, j) = spread.covariance(row.input, known[static_cast<std::size_t>(j)].input);
    covariance(i, i) += spread.variance_of_label(row);
    ratios[i] = row.log_ratio;
  }
  const Eigen::LDLT<Eigen::MatrixXd> factor(covariance);
  std::vector<Workload> asked;
  for (const char* network : {"resnet50", "vgg16", "mobilenet_v2", "bert_base", "densenet121", "gpt2"}) {
    for (const char* device : {"T4", "V100-SXM2-16GB"}) asked.push_back(job(network, 24, device));
  }
  const JointNormal joint = regression.joint(asked, devices);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Job job(asked[i], devices);
    PredictedSteps steps;
    const OpStep prior = regression.prior().epoch(job, steps);
    const Estimate estimate = regression.estimate(job, steps);
    const double of_estimate = estimate.deviation() * estimate.deviation();
    const OpInput input(asked[i], prior.time.deviation(), prior.features, prior.slopes);
    Eigen::VectorXd shared(n);
    for (Eigen::Index k = 0; k < n; ++k) shared[k] = spread.covariance(input, known[static_cast<std::size_t>(k)].input);
    const Eigen::VectorXd weights = factor.solve(shared);
    const double variance = spread.covariance(input, input) + spread.noise * spread.noise - weights.dot(shared);
    const double expected = prior.time.log_sec + weights.dot(ratios);
    EXPECT_LT(std::abs(estimate.log_sec - expected), 0.8 * std::sqrt(variance)) << asked[i].key();
    EXPECT_GE(of_estimate, variance * (1 - 1e-6)) << asked[i].key();
    EXPECT_LT(of_estimate, 1.2 * variance) << asked[i].key();
    const auto at = static_cast<Eigen::Index>(i);
    EXPECT_NEAR(joint.mean[at], estimate.log_sec, 1e-9);
    EXPECT_NEAR(joint.covariance(at, at), of_estimate - spread.noise * spread.noise, 1e-9);
  }
}

TEST(OpRegression, MislabelledRowsAreDropped) {
  std::vector<AggregateRow> rows;
  for (const char* network : {"resnet18", "resnet34", "resnet50", "vgg11", "vgg16", "densenet121"}) {
    for (const std::int64_t batch : {16, 32}) {
      const Workload measured = job(network, batch, "T4");
      rows.push_back(row_of(measured, op_sec(measured)));
    }
  }
  const Workload bad = rows[4].workload;
  *rows[4].avg_time_mean *= 10;
  const TimeRegressor model = TimeRegressor::fit(rows);
  ASSERT_EQ(model.dropped().size(), 1U);
  EXPECT_EQ(model.dropped()[0].key, bad.key());
  EXPECT_NEAR(model.predict(bad).time_sec.p50 / op_sec(bad), 1, 0.1);
}

}  // namespace
}  // namespace perfpred
