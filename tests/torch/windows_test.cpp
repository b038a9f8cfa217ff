// SPDX-License-Identifier: Apache-2.0
// Attention in windows, kernels that are not square, auxiliary heads, boxes: how they are traced, and what they
// compute.
#include <perfpred/device.h>
#include <perfpred/torch/network_module.h>

#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zoo_steps.h"

namespace perfpred {
namespace {

using at::Tensor;

/// Sides of 25 and 9, 13 and 5, 7 and 3, 4 and 2 positions: padded and cropped in both directions or in one, with more
/// windows, one column of them, or one.
TEST(Windows, TracedAndAnalyticStepsAgreeOnEveryDevice) {
  for (const auto& [name, input] : {std::pair("swin_t", std::vector<std::int64_t>{3, 100, 36}),
                                    std::pair("swin_t", std::vector<std::int64_t>{3, 36, 100}),
                                    std::pair("maxvit_t", std::vector<std::int64_t>{3, 224, 224}),
                                    std::pair("inception_v3", std::vector<std::int64_t>{3, 299, 331})}) {
    for (const std::int64_t batch : {1, 2}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp64}) {
        const Workload network = Workload::zoo(name, batch, input);
        const OpGraph analytic = step_of(network, Optimizer::adam, precision);
        const OpGraph trace = traced(network, Optimizer::adam, precision);
        EXPECT_EQ(trace.totals(OpKind::unknown).ops, 0);
        for (const DeviceKind device : {DeviceKind::other, DeviceKind::gpu, DeviceKind::cpu}) {
          SCOPED_TRACE(fmt::format("{}, batch {}, {}, {}", name, batch, to_string(precision), to_string(device)));
          expect_equal(execute(analytic, device).graph(), execute(trace, device).graph());
        }
      }
    }
  }
}

/// Numbers between -1/2 and 1/2, the same as in torchvision_logits.py.
Tensor pattern(at::IntArrayRef sizes) {
  const Tensor j = at::arange(c10::multiply_integers(sizes), at::kLong);
  return ((j * j + 7919 * j).remainder(104729).to(at::kDouble) / 104729 - 0.5).view(sizes);
}

void fill(NetworkModule& module) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    Tensor parameter = item.value();
    const Tensor values = pattern(parameter.sizes());
    if (item.key().find("relative_position") != std::string::npos) {
      parameter.copy_(values * 4);
    } else if (parameter.dim() > 1) {
      parameter.copy_(
          values * std::sqrt(12.0 * static_cast<double>(parameter.size(0)) / static_cast<double>(parameter.numel())));
    } else {
      parameter.copy_(values * 0.2 + (item.key().ends_with("weight") ? 1 : 0));
    }
  }
}

void expect_close(const Tensor& logits, const std::vector<double>& expected) {
  const Tensor first = logits.slice(1, 0, 4).flatten().to(at::kDouble);
  ASSERT_EQ(first.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(first[static_cast<std::int64_t>(i)].item<double>(), expected[i], 1e-3 * std::abs(expected[i]) + 1e-4);
  }
}

// torchvision 0.26.0: tests/torch/torchvision_logits.py
TEST(NetworkModule, ComputesWhatTorchvisionsNetworksCompute) {
  const at::NoGradGuard no_grad;
  const auto module_of = [](const char* name, const std::vector<std::int64_t>& input) {
    auto module = std::make_shared<NetworkModule>(Workload::zoo(name, 1, input));
    fill(*module);
    module->eval();
    return module;
  };
  const auto images = [](std::int64_t samples, std::int64_t height, std::int64_t width) {
    return (pattern({samples, 3, height, width}) * 4).to(at::kFloat);
  };
  expect_close(module_of("swin_t", {3, 100, 36})->forward(images(2, 100, 36)),
               {4.2381849, 0.2597954, 0.9010190, -0.2270297, 4.2308888, 0.1071116, 1.4523854, 0.0683614});
  expect_close(module_of("maxvit_t", {3, 224, 224})->forward(images(1, 224, 224)),
               {0.7028871, -0.4160564, 0.2596576, 0.6523978});

  const auto inception = module_of("inception_v3", {3, 299, 299});
  const Tensor batch = images(2, 299, 299);
  expect_close(inception->forward(batch),
               {0.0785506, -0.1084103, -0.0367358, -0.0690179, 0.0785685, -0.1084293, -0.0367343, -0.0690134});
  inception->train();
  std::vector<Tensor> trained_on;
  const Tensor logits = inception->forward(batch);
  const Tensor loss = inception->loss(logits, [&](const Tensor& of) {
    trained_on.push_back(of);
    return of.mean();
  });
  ASSERT_EQ(trained_on.size(), 2U);
  EXPECT_TRUE(trained_on[0].is_same(logits));
  expect_close(trained_on[1],
               {1.1521947, -0.2743783, 0.1019763, -0.6011729, 1.5946649, 0.0401676, -0.2842080, 0.0294885});
  EXPECT_NEAR(loss.item<double>(), trained_on[0].mean().item<double>() + 0.4 * trained_on[1].mean().item<double>(),
              1e-6 * std::abs(loss.item<double>()) + 1e-9);
}

TEST(NetworkModule, AddsTheDistanceOfADetectorsBoxesFromZero) {
  const at::NoGradGuard no_grad;
  NetworkModule detector(Workload::zoo("ssd300_resnet50", 1));
  detector.eval();
  for (const auto& item : detector.named_parameters()) {
    item.value().fill_(item.key().starts_with("loc.") && item.key().ends_with("bias") ? 3 : 0);
  }
  const Tensor logits = detector.forward(pattern({1, 3, 300, 300}).to(at::kFloat));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{1, 8732, 81}));
  const Tensor loss = detector.loss(logits, [](const Tensor& of) { return of.mean() + 7; });
  EXPECT_NEAR(loss.item<double>(), 7 + (3 - 0.5), 1e-5);  // smooth L1 of 3
}

}  // namespace
}  // namespace perfpred
