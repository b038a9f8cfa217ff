// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <benchmark/benchmark.h>

namespace {

/// A traced training step, after the first.
void bm_traced_step(benchmark::State& state) {
  auto tracer = perfpred::StepTracer::network(perfpred::Workload::zoo("resnet50", 32));
  const perfpred::InputSpec input{{32, 3, 224, 224}, perfpred::DataType::f32};
  benchmark::DoNotOptimize(tracer.trace({&input, 1}, perfpred::Optimizer::adam));
  for (auto _ : state) benchmark::DoNotOptimize(tracer.trace({&input, 1}, perfpred::Optimizer::adam));
}
BENCHMARK(bm_traced_step)->Unit(benchmark::kMillisecond);

}  // namespace
