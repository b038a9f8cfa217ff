// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <perfpred/knapsack_planner.h>

#include <cmath>
#include <cstdint>
#include <random>

#ifdef PERFPRED_WITH_CBC
#include <perfpred/cbc/enable_cbc.h>
#endif

#include "../tests/knapsack_instances.h"
#include "plan/assignment.h"

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

/// A grid of 121 runs on devices that differ: each slower than the one before, every time with 15 % of its own. Three
/// draws; `gap_pct` is their mean, `proved` their number.
void plan_for_devices(benchmark::State& state) {
  const auto devices = static_cast<std::size_t>(state.range(0));
  PlanEffort effort = thorough;
  effort.cut_sec = static_cast<double>(state.range(2));
  constexpr int draws = 3;
  double gap = 0;
  int proved = 0;
  for (auto _ : state) {
    for (int draw = 0; draw < draws; ++draw) {
      std::mt19937_64 random(static_cast<std::uint64_t>(draw + 1));
      std::normal_distribution<double> normal;
      AssignmentProblem problem;
      problem.budgets.assign(devices, state.range(1));
      problem.group.resize(121);
      for (std::size_t j = 0; j < problem.group.size(); ++j) {
        PlanJob& job = problem.jobs.emplace_back(devices);
        const auto cost = static_cast<double>(17 + random() % 184);
        const double value = 0.6 + 0.15 * static_cast<double>(random() >> 11U) * 0x1p-53;
        for (std::size_t d = 0; d < devices; ++d) {
          const double slower = (0.6 + 0.4 * static_cast<double>(d)) * std::exp(0.15 * normal(random));
          job[d] = PlanItem{std::max<std::int64_t>(1, std::llround(cost * slower)), value};
        }
      }
      const Assignment assignment = assign(problem, {}, effort);
      gap += assignment.upper_bound / assignment.value - 1;
      proved += assignment.optimal() ? 1 : 0;
    }
  }
  state.counters["gap_pct"] = 100 * gap / draws;
  state.counters["proved"] = proved;
}
BENCHMARK(plan_for_devices)
    ->ArgNames({"devices", "budget", "cut_sec"})
    ->ArgsProduct({{2, 3, 4, 8}, {600, 1800}, {0, 10}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

[[maybe_unused]] const bool registered = [] {
#ifdef PERFPRED_WITH_CBC
  enable_cbc();
#endif
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
