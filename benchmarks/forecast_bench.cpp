// SPDX-License-Identifier: Apache-2.0
// Answers of the standard model, as a scheduler asks for them.
#include <perfpred/forecast.h>
#include <perfpred/network.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace perfpred;

const TimeRegressor& model() {
  static const TimeRegressor standard = TimeRegressor::standard();
  return standard;
}

Workload job(const std::string& network, std::int64_t batch) {
  Workload workload = Workload::zoo(network, batch);
  workload.device = "A100-80GB-PCIe";
  workload.precision = Precision::tf32;
  return workload;
}

/// Time, memory and bound, the graph included.
void whole_answer(benchmark::State& state) {
  const Workload resnet = job("resnet50", 64);
  for (auto _ : state) benchmark::DoNotOptimize(forecast(model(), resnet));
}

/// The same of all networks of the zoo in turn: items are graphs.
void new_graphs(benchmark::State& state) {
  std::vector<Workload> jobs;
  for (const std::string_view network : zoo_networks()) jobs.push_back(job(std::string(network), 32));
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(forecast(model(), jobs[next++ % jobs.size()]));
  state.SetItemsProcessed(state.iterations());
}

/// The time at batch sizes that were not asked for before.
void new_batch_sizes(benchmark::State& state) {
  Workload resnet = job("resnet50", 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(model().predict(resnet));
    resnet.batch_size = resnet.batch_size % 4096 + 1;
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(whole_answer)->Unit(benchmark::kMicrosecond);
BENCHMARK(new_graphs)->Unit(benchmark::kMicrosecond);
BENCHMARK(new_batch_sizes)->Unit(benchmark::kMicrosecond);

}  // namespace
