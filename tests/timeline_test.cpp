// SPDX-License-Identifier: Apache-2.0
// A predicted step over time, through the public interface.
#include <perfpred/forecast.h>
#include <perfpred/timeline.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace perfpred::testing {
namespace {

using ::testing::HasSubstr;

const TimeRegressor& standard() {
  static const TimeRegressor model = TimeRegressor::standard();
  return model;
}

Workload job(std::string_view network, std::string_view device, std::int64_t batch,
             std::vector<std::int64_t> input = {}) {
  Workload workload = Workload::zoo(network, batch, std::move(input));
  workload.device = device;
  workload.precision = Precision::bf16;
  return workload;
}

Workload on(Workload workload, std::string_view parallel, std::string_view gpus_per_node) {
  workload.parallel = ParallelLayout::parse(parallel);
  workload.gpus_per_node = Placement::parse(gpus_per_node);
  return workload;
}

/// Kernels, which lie in passes.
bool is_operator(const TimelineEvent& event) { return event.bytes > 0; }

std::vector<TimelineEvent> of_lane(const Timeline& timeline, Lane lane, std::int64_t stage = 0) {
  std::vector<TimelineEvent> events;
  for (const TimelineEvent& event : timeline.events) {
    if (event.lane == lane && event.stage == stage) events.push_back(event);
  }
  return events;
}

std::vector<TimelineEvent> operators(const Timeline& timeline) {
  std::vector<TimelineEvent> events = of_lane(timeline, Lane::compute);
  std::erase_if(events, [](const TimelineEvent& event) { return !is_operator(event); });
  return events;
}

double end_of(const TimelineEvent& event) { return event.begin_sec + event.sec; }

double end_of(const Timeline& timeline) {
  double end = 0;
  for (const TimelineEvent& event : timeline.events) end = std::max(end, end_of(event));
  return end;
}

TEST(Timeline, EndsWithThePredictedStep) {
  for (const Workload& workload :
       {job("resnet50", "A100-SXM4-80GB", 64), job("resnet18", "A100-SXM4-80GB", 1),
        on(job("gpt2", "H100-SXM5-80GB", 8), "ddp", "8"), on(job("gpt2", "H100-SXM5-80GB", 8), "fsdp", "8x2"),
        on(job("llama3.1_8b", "H100-SXM5-80GB", 1, {4096}), "tp=2,pp=4", "8")}) {
    const Timeline drawn = timeline(standard(), workload);
    const Quantiles step = forecast(standard(), workload).step_sec;
    EXPECT_EQ(drawn.step_sec.p50, step.p50);
    EXPECT_NEAR(end_of(drawn), step.p50, 1e-9 * step.p50) << workload.key();
  }
}

/// A device executes one kernel after the other, none before the host has dispatched it.
TEST(Timeline, KernelsWaitForEachOtherAndForTheHost) {
  for (const std::int64_t batch : {1, 256}) {
    const Timeline drawn = timeline(standard(), job("resnet50", "A100-SXM4-80GB", batch));
    const std::vector<TimelineEvent> kernels = operators(drawn), host = of_lane(drawn, Lane::host);
    ASSERT_GT(kernels.size(), 300U);
    const double rounding = 1e-9 * drawn.step_sec.p50;
    double waiting = 0;
    for (std::size_t i = 1; i < kernels.size(); ++i) {
      ASSERT_GE(kernels[i].begin_sec, end_of(kernels[i - 1]) - rounding);
      waiting += kernels[i].begin_sec - end_of(kernels[i - 1]);
    }
    double dispatched = 0;
    std::set<double> ends;
    for (const TimelineEvent& one : host) {
      ASSERT_NEAR(one.begin_sec, dispatched, rounding);  // the host does not wait
      dispatched = end_of(one);
      ends.insert(dispatched);
    }
    for (std::size_t i = 1; i < kernels.size(); ++i) {
      if (kernels[i].begin_sec < end_of(kernels[i - 1]) + rounding) continue;
      const auto next = ends.lower_bound(kernels[i].begin_sec - rounding);
      ASSERT_NE(next, ends.end());
      ASSERT_NEAR(*next, kernels[i].begin_sec, rounding) << kernels[i].name;
    }
    // A batch of one sample leaves most of an A100 idle; one of 256 hides its host.
    EXPECT_EQ(waiting > drawn.step_sec.p50 / 4, batch == 1) << waiting;
  }
}

TEST(Timeline, SaysWhatEachOperatorDoes) {
  const Workload workload = job("resnet50", "A100-SXM4-80GB", 64);
  double flops = 0;
  std::set<std::string> layers;
  for (const TimelineEvent& event : operators(timeline(standard(), workload))) {
    flops += event.flops;
    layers.insert(event.layer);
  }
  // 3 x 4.09 GMAC an image but for the first layer's gradient of its input (He et al. 2016; torchvision 0.28: 4.09).
  EXPECT_NEAR(flops / (64 * 3 * 2 * 4.09e9), 1, 0.03);
  EXPECT_GT(layers.size(), 50U);
}

TEST(Timeline, EachMicroBatchIsDrawn) {
  Workload workload = job("gpt2", "A100-SXM4-80GB", 4);
  workload.accumulate = 3;
  std::map<std::string, int> passes;
  for (const TimelineEvent& event : of_lane(timeline(standard(), workload), Lane::compute)) {
    if (!is_operator(event)) ++passes[event.name];
  }
  for (const char* name : {"forward 1", "forward 2", "forward 3", "backward 1", "backward 2", "backward 3", "update"})
    EXPECT_EQ(passes[name], 1) << name;
}

/// Narayanan et al. 2021, section 2.2.1: of m micro-batches a stage of p is idle for (p - 1) / m of its work.
TEST(Timeline, APipelineFillsAndDrains) {
  Workload workload = on(job("llama3.1_8b", "H100-SXM5-80GB", 1, {4096}), "pp=4", "4");
  workload.accumulate = 8;
  const Timeline drawn = timeline(standard(), workload);
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    double busy = 0, last = 0, begin = 1e9, transfers = 0;
    for (const TimelineEvent& event : of_lane(drawn, Lane::compute, stage)) {
      if (event.name == "update") continue;
      EXPECT_FALSE(is_operator(event));
      busy += event.sec;
      begin = std::min(begin, event.begin_sec);
      last = std::max(last, end_of(event));
    }
    for (const TimelineEvent& event : of_lane(drawn, Lane::tensors, stage)) transfers += event.sec;
    if (stage > 0) continue;  // which begin later
    EXPECT_NEAR((last - begin) / (busy + transfers), 1 + 3.0 / 8, 0.02);
  }
}

/// DistributedDataParallel sums gradients beside the backward pass; the update waits for all of them.
TEST(Timeline, GradientsAreSummedBesideTheBackwardPass) {
  const Timeline drawn = timeline(standard(), on(job("resnet50", "A100-SXM4-80GB", 128), "ddp", "8"));
  const std::vector<TimelineEvent> sums = of_lane(drawn, Lane::gradients);
  ASSERT_EQ(sums.size(), 1U);
  const std::vector<TimelineEvent> compute = of_lane(drawn, Lane::compute);
  const auto named = [&](const char* name) {
    return *std::find_if(compute.begin(), compute.end(), [&](const TimelineEvent& one) { return one.name == name; });
  };
  EXPECT_LT(sums[0].begin_sec, end_of(named("backward")));
  EXPECT_GT(sums[0].begin_sec, named("backward").begin_sec);
  EXPECT_NEAR(end_of(sums[0]), named("update").begin_sec, 1e-9 * drawn.step_sec.p50);
}

TEST(Timeline, IsADocumentOfTraceEvents) {
  const Timeline drawn = timeline(standard(), on(job("llama3.1_8b", "H100-SXM5-80GB", 1, {4096}), "pp=2", "2"));
  const auto document = nlohmann::json::parse(trace_json(drawn));
  std::set<std::string> processes, threads;
  double end_us = 0;
  for (const auto& event : document.at("traceEvents")) {
    if (event.at("ph") == "M") {
      (event.at("name") == "process_name" ? processes : threads).insert(event.at("args").at("name").get<std::string>());
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    ASSERT_GT(event.at("dur").get<double>(), 0);
    end_us = std::max(end_us, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(processes, (std::set<std::string>{"stage 0", "stage 1"}));
  EXPECT_EQ(threads, (std::set<std::string>{"compute", "links tensors"}));
  EXPECT_NEAR(end_us, 1e6 * drawn.step_sec.p50, 1e-3 * end_us);
}

TEST(Timeline, AStepOfManyKernelsIsDrawnShort) {
  Workload workload = job("gpt2", "A100-SXM4-80GB", 1);
  workload.accumulate = 2000;
  const Timeline drawn = timeline(standard(), workload);
  EXPECT_LT(drawn.events.size(), 20'000U);
  ASSERT_EQ(drawn.simplified.size(), 1U);
  EXPECT_THAT(drawn.simplified[0], HasSubstr("first micro-batch"));
}

}  // namespace
}  // namespace perfpred::testing
