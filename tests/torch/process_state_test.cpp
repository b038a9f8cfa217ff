// SPDX-License-Identifier: Apache-2.0
// What tracing leaves in the process. Alone in its program, for it asks what is there before the first trace.
#include <gtest/gtest.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/core/dispatch/Dispatcher.h>

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

}  // namespace
}  // namespace perfpred
