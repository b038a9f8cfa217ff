// SPDX-License-Identifier: Apache-2.0
// Steps of networks of the zoo: traced, compared, executed.
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "torch/device/memory_peak.h"
#include "torch/step/training_step.h"

namespace perfpred {

inline InputSpec input_of(const Network& network, Precision precision = Precision::fp32) {
  const Shape& shape = network.layers.at(0).output;
  const DataType floats = precision == Precision::fp64 ? DataType::f64 : DataType::f32;
  return {{shape.begin(), shape.end()}, network.tokens ? DataType::i64 : floats};
}

inline OpGraph traced(const Network& network, Optimizer optimizer, Precision precision = Precision::fp32,
                      Layout layout = Layout::nchw) {
  const InputSpec input = input_of(network, precision);
  return StepTracer::network(network, precision, layout).trace({&input, 1}, optimizer);
}

inline constexpr Phase phases[] = {Phase::forward, Phase::loss, Phase::backward, Phase::optimizer};

inline void expect_equal(const OpGraph& analytic, const OpGraph& traced) {
  EXPECT_EQ(analytic.params(), traced.params());
  EXPECT_EQ(analytic.activation_bytes(), traced.activation_bytes());
  const auto peak = [](const OpGraph& step) {
    return static_cast<double>(estimate_memory(step, TrainingJob()).peak_bytes);
  };
  EXPECT_NEAR(peak(traced) / peak(analytic), 1, 0.02);
  for (const Phase phase : phases) {
    SCOPED_TRACE(to_string(phase));
    const OpTotals a = analytic.totals(phase);
    const OpTotals t = traced.totals(phase);
    EXPECT_EQ(a.ops, t.ops);
    EXPECT_EQ(a.flops, t.flops);
    EXPECT_EQ(a.conv_matmul_flops, t.conv_matmul_flops);
    EXPECT_EQ(a.bytes_read, t.bytes_read);
    EXPECT_EQ(a.bytes_written, t.bytes_written);
  }
}

inline at::Tensor batch_of(const Network& network) {
  const Shape& shape = network.layers.at(0).output;
  const at::IntArrayRef sizes(shape.begin(), shape.rank());
  return network.tokens ? at::randint(network.classes, sizes, at::kLong) : at::randn(sizes);
}

inline at::Tensor labels_of(const Network& network) {
  const Shape& shape = network.layers.at(0).output;
  std::vector<std::int64_t> sizes = {shape[0]};
  if (network.tokens) sizes.push_back(shape[1]);
  return at::randint(network.classes, sizes, at::kLong);
}

inline std::int64_t measured_peak(const Workload& workload) {
  const MemoryPeak peak(at::kCPU);
  TrainingStep step(workload, at::kCPU, {});
  const Network network = build_network(workload);
  const Batch batch{batch_of(network), labels_of(network)};
  for (int i = 0; i < 2; ++i) step.run(batch);
  return peak.allocated_bytes();
}

}  // namespace perfpred
