// SPDX-License-Identifier: Apache-2.0
#include <perfpred/network.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <benchmark/benchmark.h>

namespace {

/// A traced training step, after the first.
void bm_traced_step(benchmark::State& state) {
  const auto network = perfpred::build_network(perfpred::Workload::zoo("resnet50", 32));
  auto tracer = perfpred::StepTracer::network(network, perfpred::Precision::fp32);
  const perfpred::InputSpec input{{32, 3, 224, 224}, perfpred::DataType::f32};
  benchmark::DoNotOptimize(tracer.trace({&input, 1}, perfpred::Optimizer::adam));
  for (auto _ : state) benchmark::DoNotOptimize(tracer.trace({&input, 1}, perfpred::Optimizer::adam));
}
BENCHMARK(bm_traced_step)->Unit(benchmark::kMillisecond);

}  // namespace
