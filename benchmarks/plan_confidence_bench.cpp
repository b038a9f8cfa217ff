// How often plans from predicted times overrun their budget: 500 random splits of the reference collection, a model fitted
// on one part, plans of runs of the other, judged by its measured times. Needs PERFPRED_REFERENCE_DIR.
#include <benchmark/benchmark.h>
#include <perfpred/run_plan.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>

namespace perfpred {
namespace {

void plans_of_left_out_runs(benchmark::State& state) {
  const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
  if (folder == nullptr) {
    state.SkipWithError("PERFPRED_REFERENCE_DIR is not set");
    return;
  }
  std::vector<AggregateRow> rows = read_aggregate(std::string(folder) + "/a100_cifar10/runs_agg.csv");
  std::unordered_map<std::string, double> measured;
  for (const AggregateRow& row : rows) measured.emplace(row.workload.key(), row.avg_time_mean.value());
  const double confidence = static_cast<double>(state.range(0)) / 100;
  constexpr int plans = 500;
  int overruns = 0;
  int proved = 0;
  double used = 0;
  for (auto _ : state) {
    std::mt19937_64 random(2024);
    for (int i = 0; i < plans; ++i) {
      std::shuffle(rows.begin(), rows.end(), random);
      const std::size_t left_out = 36 + random() % 25;  // 30 to 50 % of the table
      const std::span<const AggregateRow> all(rows);
      FitOptions options;
      options.kind = "hybrid";
      const TimeRegressor model = TimeRegressor::fit(all.subspan(left_out), options);
      PlanFilter filter;
      const std::vector<PlanCandidate> candidates = predicted_candidates(all.first(left_out), filter, model);
      PlanRequest request;
      request.epochs = 50;
      request.budget_sec = 600 + static_cast<std::int64_t>(random() % 3001);
      request.confidence = confidence;
      if (confidence > 0.5) request.times = joint_times(candidates, model);
      const RunPlan plan = plan_runs(candidates, request);
      double taken = 0;
      for (const PlannedRun& run : plan.runs) taken += 50 * measured.at(run.workload.key());
      const auto budget = static_cast<double>(request.budget_sec);
      if (taken > budget) ++overruns;
      if (plan.optimal) ++proved;
      used += taken / budget;
    }
  }
  state.counters["overruns"] = static_cast<double>(overruns) / plans;
  state.counters["budget_used"] = used / plans;
  state.counters["proved_optimal"] = static_cast<double>(proved) / plans;
}
BENCHMARK(plans_of_left_out_runs)->Arg(50)->Arg(90)->Arg(95)->Arg(99)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace perfpred
