// SPDX-License-Identifier: Apache-2.0
// Networks of the zoo as modules: their parameters, what a step of them executes, what it peaks at.
#include <perfpred/device.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../refusal.h"
#include "network/layers.h"
#include "torch/step/loss.h"
#include "torch/step/training_step.h"
#include "zoo_steps.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NetworkModule, HasTheParametersOfItsWorkload) {
  ModuleOptions options;
  options.device = at::kMeta;
  for (int depth = 1; depth <= 5; ++depth) {
    for (int base = 1; base <= 128; ++base) {
      const Workload workload = Workload::cifar_cnn(depth, base, 8);
      const NetworkModule module(workload, options);
      std::int64_t params = 0;
      for (const at::Tensor& parameter : module.parameters()) params += parameter.numel();
      ASSERT_EQ(params, workload.params()) << "depth " << depth << ", base_filters " << base;
    }
  }
}

TEST(NetworkModule, NamesParametersAsTorchvisionDoes) {
  ModuleOptions options;
  options.device = at::kMeta;
  const NetworkModule module(Workload::zoo("resnet18", 1), options);
  const auto parameters = module.named_parameters();
  EXPECT_TRUE(parameters.contains("conv1.weight"));
  EXPECT_TRUE(parameters.contains("layer2.0.downsample.0.weight"));
  EXPECT_TRUE(parameters.contains("layer4.1.bn2.bias"));
  EXPECT_TRUE(parameters.contains("fc.bias"));
  EXPECT_TRUE(module.named_buffers().contains("layer1.0.bn1.running_var"));
}

TEST(NetworkModule, StartsFromItsSeed) {
  const Workload network = Workload::cifar_cnn(1, 4, 2);
  const auto first = [&](std::uint64_t seed) {
    ModuleOptions options;
    options.seed = seed;
    return NetworkModule(network, options).parameters().at(0);
  };
  EXPECT_TRUE(at::equal(first(1), first(1)));
  EXPECT_FALSE(at::equal(first(1), first(2)));
}

TEST(NetworkModule, RefusesAnotherShape) {
  NetworkModule module(Workload::cifar_cnn(1, 4, 2));
  EXPECT_THAT(testing::refusal([&] {
                (void)module.forward(torch::zeros({2, 3, 16, 16}));
              }),
              AllOf(HasSubstr("3x32x32"), HasSubstr("2x3x16x16")));
}

TEST(NetworkModule, LearnsItsBatch) {
  at::set_num_threads(1);  // others' work makes OpenMP's threads wait for each other
  at::manual_seed(0);
  Workload small = Workload::zoo("shufflenet_v2_x0_5", 8, {3, 64, 64});
  small.classes = 10;
  const Workload jobs[] = {Workload::cifar_cnn(2, 8, 8), small,
                           Workload::zoo("transformer:layers=2,hidden=32,heads=4,vocab=50", 4, {16})};
  for (const Workload& workload : jobs) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      SCOPED_TRACE(workload.network);
      ModuleOptions options;
      options.layout = layout;
      NetworkModule module(workload, options);
      torch::optim::Adam adam(module.parameters(), torch::optim::AdamOptions(3e-3));
      const Batch batch = batch_of(workload);
      std::vector<double> losses;
      for (int step = 0; step < 12; ++step) {
        adam.zero_grad();
        const at::Tensor loss = loss_of({}, module.forward(batch.inputs), batch.targets);
        loss.backward();
        adam.step();
        losses.push_back(loss.item<double>());
      }
      EXPECT_LT(losses.back(), 0.9 * losses.front());
    }
  }
}

// ---- Training ----

std::map<std::string, int>* executed = nullptr;  // operators by name

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction& function) {
  if (executed != nullptr) ++(*executed)[function.name()];
  return nullptr;
}

TEST(TrainingStep, ExecutesTheUpdateThatIsCounted) {
  at::set_num_threads(1);
  const std::pair<OpKind, const char*> names[] = {
      {OpKind::fused_sgd, "aten::_fused_sgd_"},
      {OpKind::fused_momentum, "aten::_fused_sgd_"},
      {OpKind::fused_adam, "aten::_fused_adam_"},
      {OpKind::fused_adamw, "aten::_fused_adamw_"},
      {OpKind::fused_adagrad, "aten::_fused_adagrad_"},
      {OpKind::update_scale, "aten::_amp_update_scale_"},
      {OpKind::unscale_gradients, "aten::_amp_foreach_non_finite_check_and_unscale_"},
      {OpKind::sub, "aten::sub_"},
      {OpKind::addcmul, "aten::addcmul_"},
      {OpKind::sqrt, "aten::sqrt"}};
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  for (const Optimizer optimizer : {Optimizer::none, Optimizer::sgd, Optimizer::nesterov, Optimizer::adam,
                                    Optimizer::adamw, Optimizer::adagrad, Optimizer::rmsprop}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      SCOPED_TRACE(std::string(to_string(optimizer)) + " in " + std::string(to_string(precision)));
      Workload workload = Workload::cifar_cnn(1, 4, 2);
      workload.optimizer = optimizer;
      workload.precision = precision;
      TrainingStep step(workload, at::kCPU, {});
      const Batch batch = batch_of(workload);
      step.run(batch);
      std::map<std::string, int> counts, expected;
      executed = &counts;
      step.run(batch);
      executed = nullptr;
      const OpGraph graph = workload.graph();
      for (const auto& [kind, name] : names) expected[name] += static_cast<int>(graph.totals(kind).ops);
      for (const auto& [name, count] : expected) EXPECT_EQ(counts[name], count) << name;
    }
  }
  at::removeCallback(handle);
}

// ---- Memory ----

/// The table of words has two gradients, of the embedding and of the head, which are added.
TEST(MemoryEstimate, IsWhatTiedWeightsPeakAt) {
  at::set_num_threads(1);
  Workload workload = Workload::zoo("transformer:layers=1,hidden=64,heads=4,vocab=20000", 1, {8});
  workload.optimizer = Optimizer::sgd;
  TrainingJob job;
  job.threads = job.loader_batches = 1;
  const auto measured = static_cast<double>(measured_peak(workload));
  for (const OpGraph& step : {workload.graph(), traced(workload, Optimizer::sgd)}) {
    EXPECT_NEAR(static_cast<double>(estimate_memory(execute(step, DeviceKind::cpu), job).peak_bytes) / measured, 1,
                0.02);
  }
}

/// A CPU's fused attention has no dropout, so that the decoder's is written out; the ViT's is not.
TEST(MemoryEstimate, IsWhatTransformersPeakAt) {
  at::set_num_threads(1);
  TrainingJob job = TrainingJob::on(Device::this_cpu()).value();
  job.threads = job.loader_batches = 1;
  for (const std::int64_t batch : {1, 4}) {
    for (const Workload& workload : {Workload::zoo("transformer:layers=3,hidden=64,heads=8,vocab=100", batch, {256}),
                                     Workload::zoo("vit_b_32", batch)}) {
      SCOPED_TRACE(workload.key());
      const ExecutedStep step = execute(workload.graph(), DeviceKind::cpu);
      const auto estimate = static_cast<double>(estimate_memory(step, job).peak_bytes);
      EXPECT_NEAR(estimate / static_cast<double>(measured_peak(workload)), 1, 0.02);
    }
  }
}

TEST(MemoryEstimate, IsWhatCpuTensorsPeakAt) {
  at::set_num_threads(1);
  std::vector<std::string> names = {"alexnet",   "cifar_resnet18",     "densenet121",
                                    "googlenet", "mnasnet0_5",         "mobilenet_v2",
                                    "resnet18",  "shufflenet_v2_x0_5", "squeezenet1_1"};
  // 1: every CNN of the zoo (half an hour, 12 GB); else those whose names begin so.
  const char* all = std::getenv("PERFPRED_MEASURE_ALL");
  if (all != nullptr) {
    names.clear();
    for (const std::string_view name : zoo_networks()) {
      const bool asked = std::string_view(all) == "1" || name.starts_with(all);
      if (asked && !build_network(Workload::zoo(name, 1)).tokens) names.emplace_back(name);
    }
  }
  for (const std::string& name : names) {
    const Workload usual = Workload::zoo(name, 1);
    constexpr std::array<std::string_view, 4> of_one_size = {"vit_", "inception_", "maxvit_", "ssd300_"};
    const bool fixed = usual.input.at(1) < 64 || std::ranges::any_of(of_one_size, [&](std::string_view family) {
                         return name.starts_with(family);
                       });
    for (const std::int64_t batch : {2, 6}) {
      const Workload workload = fixed ? Workload::zoo(name, batch) : Workload::zoo(name, batch, {3, 96, 96});
      TrainingJob job = TrainingJob::on(Device::this_cpu()).value();
      job.threads = job.loader_batches = 1;
      const MemoryEstimate memory = estimate_memory(execute(workload.graph(), DeviceKind::cpu), job);
      const auto estimate = static_cast<double>(memory.peak_bytes);
      const auto measured = static_cast<double>(measured_peak(workload));
      EXPECT_NEAR(estimate / measured, 1, 0.02) << name << ", batch " << batch;
      int refused = 0;
      for (int hundredth = -100; hundredth < 100; ++hundredth) {  // of an octave beyond what was needed
        Device device;
        device.mem_gb = measured / 1e9 * std::exp2(hundredth / 100.0);
        const bool enough = hundredth >= 0, fits = memory.verdict(device) == MemoryVerdict::fits;
        EXPECT_TRUE(enough || !fits) << name << ", batch " << batch << ", " << hundredth;
        if (enough && !fits) ++refused;
      }
      EXPECT_LE(refused, 10) << name << ", batch " << batch;
      if (all != nullptr) {
        // A row of data/tables/cpu_memory.csv.
        std::printf("%s,%d,%.1f,%+.2f\n", name.c_str(), static_cast<int>(batch), measured / 1e6,
                    100 * (estimate / measured - 1));
      }
    }
  }
}

}  // namespace
}  // namespace perfpred
