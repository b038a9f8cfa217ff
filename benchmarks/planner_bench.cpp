#include <benchmark/benchmark.h>
#include <perfpred/knapsack_planner.h>

#include <cstdint>
#include <random>

#include "../tests/knapsack_instances.h"

namespace perfpred {
namespace {

/// As many runs as a grid of measurements has: costs of 17 to 200 s, accuracies around 0.7 with all their digits.
void plan_of_a_grid(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<PlanItem> items;
  for (int i = 0; i < 121; ++i) {
    const auto cost = static_cast<std::int64_t>(17 + random() % 184);
    items.push_back({cost, 0.6 + 0.15 * static_cast<double>(random() >> 11U) * 0x1p-53});
  }
  const KnapsackPlanner planner(3600);
  for (auto _ : state) benchmark::DoNotOptimize(planner.plan(items).value);
}
BENCHMARK(plan_of_a_grid)->Unit(benchmark::kMicrosecond);

void plan(benchmark::State& state, testing::KnapsackClass kind) {
  const auto instance = testing::make_instance(kind, static_cast<std::size_t>(state.range(0)), 100'000, 1);
  PlanLimits limits;
  limits.time_sec = 30;
  const KnapsackPlanner planner(instance.budget, limits);
  bool optimal = true;
  for (auto _ : state) {
    const Plan result = planner.plan(instance.items);
    optimal = optimal && result.optimal;
    benchmark::DoNotOptimize(result.value);
  }
  state.counters["proved"] = optimal ? 1 : 0;
}

[[maybe_unused]] const bool registered = [] {
  for (std::size_t i = 0; i < 8; ++i) {
    const testing::KnapsackClass kind = testing::knapsack_classes[i];
    benchmark::RegisterBenchmark(("plan/" + std::string(testing::name(kind))).c_str(), plan, kind)
        ->Arg(100)
        ->Arg(10'000)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace perfpred
