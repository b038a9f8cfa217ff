// SPDX-License-Identifier: Apache-2.0
#include "torch/step/training_step.h"

#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

/// One weight for each class; what forward() does besides is the test's.
class Stub final : public TrainableNetwork {
 public:
  explicit Stub(std::function<void()> on_forward = [] {}) : on_forward_(std::move(on_forward)) {
    weight_.requires_grad_(true);
  }
  at::Tensor forward(const at::Tensor& inputs) override {
    on_forward_();
    return inputs.flatten(1).mean(1, true) * weight_;
  }
  void train(bool) override {}
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> parameters() const override {
    return {{"weight", weight_}};
  }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> buffers() const override { return {}; }

 private:
  std::function<void()> on_forward_;
  at::Tensor weight_ = at::zeros({10});
};

Batch batch(std::int64_t n) { return {at::ones({n, 3, 32, 32}), at::zeros({n}, at::kLong)}; }

StepOptions plain() {
  StepOptions options;
  options.learning_rate = 0.1;
  return options;
}

TEST(TrainingStep, IsTheSoftmaxGradientByHand) {
  Workload workload = Workload::cifar_cnn(1, 1, 2);
  workload.optimizer = Optimizer::sgd;
  TrainingStep step(workload, c10::kCPU, plain(), std::make_unique<Stub>());
  step.run(batch(2));
  // Zero weights, inputs of mean 1: logits 0, loss log 10, gradient 1/10 for every class and -9/10 for the label's.
  const at::Tensor weight = step.network_state().at(0).second;
  EXPECT_NEAR(weight[0].item<double>(), 0.09, 1e-6);
  EXPECT_NEAR(weight[5].item<double>(), -0.01, 1e-6);
  const Metrics metrics = step.take_metrics();
  EXPECT_NEAR(metrics.loss, std::log(10.0), 1e-6);
  EXPECT_DOUBLE_EQ(metrics.accuracy, 1);  // of equal logits the first
}

TEST(TrainingStep, GradientsOfSeveralBatchesAreOneUpdate) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    Workload workload = Workload::cifar_cnn(1, 1, 2);
    workload.optimizer = Optimizer::sgd;
    workload.precision = precision;
    TrainingStep step(workload, c10::kCPU, plain(), std::make_unique<Stub>());
    const auto weight = [&] { return step.network_state().at(0).second[0].item<double>(); };
    step.run(batch(2), {0.5, true, false});
    step.run(batch(1), {0.25, false, false});
    EXPECT_EQ(weight(), 0);
    step.run(batch(1), {0.25, false, true});
    EXPECT_NEAR(weight(), 0.09, 1e-3) << to_string(precision);  // as of one batch of four
    EXPECT_NEAR(step.take_metrics().loss, std::log(10.0), 1e-3);
    step.run(batch(2), {0.5, true, true});
    EXPECT_LT(weight(), 0.09 + 0.5 * 0.09);  // the gradients before are gone
  }
}

TEST(TrainingStep, MixedPrecisionWithAScalerLearnsTheSame) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    Workload workload = Workload::cifar_cnn(1, 1, 2);
    workload.optimizer = Optimizer::sgd;
    workload.precision = precision;
    TrainingStep step(workload, c10::kCPU, plain(), std::make_unique<Stub>());
    step.run(batch(2));
    EXPECT_NEAR(step.network_state().at(0).second[0].item<double>(), 0.09, 1e-3) << to_string(precision);
  }
}

TEST(TrainingStep, TellsPhasesAndTheThreadOfBackward) {
  TrainingStep step(Workload::cifar_cnn(1, 1, 2), c10::kCPU, plain(), std::make_unique<Stub>());
  std::vector<Phase> phases;
  std::vector<bool> backward;
  step.on_phase([&](Phase phase) { phases.push_back(phase); });
  step.on_backward_thread([&](bool begins) {
    EXPECT_EQ(phases.size(), 2U);
    backward.push_back(begins);
  });
  step.run(batch(2));
  EXPECT_EQ(phases, (std::vector<Phase>{Phase::forward, Phase::loss, Phase::backward, Phase::optimizer}));
  EXPECT_EQ(backward, (std::vector<bool>{true, false}));
}

TEST(TrainingStep, WithoutMetricsLearnsTheSame) {
  Workload workload = Workload::cifar_cnn(1, 1, 2);
  StepOptions options = plain();
  TrainingStep with(workload, c10::kCPU, options, std::make_unique<Stub>());
  options.metrics = false;
  TrainingStep without(workload, c10::kCPU, options, std::make_unique<Stub>());
  for (TrainingStep* step : {&with, &without}) step->run(batch(2));
  EXPECT_TRUE(at::equal(with.network_state().at(0).second, without.network_state().at(0).second));
  EXPECT_NEAR(with.take_metrics().loss, std::log(10.0), 1e-6);
  EXPECT_EQ(without.take_metrics().loss, 0);
}

TEST(TrainingStep, ADeviceThatDisappearsAndMemoryThatEndsAreTold) {
  const auto failing = [](std::function<void()> how) {
    return std::make_unique<TrainingStep>(Workload::cifar_cnn(1, 1, 2), c10::kCPU, plain(),
                                          std::make_unique<Stub>(std::move(how)));
  };
  const c10::SourceLocation here{"forward", __FILE__, __LINE__};
  EXPECT_THROW(failing([here] {
                 throw c10::AcceleratorError(here, 719, "CUDA error: unspecified launch failure");
               })->run(batch(2)),
               DeviceError);
  EXPECT_THROW(failing([here] { throw c10::OutOfMemoryError(here, "CUDA out of memory"); })->run(batch(2)),
               OutOfMemory);
  EXPECT_THROW(failing([here] { throw c10::Error(here, "CUBLAS_STATUS_ALLOC_FAILED"); })->run(batch(2)), OutOfMemory);
  EXPECT_THROW(failing([] { static_cast<void>(at::empty({std::int64_t{1} << 50})); })->run(batch(2)), OutOfMemory);
}

TEST(TorchErrors, ANetworkWithoutEngineWantsMemoryWhereThereIsNone) {
  // What cuDNN says once every algorithm that it tried has run out of memory, and also for a shape it cannot do.
  const std::string text = "FIND was unable to find an engine to execute this computation";
  EXPECT_TRUE(speaks_of_memory(text, 0.01));
  EXPECT_FALSE(speaks_of_memory(text, 0.5));
  EXPECT_FALSE(speaks_of_memory(text, std::nullopt));
  EXPECT_TRUE(speaks_of_memory("CUDA out of memory. Tried to allocate 2 GiB", std::nullopt));
  EXPECT_FALSE(speaks_of_memory("mat1 and mat2 shapes cannot be multiplied", 0.01));
}

struct Held {
  bool* freed;
  ~Held() { *freed = true; }
  void abandon() {}
};

TEST(TorchErrors, NothingIsFreedOnAFailedDevice) {
  const c10::SourceLocation here{"forward", __FILE__, __LINE__};
  const auto freed_after = [](auto&& use) {
    bool freed = false;
    auto held = std::make_unique<Held>(Held{&freed});
    freed = false;
    EXPECT_THROW(use_until_device_fails(std::move(held), use), Error);
    return freed;
  };
  EXPECT_FALSE(freed_after(
      [&](Held&) { throw c10::AcceleratorError(here, 700, "CUDA error: an illegal memory access was encountered"); }));
  EXPECT_TRUE(freed_after([&](Held&) { throw c10::OutOfMemoryError(here, "CUDA out of memory"); }));
  EXPECT_TRUE(freed_after([&](Held&) { throw c10::Error(here, "shapes do not match"); }));
}

TEST(ApplyPrecision, AllowsTf32WhereThePrecisionSaysSo) {
  const auto allowed = [](Precision precision) {
    apply_precision(precision);
    return std::pair(at::globalContext().allowTF32CuDNN(), at::globalContext().allowTF32CuBLAS());
  };
  EXPECT_EQ(allowed(Precision::tf32), std::pair(true, true));
  EXPECT_EQ(allowed(Precision::default_), std::pair(true, false));  // torch.backends' defaults
  EXPECT_EQ(allowed(Precision::fp32), std::pair(false, false));
}

TEST(TrainingStep, RefusesWhatACpuCannot) {
  Workload workload = Workload::cifar_cnn(1, 1, 2);
  workload.precision = Precision::tf32;
  EXPECT_THROW(TrainingStep(workload, c10::kCPU, plain()), InputError);
  workload.precision = Precision::unknown;
  EXPECT_THROW(TrainingStep(workload, c10::kCPU, plain()), InputError);
  workload.precision = Precision::fp32;
  workload.cuda_graph = true;
  EXPECT_THROW(TrainingStep(workload, c10::kCPU, plain()), InputError);
}

}  // namespace
}  // namespace perfpred
