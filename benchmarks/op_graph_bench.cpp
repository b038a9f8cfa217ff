// SPDX-License-Identifier: Apache-2.0
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <benchmark/benchmark.h>

#include <string>

#include "network/layers.h"

namespace {

void bm_graph(benchmark::State& state, const std::string& network) {
  const auto workload = perfpred::Workload::zoo(network, 32);
  for (auto _ : state) benchmark::DoNotOptimize(workload.graph());
}
BENCHMARK_CAPTURE(bm_graph, resnet50, "resnet50")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bm_graph, densenet201, "densenet201")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bm_graph, gpt2, "gpt2")->Unit(benchmark::kMicrosecond);

void bm_network(benchmark::State& state) {
  const auto workload = perfpred::Workload::zoo("resnet50", 32);
  for (auto _ : state) benchmark::DoNotOptimize(perfpred::build_network(workload));
}
BENCHMARK(bm_network)->Unit(benchmark::kMicrosecond);

void bm_totals(benchmark::State& state) {
  const auto graph = perfpred::Workload::zoo("resnet50", 32).graph();
  for (auto _ : state) benchmark::DoNotOptimize(graph.totals());
}
BENCHMARK(bm_totals)->Unit(benchmark::kMicrosecond);

}  // namespace
