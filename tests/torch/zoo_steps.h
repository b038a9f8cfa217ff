// SPDX-License-Identifier: Apache-2.0
// Steps of networks of the zoo: traced, compared, executed.
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "network/layers.h"
#include "torch/device/memory_peak.h"
#include "torch/step/training_step.h"

namespace perfpred {

inline std::vector<std::int64_t> input_sizes(const Workload& workload) {
  std::vector<std::int64_t> sizes = workload.input;
  sizes.insert(sizes.begin(), workload.batch_size);
  return sizes;
}

inline InputSpec input_of(const Workload& workload) {
  const DataType floats = workload.precision == Precision::fp64 ? DataType::f64 : DataType::f32;
  return {input_sizes(workload), build_network(workload).tokens ? DataType::i64 : floats};
}

inline OpGraph step_of(Workload workload, Optimizer optimizer, Precision precision = Precision::fp32) {
  workload.optimizer = optimizer;
  workload.precision = precision;
  return workload.graph();
}

inline OpGraph traced(Workload workload, Optimizer optimizer, Precision precision = Precision::fp32) {
  workload.precision = precision;
  const InputSpec input = input_of(workload);
  return StepTracer::network(workload).trace({&input, 1}, optimizer);
}

inline constexpr Phase phases[] = {Phase::forward, Phase::loss, Phase::backward, Phase::optimizer};

inline void expect_equal(const OpGraph& analytic, const OpGraph& traced) {
  EXPECT_EQ(analytic.params(), traced.params());
  EXPECT_EQ(analytic.activation_bytes(), traced.activation_bytes());
  const auto peak = [](const OpGraph& step) {
    return static_cast<double>(estimate_memory(execute(step, DeviceKind::other), TrainingJob()).peak_bytes);
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

inline Batch batch_of(const Workload& workload) {
  const Network network = build_network(workload);
  const std::vector<std::int64_t> sizes = input_sizes(workload);
  if (!network.tokens) return {at::randn(sizes), at::randint(network.classes, workload.batch_size, at::kLong)};
  return {at::randint(network.classes, sizes, at::kLong), at::randint(network.classes, sizes, at::kLong)};
}

inline std::int64_t measured_peak(const Workload& workload) {
  const MemoryPeak peak(at::kCPU);
  TrainingStep step(workload, at::kCPU, {});
  const Batch batch = batch_of(workload);
  for (int i = 0; i < 2; ++i) step.run(batch);
  return peak.allocated_bytes();
}

}  // namespace perfpred
