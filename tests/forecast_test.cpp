// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/forecast.h>
#include <perfpred/network.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/roofline.h>
#include <perfpred/step_file.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "made_up_rows.h"
#include "refusal.h"
#include "sample_step.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

TEST(Forecast, AStepOfManyBatchesIsAsWellKnownAsOneOfOne) {
  const TimeRegressor model = TimeRegressor::standard();
  Workload job = Workload::zoo("resnet50", 32);
  job.device = "A100-SXM4-80GB";
  const auto width = [&](std::int64_t batches) {
    job.accumulate = batches;
    const Quantiles sec = forecast(model, job, {}).step_sec;
    return std::log(sec.p95 / sec.p05);
  };
  EXPECT_NEAR(width(16), width(1), 0.1 * width(1));
}

double step_sec(const TimeRegressor& model, const Workload& job) { return forecast(model, job, {}).step_sec.p50; }

TEST(Forecast, BatchesOfAStepCountHoweverItIsExecuted) {
  const TimeRegressor model = TimeRegressor::standard();
  for (const auto& [field, value] : {std::pair("compiled", "1"), {"software", "xla"}, {"phases", "forward"}}) {
    Workload job = with_field(Workload::zoo("resnet50", 32), field, value);
    job.device = "A100-SXM4-80GB";
    const double one = step_sec(model, job);
    job.accumulate = 8;
    EXPECT_GT(step_sec(model, job), 7 * one) << value;
    EXPECT_LT(step_sec(model, job), 8.1 * one) << value;  // a worse device may hold one of them down
  }
}

TEST(Forecast, ACompilerLosesNothingAndLoadingDataGainsNothing) {
  const TimeRegressor model = TimeRegressor::standard();
  for (const char* network : {"resnet50", "vgg16", "vit_b_16", "gpt2", "mobilenet_v2", "bert_base"}) {
    for (const char* device : {"A100-SXM4-80GB", "RTX 4090", "T4", "H200", "A10"}) {
      Workload job = Workload::zoo(network, 32);
      job.device = device;
      job.precision = Precision::fp16;
      const double eager = step_sec(model, job);
      EXPECT_LE(step_sec(model, with_field(job, "compiled", "1")), eager) << network << " " << device;
      EXPECT_GE(step_sec(model, with_field(job, "loader", "included")), eager) << network << " " << device;
    }
  }
}

TEST(Forecast, TheLayoutOfImagesIsNothingToTexts) {
  const TimeRegressor model = TimeRegressor::standard();
  Workload job = Workload::zoo("gpt2", 4);
  job.device = "A10";
  job.precision = Precision::fp16;
  EXPECT_EQ(step_sec(model, job), step_sec(model, with_field(job, "layout", "nhwc")));
}

TEST(Forecast, TermsOutOfRangeAreRefused) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload job = Workload::cifar_cnn(3, 32, 128);
  const auto refusal = [&](auto change) {
    JobTerms terms;
    change(terms);
    return testing::refusal([&] { (void)forecast(model, job, terms); });
  };
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.epochs = -1; }), "epochs -1 is not positive");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.quantiles = {0.5, 1}; }), "quantile 1 is not above 0 and below 1");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.epochs = 0; }), "epochs 0 is not positive");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.startup_sec = -3; }), "startup_sec -3 is not a number >= 0");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.price_per_hour = -0.5; }), "price_per_hour -0.5 is not a number >= 0");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.budget_sec = 0; }), "budget_sec 0 is not positive");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.epochs = HUGE_VAL; }), "epochs inf is not positive");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.evaluation = -1; }), "evaluation is negative");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.checkpoint_sec = -1; }), "checkpoint_sec -1 is not a number >= 0");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.checkpoint_every = 0; }), "checkpoint_every 0 is not positive");
  EXPECT_EQ(refusal([](JobTerms& terms) { terms.price_per_hour = 0; }), "");
  EXPECT_EQ(refusal([](JobTerms& terms) {
              terms.epochs = 1e9;
              terms.price_per_hour = 1.5e308;
            }),
            "price_per_hour 1.5e+308 is too large");
  Workload shortest = Workload::cifar_cnn(3, 32, 128);
  shortest.train_images = 1;
  JobTerms terms;
  terms.budget_sec = 1.5e308;
  EXPECT_EQ(testing::refusal([&] { (void)forecast(model, shortest, terms); }), "budget_sec 1.5e+308 is too large");
}

/// 83 batches of 64 images are ten updates of eight, and one of three, which takes no longer than a fourth of the ten.
TEST(Forecast, AnEpochsLastUpdateHasTheBatchesThatAreLeft) {
  Workload job = Workload::zoo("resnet18", 64);
  job.device = "A100-SXM4-80GB";
  job.accumulate = 8;
  job.train_images = 83 * 64;
  const Forecast answer = forecast(TimeRegressor::standard(), job, {});
  const double updates = answer.prediction.time_sec.p50 / answer.step_sec.p50;
  EXPECT_GT(updates, 10.375);
  EXPECT_LT(updates, 10.5);
}

/// Their states are tensors of sizes that the step makes while it holds those of the parameters.
TEST(Forecast, EightBitOptimizersTrainAdaptersOfAnyNetwork) {
  for (const char* network : {"bert_base", "gpt2_medium", "gpt2", "roberta_base"}) {
    for (const Optimizer optimizer : {Optimizer::adam8bit, Optimizer::adamw8bit, Optimizer::paged_adamw8bit}) {
      Workload job = Workload::zoo(network, 1);
      job.device = "L4";
      job.input = {512};
      job.adapter = "lora:r=16,targets=attention";
      job.optimizer = optimizer;
      EXPECT_GT(forecast(TimeRegressor::standard(), job, {}).step_sec.p50, 0) << network;
    }
  }
}

TEST(Forecast, EveryReasonHasItsWord) {
  EXPECT_EQ(to_string(DomainViolation::none), "");
  EXPECT_EQ(to_string(DomainViolation::depth_out_of_range), "depth_out_of_range");
  EXPECT_EQ(to_string(DomainViolation::unknown_op), "unknown_op");
}

TEST(Forecast, WhatIsNotStatedWidensTheIntervalByWhatItIsWorth) {
  const TimeRegressor model = TimeRegressor::standard();
  Workload job = Workload::zoo("resnet50", 64);
  job.device = "A100-SXM4-80GB";
  job.precision = Precision::fp16;
  const auto width = [](const Forecast& answer) {
    return std::log(answer.prediction.time_sec.p95 / answer.prediction.time_sec.p05) / 2;
  };
  JobTerms terms;
  const Forecast stated = forecast(model, job, terms);
  EXPECT_TRUE(stated.narrow_by.empty());
  terms.unstated = {"layout", "compiled", "software", "loader"};
  const Forecast guessed = forecast(model, job, terms);
  EXPECT_EQ(guessed.prediction.time_sec.p50, stated.prediction.time_sec.p50);
  EXPECT_GT(width(guessed), 1.05 * width(stated));
  ASSERT_FALSE(guessed.narrow_by.empty());
  EXPECT_LE(guessed.narrow_by.size(), 2U);
  double before = width(stated);
  for (const Narrowing& narrowing : guessed.narrow_by) {
    JobTerms other = terms;
    std::erase(other.unstated, narrowing.field);
    const double narrowed = width(forecast(model, job, other));
    EXPECT_NEAR(narrowed, narrowing.half_width, 1e-9) << narrowing.field;
    EXPECT_LT(narrowed, width(guessed));
    EXPECT_GE(narrowed, before);  // the one worth most comes first
    before = narrowed;
  }
}

/// Convolutions of 3x3 in single precision apart, which Winograd's algorithm computes with up to four times fewer
/// products (Lavin and Gray 2016, F(4x4, 3x3)).
void expect_no_faster_than_roofline(const TimeRegressor& model, const Workload& job) {
  const Device on = DeviceCatalogue().find(job.device);
  const OpGraph step = job.graph();
  const auto limits = limits_if_known(on, execute(step, on.kind), job.precision);
  if (!limits) return;
  const bool single = job.precision == Precision::fp32 || (job.precision == Precision::tf32 && !on.tf32_tflops);
  const bool winograd = single && step.totals(OpKind::convolution).ops > 0;
  const double least = winograd ? std::max(limits->memory_sec, limits->compute_sec / 4) : limits->time_sec;
  EXPECT_GE(forecast(model, job).step_sec.p50, least) << job.key();
}

TEST(Forecast, NoNetworkOfTheZooIsFasterThanItsRoofline) {
  const TimeRegressor model = TimeRegressor::standard();
  for (const std::string_view network : zoo_networks()) {
    for (const char* device : {"T4", "A100-SXM4-80GB", "H200", "MI300X"}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        Workload job = Workload::zoo(network, 8);
        if (job.input.size() == 1) job.input = {128};
        job.device = device;
        job.precision = precision;
        expect_no_faster_than_roofline(model, job);
      }
    }
  }
}

TEST(Forecast, NoCapturedStepIsFasterThanItsRoofline) {
  const testing::TemporaryFolder folder;
  const TimeRegressor model = TimeRegressor::standard();
  for (const char* network : {"resnet18", "gpt2"}) {
    Workload job = Workload::zoo(network, 8);
    if (job.input.size() == 1) job.input = {128};
    const std::string file = folder.file(std::string(network) + ".json");
    write_step(file, Precision::bf16, {8}, [&](std::int64_t batch) {
      job.batch_size = batch;
      job.precision = Precision::bf16;
      return job.graph();
    });
    Workload captured;
    captured.network = add_graph(file).name();
    captured.batch_size = 8;
    captured.precision = Precision::bf16;
    for (const char* device : {"T4", "A100-SXM4-80GB", "H200", "MI300X"}) {
      captured.device = device;
      expect_no_faster_than_roofline(model, captured);
    }
  }
}

/// A job of a captured step with an operator of this name, on a T4.
Workload job_with(const char* op, const testing::TemporaryFolder& folder) {
  nlohmann::json step = testing::linear_step();
  step["ops"][4]["name"] = op;
  step["ops"][4]["outputs"] = {2};
  Workload job;
  job.network = add_graph(folder.write("step.json", step.dump())).name();
  job.batch_size = testing::batch;
  job.device = "T4";
  return job;
}

TEST(Forecast, ACapturedStepIsMadeOnceForAnAnswer) {
  static int made = 0, anew = 0;  // how often a graph counted its operator
  const testing::TemporaryFolder folder;
  register_op("mylib::counting", [](const auto&, const auto&) { return static_cast<double>(++made); });
  const Workload job = job_with("mylib::counting", folder);
  const TimeRegressor model = TimeRegressor::standard();
  made = 0;
  (void)forecast(model, job);
  EXPECT_EQ(made, 1);
  (void)forecast(model, job);
  EXPECT_EQ(made, 1) << "it is kept";
  register_op("mylib::counting", [](const auto&, const auto&) { return static_cast<double>(++anew); });
  (void)forecast(model, job);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(anew, 1) << "a rule that changes counts";
}

TEST(Forecast, TheLargestBatchOfASmallCapturedStepTakesFewGraphs) {
  static int made = 0;  // how often a graph counted its operator
  const testing::TemporaryFolder folder;
  register_op("mylib::counted", [](const auto&, const auto&) {
    ++made;
    return 64.0;
  });
  const Workload job = job_with("mylib::counted", folder);
  made = 0;
  JobTerms terms;
  terms.find_largest_batch = true;
  const Forecast answer = forecast(TimeRegressor::standard(), job, terms);
  EXPECT_GT(answer.largest_batch, 1'000'003);
  EXPECT_LE(made, 4) << "of the batch itself, of one sample, and of one near and one far";
}

TEST(Forecast, NoStepIsFasterThanItsRoofline) {
  const TimeRegressor model = TimeRegressor::standard();
  for (const char* network :
       {"resnet50", "vgg16", "efficientnet_b0", "convnext_tiny", "vit_b_16", "bert_base", "gpt2"}) {
    for (const char* device : {"P100-PCIE-16GB", "Tesla V100-SXM2-16GB", "T4", "A100-SXM4-80GB", "RTX 3090", "RTX 4090",
                               "H100-SXM5-80GB", "H200", "B200", "MI300X"}) {
      for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
        for (const std::int64_t batch : {1, 64}) {
          Workload job = Workload::zoo(network, batch);
          job.device = device;
          job.precision = precision;
          job.optimizer = Optimizer::adamw;
          expect_no_faster_than_roofline(model, job);
        }
      }
    }
  }
}

/// TFLOP/s of causal attention with 128 numbers a head, forward and backward: FlashAttention-2 reaches 189 on an A100
/// and 335 on an H100 (Dao 2023, figures 4 and 7); a half is left where texts are short.
TEST(Forecast, AttentionOfLongTextsComputesWhatFlashAttentionDoes) {
  const auto rate = [](const char* device, std::int64_t words) {
    Workload job = Workload::zoo("transformer:layers=8,hidden=4096,heads=32,vocab=1000,mlp_hidden=512,bias=0,dropout=0",
                                 16'384 / words, {words});
    job.device = device;
    job.precision = Precision::bf16;
    job.weights = Weights::bf16;
    const Forecast answer = forecast(TimeRegressor::standard(), job);
    double attention = 0, all = 0;
    for (const TimeTerm& term : answer.breakdown) {
      all += term.sec;
      if (term.op.starts_with("attention")) attention += term.sec;
    }
    return 8 * 3.5 * 2.0 * 16'384.0 * static_cast<double>(words) * 4096 / (attention / all * answer.step_sec.p50) /
           1e12;
  };
  EXPECT_NEAR(rate("A100-SXM4-80GB", 16'384) / 189, 1, 0.15);
  EXPECT_LT(rate("H100-SXM5-80GB", 16'384), 335);
  EXPECT_GT(rate("H100-SXM5-80GB", 16'384), 335 * 0.7);
  EXPECT_NEAR(rate("A100-SXM4-80GB", 512) / rate("A100-SXM4-80GB", 16'384), 0.6, 0.15);
}

TEST(Forecast, TheHostIsAPartOfAStepThatWaitsForIt) {
  Workload job = Workload::zoo("shufflenet_v2_x0_5", 1);  // some hundred short kernels
  job.device = "A100-SXM4-80GB";
  const Forecast answer = forecast(TimeRegressor::standard(), job);
  EXPECT_EQ(answer.bound, Bound::launch);
  ASSERT_FALSE(answer.breakdown.empty());
  EXPECT_EQ(answer.breakdown.front().op, "host");
  EXPECT_GT(answer.breakdown.front().sec, 0.5 * answer.prediction.time_sec.p50);
  job.cuda_graph = true;
  EXPECT_LT(forecast(TimeRegressor::standard(), job).prediction.time_sec.p50, 0.5 * answer.prediction.time_sec.p50);
  job.cuda_graph = false;
  JobTerms terms;
  terms.epochs = 1e308;
  EXPECT_EQ(testing::refusal([&] { (void)forecast(TimeRegressor::standard(), job, terms); }),
            "epochs 1e+308 are too many");
  terms = {.price_per_hour = 1e308};
  EXPECT_EQ(testing::refusal([&] { (void)forecast(TimeRegressor::standard(), job, terms); }),
            "price_per_hour 1e+308 is too large");
  job.train_images = 1;  // an epoch takes less than a second
  terms = {.budget_sec = 1e308};
  EXPECT_EQ(testing::refusal([&] { (void)forecast(TimeRegressor::standard(), job, terms); }),
            "budget_sec 1e+308 is too large");
}

/// ResNet-50 on a T4 by the standard model.
Forecast of_images(std::int64_t images, std::int64_t batch) {
  Workload job = Workload::zoo("resnet50", batch);
  job.device = "T4";
  job.train_images = images;
  return forecast(TimeRegressor::standard(), job);
}

TEST(Forecast, AnEpochsLastStepHasTheSamplesThatAreLeft) {
  const auto epoch = [](std::int64_t images, std::int64_t batch) {
    return of_images(images, batch).prediction.time_sec.p50;
  };
  EXPECT_NEAR(epoch(65, 64), epoch(64, 64) + epoch(1, 1), 1e-9);
  EXPECT_NEAR(epoch(1023, 64), 15 * epoch(64, 64) + epoch(63, 63), 1e-9);
  EXPECT_NEAR(epoch(1024, 2048), epoch(1024, 1024), 1e-9);  // a batch is no more than there is
  EXPECT_NEAR(epoch(64 * 200 + 32, 64), 200.5 * epoch(64, 64), 1e-9);
}

TEST(Forecast, AStepIsOneOfAFullBatch) {
  const auto step = [](std::int64_t images, std::int64_t batch) { return of_images(images, batch).step_sec.p50; };
  EXPECT_NEAR(step(65, 64), step(64, 64), 1e-9);
  EXPECT_NEAR(step(64 * 200 + 32, 64), step(64, 64), 1e-9);
  EXPECT_NEAR(step(1024, 2048), step(1024, 1024), 1e-9);
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const auto of_runs = [&](std::int64_t images) {
    Workload job = Workload::cifar_cnn(3, 32, 128);
    job.train_images = images;
    return forecast(model, job).step_sec.p50;
  };
  EXPECT_NEAR(of_runs(129), of_runs(128), 1e-9);
}

TEST(Forecast, WhatAnOpModelCannotKnowIsRefused) {
  Workload job = Workload::zoo("resnet50", 8);
  job.device = "T4";
  const auto refusal = [&](Workload changed) {
    return testing::refusal([&] { (void)forecast(TimeRegressor::standard(), changed); });
  };
  EXPECT_EQ(refusal(job), "");
  Workload changed = job;
  changed.precision = Precision::bf16;
  EXPECT_EQ(refusal(changed), "device \"T4\" has no bf16_tflops; it has peaks for fp64, fp32, tf32, default, fp16");
  changed = job;
  changed.threads = 4;
  EXPECT_EQ(refusal(changed), "threads are given, but the device is not a CPU");
  changed = job;
  changed.device = "unknown";
  EXPECT_EQ(refusal(changed), "device is missing");
}

/// What is asked for by number lies on the curve of the interval, and has the job's terms.
TEST(Forecast, QuantilesByNumberAreThoseOfTheJob) {
  Workload job = Workload::zoo("resnet50", 64);
  job.device = "A100-80GB-PCIe";
  JobTerms terms;
  terms.epochs = 90;
  terms.startup_sec = 600;
  terms.quantiles = {0.001, 0.05, 0.5, 0.95, 0.99, 0.999, 1 - 1e-12};
  const Forecast answer = forecast(TimeRegressor::standard(), job, terms);
  ASSERT_EQ(answer.quantiles.size(), terms.quantiles.size());
  for (std::size_t i = 0; i < terms.quantiles.size(); ++i) {
    EXPECT_EQ(answer.quantiles[i].q, terms.quantiles[i]);
    if (i == 0) continue;
    EXPECT_GT(answer.quantiles[i].total_sec, answer.quantiles[i - 1].total_sec);
    EXPECT_GT(answer.quantiles[i].step_sec, answer.quantiles[i - 1].step_sec);
  }
  EXPECT_EQ(answer.quantiles[1].total_sec, answer.total_sec.p05);
  EXPECT_EQ(answer.quantiles[2].total_sec, answer.total_sec.p50);
  EXPECT_EQ(answer.quantiles[3].total_sec, answer.total_sec.p95);
  EXPECT_EQ(answer.quantiles[3].step_sec, answer.step_sec.p95);
  EXPECT_GT(answer.quantiles[0].total_sec, terms.startup_sec);
}

/// An evaluation is a forward pass over its samples, as a request of its own answers for it; each part is added as
/// often as it comes, and all parts are slow together.
TEST(Forecast, AJobHasItsEvaluationsAndCheckpoints) {
  const TimeRegressor model = TimeRegressor::standard();
  Workload job = Workload::zoo("resnet50", 64);
  job.device = "A100-80GB-PCIe";
  JobTerms terms{.epochs = 7, .startup_sec = 100, .evaluation = 50'000, .checkpoint_sec = 20, .checkpoint_every = 3};
  terms.quantiles = {0.999};
  terms.price_per_hour = 3600;
  const Forecast whole = forecast(model, job, terms);
  Workload judged = job;
  judged.phases = Phases::forward;
  judged.train_images = 50'000;
  const Quantiles pass = forecast(model, judged, {}).prediction.time_sec, epoch = whole.prediction.time_sec;
  ASSERT_TRUE(whole.evaluation_sec);
  EXPECT_DOUBLE_EQ(whole.evaluation_sec->p50, pass.p50);
  EXPECT_DOUBLE_EQ(whole.evaluation_sec->p95, pass.p95);
  EXPECT_GT(pass.p50, 0);
  EXPECT_LT(pass.p50, epoch.p50 * 50'000 / 1'281'167);  // a third of the work of as many samples
  EXPECT_DOUBLE_EQ(whole.total_sec.p50, 7 * epoch.p50 + 7 * pass.p50 + 3 * 20 + 100);  // after epochs 3, 6 and 7
  EXPECT_DOUBLE_EQ(whole.total_sec.p05, 7 * epoch.p05 + 7 * pass.p05 + 160);
  EXPECT_DOUBLE_EQ(whole.quantiles[0].total_sec, 7 * quantile(epoch, 0.999) + 7 * quantile(pass, 0.999) + 160);
  EXPECT_DOUBLE_EQ(whole.price->p50, whole.total_sec.p50);

  EXPECT_EQ(forecast(model, job, {.epochs = 7}).evaluation_sec, std::nullopt);
  EXPECT_EQ(testing::refusal([&] { (void)forecast(model, judged, {.evaluation = 5}); }),
            "evaluation is for a job that trains");
}

/// Epochs of a budget by trying them one after the other.
TEST(Forecast, EpochsOfABudgetHaveTimeForEvaluationsAndCheckpoints) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload job = Workload::cifar_cnn(3, 32, 128);
  for (const double every : {0.5, 1.0, 4.0, 1e6}) {
    JobTerms terms{.startup_sec = 5, .evaluation = 2'000, .checkpoint_sec = 3, .checkpoint_every = every};
    for (const double budget : {1.0, 8.0, 60.0, 1234.5}) {
      terms.budget_sec = budget;
      const Forecast whole = forecast(model, job, terms);
      int epochs = 0;
      const auto takes = [&](int count) {
        terms.epochs = count;
        return forecast(model, job, terms).total_sec.p50;
      };
      while (takes(epochs + 1) <= budget) ++epochs;
      EXPECT_EQ(whole.epochs_in_budget->p50, epochs) << every << " " << budget;
      terms.epochs = 1;
    }
  }
}

TEST(Forecast, QuantilesOfTimePriceAndBudgetKeepTheirOrder) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Forecast job = forecast(model, Workload::cifar_cnn(3, 32, 128),
                                {.epochs = 10, .startup_sec = 5, .price_per_hour = 3.6, .budget_sec = 60});
  const Quantiles& epoch = job.prediction.time_sec;
  EXPECT_DOUBLE_EQ(job.total_sec.p05, 10 * epoch.p05 + 5);
  EXPECT_DOUBLE_EQ(job.price->p95, (10 * epoch.p95 + 5) / 1000);
  EXPECT_DOUBLE_EQ(job.images_per_sec.p05, 50'000 / epoch.p95);
  EXPECT_DOUBLE_EQ(job.epochs_in_budget->p05, std::floor(55 / epoch.p95));
  EXPECT_LE(job.epochs_in_budget->p05, job.epochs_in_budget->p95);
}

}  // namespace
}  // namespace perfpred
