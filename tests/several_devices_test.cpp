// SPDX-License-Identifier: Apache-2.0
// Jobs on several devices, through the public interface.
#include <perfpred/answer.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Workload job(std::string_view network, std::string_view device, std::int64_t batch,
             std::vector<std::int64_t> input = {}) {
  Workload workload = Workload::zoo(network, batch, std::move(input));
  workload.device = device;
  workload.precision = device == "T4" ? Precision::fp16 : Precision::bf16;
  return workload;
}

Workload on(Workload workload, std::string_view parallel, std::string_view gpus_per_node) {
  workload.parallel = ParallelLayout::parse(parallel);
  workload.gpus_per_node = Placement::parse(gpus_per_node);
  return workload;
}

Forecast forecast_of(const Workload& workload) {
  static const TimeRegressor standard = TimeRegressor::standard();
  return forecast(standard, workload);
}

TEST(SeveralDevices, OneDeviceIsTheSameJob) {
  const Workload one = job("resnet50", "A100-SXM4-80GB", 64);
  EXPECT_EQ(on(one, "ddp", "1").key(), one.key());
  EXPECT_EQ(json_text(answer(TimeRegressor::standard(), on(one, "ddp", "1"))),
            json_text(answer(TimeRegressor::standard(), one)));
  EXPECT_FALSE(forecast_of(one).scaling.has_value());
}

/// A sweep over placements begins with it.
TEST(SeveralDevices, OneDeviceSharesNothing) {
  const Workload one = job("resnet50", "A100-SXM4-80GB", 64);
  Workload alone = on(one, "fsdp", "1");
  alone.cluster = "lab";
  EXPECT_EQ(forecast_of(alone).step_sec.p50, forecast_of(one).step_sec.p50);
  EXPECT_EQ(forecast_of(alone).memory->peak_bytes, forecast_of(one).memory->peak_bytes);
  EXPECT_THAT(answer(TimeRegressor::standard(), alone).assumed, ::testing::Contains("gpus_per_node"));
}

TEST(SeveralDevices, NothingIsLostToBatchesThatAreTheSame) {
  Workload many = on(job("gpt2", "A100-SXM4-80GB", 1), "ddp", "2");
  for (const std::int64_t batches : {1, 8, 1000}) {
    many.accumulate = batches;
    const Scaling scaling = *forecast_of(many).scaling;
    EXPECT_LT(scaling.limits.batch, 1e-9) << batches;
    EXPECT_GT(scaling.efficiency, 0.9);
    EXPECT_LE(scaling.efficiency, 1);
  }
}

/// Context parallelism: each device computes its share of a sequence, and no more.
TEST(SeveralDevices, ShareLongSequences) {
  const Workload whole = job("llama3.1_8b", "H100-SXM5-80GB", 1, {131'072});
  const double one = forecast_of(on(whole, "tp=2", "2")).step_sec.p50;
  const double shared = forecast_of(on(whole, "tp=2,cp=4", "8")).step_sec.p50;
  EXPECT_GT(shared, one / 4);
  EXPECT_LT(shared, 1.15 * one / 4);  // what goes around hides behind attention
  EXPECT_LT(forecast_of(on(whole, "tp=2,cp=4", "8")).memory->activations,
            forecast_of(on(whole, "tp=2", "2")).memory->activations / 3);
}

/// Korthikanti et al. 2023: sequence parallelism leaves to each device a share of norms and residuals.
TEST(SeveralDevices, ShareNormsWithSequenceParallelism) {
  const Workload rank = job("llama3.1_8b", "H100-SXM5-80GB", 1, {8192});
  const double every = forecast_of(on(rank, "tp=8", "8")).step_sec.p50;
  const double shared = forecast_of(on(rank, "tp=8,sp=1", "8")).step_sec.p50;
  EXPECT_LT(shared, every);
  EXPECT_GT(shared, every / 8);
}

/// FSDP joined with tensor parallelism: state, gradients and parameters are shared by both, activations by one.
TEST(SeveralDevices, ShareStateOfSplitNetworks) {
  const Workload rank = job("llama3.1_8b", "H100-SXM5-80GB", 1, {8192});
  const auto memory = [&](const char* parallel, const char* placement) {
    return *forecast_of(on(rank, parallel, placement)).memory;
  };
  const MemoryEstimate split = memory("tp=2", "2"), joined = memory("fsdp+tp=2", "8"),
                       more = memory("fsdp+tp=2", "8x8");
  EXPECT_NEAR(static_cast<double>(joined.optimizer), static_cast<double>(split.optimizer) / 4, 1e7);
  EXPECT_NEAR(static_cast<double>(more.optimizer), static_cast<double>(split.optimizer) / 32, 1e7);
  EXPECT_LT(joined.parameters, split.parameters / 4);
  EXPECT_LT(more.tensors.p50, joined.tensors.p50);
  EXPECT_EQ(joined.activations, split.activations);
  EXPECT_LT(memory("zero2+tp=2", "8").tensors.p50, memory("zero1+tp=2", "8").tensors.p50);
  // Links between nodes hide less behind what is computed.
  const auto step = [&](const char* parallel, const char* placement) {
    return forecast_of(on(rank, parallel, placement)).step_sec.p50;
  };
  EXPECT_GT(step("fsdp+tp=2", "1x8"), step("fsdp+tp=2", "8"));
}

/// A rank of experts has fewer of them, and each of its words for as many ranks as share them.
TEST(SeveralDevices, SharingExpertsMakesNoWordCheaper) {
  const Workload experts = job("mixtral_8x7b", "H100-SXM5-80GB", 1, {1024});
  for (const char* parallel : {"ep=2", "ep=4", "ep=8"}) {
    const Workload shared = on(experts, parallel, "8");
    const auto products = [](const Workload& workload) {
      return workload.graph().totals(Phase::forward).conv_matmul_flops;
    };
    EXPECT_NEAR(products(shared) / products(experts), 1, 0.01) << parallel;
  }
}

TEST(SeveralDevices, ACapturedStepIsNotSplit) {
  Workload captured = on(job("gpt2", "A100-SXM4-80GB", 4), "pp=2", "2");
  captured.network = "step:0123456789ab";
  EXPECT_THAT(refusal([&] { (void)forecast_of(captured); }), HasSubstr("splits transformers of words"));
}

TEST(SeveralDevices, KeysHaveTheFieldsThatDiffer) {
  Workload many = on(job("bert_base", "V100-SXM2-16GB", 8), "zero1+tp=2", "8x4");
  many.cluster = "lab";
  EXPECT_THAT(many.key(), HasSubstr(";parallel=zero1+tp=2;gpus_per_node=8x4;cluster=lab"));
  EXPECT_EQ(Workload::from_key(many.key()), many);
  EXPECT_EQ(with_field(job("bert_base", "T4", 8), "gpus_per_node", "8+8").gpus_per_node.text(), "8x2");
}

TEST(SeveralDevices, AStepHasTheSamplesOfAllReplicas) {
  Workload many = on(job("resnet50", "A100-SXM4-80GB", 64), "ddp", "8x2");
  many.accumulate = 2;
  many.train_images = 2048 * 10;  // 64 x 2 x 16 a step
  EXPECT_EQ(many.steps_per_epoch(), 10);
  const Forecast answer = forecast_of(many);
  EXPECT_NEAR(answer.images_per_sec.p50, 2048 / answer.step_sec.p50, 1e-6 * answer.images_per_sec.p50);
  EXPECT_NEAR(answer.prediction.time_sec.p50, 10 * answer.step_sec.p50, 1e-9 * answer.prediction.time_sec.p50);
}

TEST(SeveralDevices, AForwardPassSumsNoGradients) {
  Workload forward = on(job("vgg16", "T4", 1), "ddp", "4");
  const double sums = forecast_of(forward).scaling->exposed_comm_sec;
  forward.phases = Phases::forward;
  EXPECT_LT(forecast_of(forward).scaling->exposed_comm_sec, 0.01 * sums);
}

TEST(SeveralDevices, EveryDeviceIsPaidFor) {
  const TimeRegressor model = TimeRegressor::standard();
  JobTerms terms;
  terms.price_per_hour = 2;
  const Forecast answer = forecast(model, on(job("resnet50", "A100-SXM4-80GB", 64), "ddp", "4"), terms);
  EXPECT_NEAR(answer.price->p50, 4 * 2 * answer.total_sec.p50 / 3600, 1e-9);
}

TEST(SeveralDevices, SlowLinksCostWhatTheyMust) {
  const TemporaryFolder folder;
  const auto with_links = [&](double gb_s) {
    DeviceCatalogue devices;
    devices.add_links(
        folder.write("links.csv", "cluster,scope,bus_gb_s,source\nc,intra," + std::to_string(gb_s) + ",probe\n"));
    Workload many = on(job("vgg16", "T4", 16), "ddp", "4");
    many.cluster = "c";
    return forecast(TimeRegressor::standard(devices), many);
  };
  const Forecast fast = with_links(1000), slow = with_links(0.1);
  const double alone = forecast_of(job("vgg16", "T4", 16)).step_sec.p50;
  EXPECT_LT(fast.step_sec.p50, 1.15 * alone);
  EXPECT_GT(fast.step_sec.p50, 0.9 * alone);
  // A ring moves 2 x 3/4 of 138,357,544 gradients of 4 bytes: 8.3 s at 0.1 GB/s, of which training gets half.
  const double ring_sec = 1.5 * 138'357'544 * 4 / 1e8;
  EXPECT_GT(slow.step_sec.p50, ring_sec);
  EXPECT_LT(slow.step_sec.p50, 4 * ring_sec);
  EXPECT_GT(slow.scaling->limits.links, 0.9);
  EXPECT_GT(slow.scaling->exposed_comm_sec, ring_sec);
}

TEST(SeveralDevices, ATableOfLinksHasEachOnceAndAllThatTheJobNeeds) {
  const TemporaryFolder folder;
  const auto asked = [&](const std::string& rows) {
    return refusal([&] {
      DeviceCatalogue devices;
      devices.add_links(folder.write("links.csv", "cluster,scope,bus_gb_s\n" + rows));
      Workload many = on(job("resnet50", "T4", 8), "ddp", "4x2");
      many.cluster = "lab";
      (void)forecast(TimeRegressor::standard(devices), many);
    });
  };
  EXPECT_EQ(asked("lab,intra,10\nlab,inter,5\n"), "");
  EXPECT_THAT(asked("lab,intra,10\nlab,inter,5\nlab,intra,2\n"), HasSubstr("links.csv:4: cluster"));
  EXPECT_THAT(asked("lab,intra,10\n"), HasSubstr("cluster lab has no link of scope inter"));
  EXPECT_THAT(asked("lab,inter,10\n"), HasSubstr("cluster lab has no link of scope intra"));
  EXPECT_THAT(asked(",intra,10\n"), HasSubstr("links.csv:2: cluster is empty"));
}

TEST(SeveralDevices, SaysWhyItDoesNotScale) {
  Workload many = on(job("gpt2", "A100-SXM4-80GB", 4), "tp=2,pp=4", "8x2");
  many.accumulate = 4;
  const Forecast answer = forecast_of(many);
  ASSERT_TRUE(answer.scaling.has_value());
  EXPECT_EQ(answer.scaling->devices, 16);
  EXPECT_GT(answer.scaling->efficiency, 0);
  EXPECT_LT(answer.scaling->efficiency, 1);
  const ScalingLimits& limits = answer.scaling->limits;
  EXPECT_NEAR(limits.loader + limits.host + limits.links + limits.batch + limits.bubble, 1, 1e-9);
  EXPECT_GT(limits.bubble, 0);
  many.accumulate = 64;  // hides the bubble
  EXPECT_LT(forecast_of(many).scaling->limits.bubble, limits.bubble);
  EXPECT_GT(forecast_of(many).scaling->efficiency, answer.scaling->efficiency);
}

/// A rank of tp has 1/tp of each product's operations, one of pp has 1/pp of the blocks.
TEST(SeveralDevices, ARankHasItsShareOfTheProducts) {
  Workload whole = job("transformer:layers=8,hidden=512,heads=8,vocab=4096", "A100-SXM4-80GB", 2);
  whole.input = {128};
  const auto products = [](const Workload& workload) { return workload.graph().totals().conv_matmul_flops; };
  Workload half = whole;
  half.parallel = ParallelLayout::parse("tp=2");
  EXPECT_NEAR(products(half), products(whole) / 2, 1e-9 * products(whole));
  Workload quarter = whole;
  quarter.parallel = ParallelLayout::parse("pp=4");
  Workload head = whole;  // and the embedding: what is not in the blocks
  head.network = "transformer:layers=4,hidden=512,heads=8,vocab=4096";
  const double blocks = 2 * (products(whole) - products(head));
  EXPECT_NEAR(products(quarter), products(whole) - 0.75 * blocks, 1e-9 * products(whole));
  EXPECT_EQ(half.params(), whole.params());  // of the network, not of a rank
}

TEST(SeveralDevices, ReplicasShareWhatTheLayoutSays) {
  const Workload one = job("gpt2", "A100-SXM4-80GB", 8);
  const MemoryEstimate alone = *forecast_of(one).memory;
  const auto of = [&](const char* parallel) { return *forecast_of(on(one, parallel, "8")).memory; };
  const double state = static_cast<double>(alone.optimizer);
  const std::int64_t buckets = 4 * one.params();
  EXPECT_EQ(of("ddp").tensors.p50 - alone.tensors.p50, buckets);
  EXPECT_NEAR(static_cast<double>(of("zero1").optimizer), state / 8, 1);
  EXPECT_EQ(of("zero2").gradients, (alone.gradients + 7) / 8 + buckets);
  EXPECT_LT(of("zero3").tensors.p50, of("zero2").tensors.p50);
  EXPECT_LT(of("fsdp").tensors.p50, alone.tensors.p50);
  for (const char* parallel : {"ddp", "zero1", "zero2", "zero3", "fsdp"}) {
    const MemoryEstimate memory = of(parallel);
    EXPECT_LE(memory.tensors.p50, memory.tensors.upper) << parallel;
    EXPECT_LE(memory.tensors.p50, memory.reserved.p50) << parallel;
    EXPECT_LE(memory.reserved.p50, memory.device.p50) << parallel;
  }
}

/// What loads or saves all parameters in one piece has them beside each device's share.
TEST(SeveralDevices, GatherAllParametersWhereThatIsSaid) {
  Workload lora = job("llama3.1_8b", "A100-SXM4-80GB", 1, {512});
  const double whole = 2.0 * static_cast<double>(lora.params());
  lora = with_field(with_field(lora, "adapter", "lora:r=8,targets=attention"), "weights", "bf16");
  lora.checkpoint = 1;
  const auto of = [&](const char* parallel) { return *forecast_of(on(lora, parallel, "4")).memory; };
  EXPECT_LT(static_cast<double>(of("fsdp").device.upper), whole);
  EXPECT_NEAR(static_cast<double>(of("fsdp+full=1").tensors.p50) / whole, 1.25, 0.01);
  lora = with_field(with_field(lora, "checkpoint", "none"), "batch_size", "64");
  EXPECT_EQ(of("fsdp+full=1").tensors.p50, of("fsdp").tensors.p50);  // its steps take more
}

/// The allocator keeps what it keeps of the tensors that there are: not that of weights which others have.
TEST(SeveralDevices, ReserveInProportionToTheirTensors) {
  Workload qlora = job("llama3.1_405b", "A100-SXM4-80GB", 2, {2048});
  qlora = with_field(with_field(qlora, "adapter", "lora:r=16,targets=all"), "weights", "nf4");
  qlora.checkpoint = 1;
  qlora.compiled = true;
  const MemoryEstimate alone = *forecast_of(qlora).memory, shared = *forecast_of(on(qlora, "fsdp", "8")).memory;
  EXPECT_NEAR(static_cast<double>(shared.reserved.p50) / static_cast<double>(shared.tensors.p50),
              static_cast<double>(alone.reserved.p50) / static_cast<double>(alone.tensors.p50), 1e-6);
}

TEST(SeveralDevices, MoreDevicesMakeALargeNetworkFit) {
  Workload large = job("llama3.1_8b", "A100-SXM4-80GB", 1, {4096});
  large.checkpoint = 1;
  EXPECT_EQ(forecast_of(large).verdict, MemoryVerdict::does_not_fit);
  EXPECT_EQ(forecast_of(on(large, "fsdp", "8")).verdict, MemoryVerdict::fits);
  const Forecast split = forecast_of(on(large, "zero1+tp=4,pp=2,sp=1", "8x2"));
  EXPECT_EQ(split.verdict, MemoryVerdict::fits);
  ASSERT_TRUE(split.rank.has_value());
  EXPECT_LT(split.rank->stage, 2);
}

TEST(SeveralDevices, SaysInWhichLayoutItWouldFit) {
  Workload large = on(job("llama3.1_8b", "A100-SXM4-80GB", 1, {4096}), "ddp", "8");
  large.checkpoint = 1;
  const Answer too_large = answer(TimeRegressor::standard(), large);
  ASSERT_EQ(too_large.forecast.verdict, MemoryVerdict::does_not_fit);
  const auto fits = [](const char* change) {
    return ::testing::AllOf(::testing::Field(&Advice::change, change),
                            ::testing::Field(&Advice::verdict, MemoryVerdict::fits));
  };
  EXPECT_THAT(too_large.advice, ::testing::Contains(fits("parallel=fsdp")));
  large.parallel = ParallelLayout::parse("fsdp");
  EXPECT_EQ(forecast_of(large).verdict, MemoryVerdict::fits);
}

TEST(SeveralDevices, AssumesTheLinksOfTheUsualNode) {
  const Answer of_node = answer(TimeRegressor::standard(), on(job("resnet50", "A100-SXM4-80GB", 64), "ddp", "8"));
  EXPECT_THAT(of_node.assumed, ::testing::Contains("cluster"));
  EXPECT_THAT(of_node.assumed_value("cluster"), HasSubstr("300 GB/s"));  // half of the 600 of NVIDIA's data sheet
  EXPECT_THAT(json_text(of_node), AllOf(HasSubstr("\"scaling\": {"), HasSubstr("\"efficiency\"")));
}

TEST(SeveralDevices, RefusesInOneLine) {
  struct Wrong {
    const char* network;
    const char* parallel;
    const char* gpus_per_node;
    const char* says;
  };
  for (const Wrong& wrong : std::array<Wrong, 7>{{{"resnet50", "tp=2", "2", "resnet50 is none"},
                                                  {"gpt2", "tp=5", "5", "does not divide 12 heads; 4 and 6 do"},
                                                  {"gpt2", "pp=5", "5", "does not divide 12 layers; 4 and 6 do"},
                                                  {"bert_base", "tp=2,dp=3", "8", "6 are needed"},
                                                  {"gpt2", "tp=2,dp=8", "8", "16"},
                                                  {"gpt2", "ep=2", "2", "experts"},
                                                  {"resnet50", "cp=2", "2", "resnet50 is none"}}}) {
    const std::string message = refusal(
        [&] { (void)forecast_of(on(job(wrong.network, "A100-SXM4-80GB", 8), wrong.parallel, wrong.gpus_per_node)); });
    EXPECT_THAT(message, HasSubstr(wrong.says)) << wrong.parallel;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  Workload of_cluster = on(job("resnet50", "T4", 8), "ddp", "4");
  of_cluster.cluster = "nowhere";
  EXPECT_THAT(refusal([&] { (void)forecast_of(of_cluster); }), HasSubstr("cluster nowhere is in no links.csv"));
  Workload unknown = on(job("bert_base", "TPU v4", 8), "ddp", "8");
  EXPECT_THAT(refusal([&] { (void)forecast_of(unknown); }), HasSubstr("links of device \"TPU v4\" are not known"));
}

}  // namespace
}  // namespace perfpred::testing
