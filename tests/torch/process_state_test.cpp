// SPDX-License-Identifier: Apache-2.0
// What tracing leaves in the process. Alone in its program, for it asks what is there before the first trace.
#include <gtest/gtest.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <string>

#include "../temporary_folder.h"

namespace perfpred {
namespace {

bool has_handler(c10::DispatchKey key) { return c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key); }

TEST(Tracing, RegistersItsHandlersWhenItBegins) {
  EXPECT_FALSE(has_handler(c10::DispatchKey::Fake));
  EXPECT_FALSE(has_handler(c10::DispatchKey::DeferredInit));
  Workload workload = Workload::cifar_cnn(2, 8, 8);
  workload.precision = Precision::fp16;
  const InputSpec input{{8, 3, 32, 32}, DataType::f32};
  static_cast<void>(StepTracer::network(workload).trace({&input, 1}, Optimizer::sgd));
  EXPECT_TRUE(has_handler(c10::DispatchKey::Fake));
  EXPECT_TRUE(has_handler(c10::DispatchKey::DeferredInit));
}

TEST(Tracing, LeavesTheGraphExecutorAsItWas) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("net.pt");
  torch::jit::Module module("net");
  module.register_parameter("weight", at::ones({6, 6}), false);
  module.define("def forward(self, x):\n    return x @ self.weight\n");
  module.save(path);
  for (const bool optimised : {true, false}) {
    const torch::jit::GraphOptimizerEnabledGuard guard(optimised);
    StepTracer tracer = StepTracer::torchscript(path);
    EXPECT_EQ(torch::jit::getGraphExecutorOptimize(), optimised);
    const InputSpec input{{4, 6}, DataType::f32};
    static_cast<void>(tracer.trace({&input, 1}, Optimizer::sgd));
    EXPECT_EQ(torch::jit::getGraphExecutorOptimize(), optimised);
  }
}

}  // namespace
}  // namespace perfpred
