// SPDX-License-Identifier: Apache-2.0
// How often plans from predicted times overrun their budget: random splits of the reference collection, a model fitted
// on one part, plans of runs of the other part judged by its measured times. Needs PERFPRED_REFERENCE_DIR.
#include <benchmark/benchmark.h>
#include <perfpred/run_plan.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>

#include "statistics/parallel.h"

namespace perfpred {
namespace {

constexpr std::array confidences = {0.50, 0.90, 0.95, 0.99};

struct Judged {
  double used = 0;  ///< measured seconds as a fraction of the budget
  bool optimal = false;
};

/// One split, one model, one budget: a plan for each confidence.
std::array<Judged, confidences.size()> judge_split(std::vector<AggregateRow> rows, std::uint64_t seed) {
  std::unordered_map<std::string, double> measured;
  for (const AggregateRow& row : rows) measured.emplace(row.workload.key(), row.avg_time_mean.value());
  std::mt19937_64 random(seed);
  std::shuffle(rows.begin(), rows.end(), random);
  const std::size_t left_out = 36 + random() % 25;  // 30 to 50 % of the table
  const std::span<const AggregateRow> all(rows);
  const TimeRegressor model = TimeRegressor::fit(all.subspan(left_out));
  PlanRequest request;
  request.epochs = 50;
  const auto budget_sec = 600 + static_cast<std::int64_t>(random() % 3001);
  request.devices = {{"", budget_sec}};
  request.limits.time_sec = 5;
  std::array<Judged, confidences.size()> judged;
  for (std::size_t c = 0; c < confidences.size(); ++c) {
    request.confidence = confidences[c];
    const RunPlan plan = plan_runs(all.first(left_out), request, model);
    double taken = 0;
    for (const PlannedRun& run : plan.runs)
      taken += static_cast<double>(request.epochs) * measured.at(run.workload.key());
    judged[c] = {taken / static_cast<double>(budget_sec), plan.status == PlanStatus::optimal};
  }
  return judged;
}

void plans_of_left_out_runs(benchmark::State& state) {
  const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
  if (folder == nullptr) {
    state.SkipWithError("PERFPRED_REFERENCE_DIR is not set");
    return;
  }
  const std::vector<AggregateRow> rows = read_aggregate(std::string(folder) + "/a100_cifar10/runs_agg.csv");
  const auto splits = static_cast<std::size_t>(state.range(0));
  std::vector<std::array<Judged, confidences.size()>> judged(splits);
  for (auto _ : state) {
    parallel_for(splits, 0, [&](std::size_t split, std::size_t) { judged[split] = judge_split(rows, split); });
  }
  for (std::size_t c = 0; c < confidences.size(); ++c) {
    const std::string at = "_" + std::to_string(std::lround(100 * confidences[c]));
    for (const auto& plans : judged) {
      state.counters["overruns" + at] += plans[c].used > 1 ? 1 : 0;
      state.counters["used" + at] += plans[c].used / static_cast<double>(splits);
      state.counters["proved" + at] += plans[c].optimal ? 1 : 0;
    }
  }
}
BENCHMARK(plans_of_left_out_runs)->Arg(20)->Arg(500)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace perfpred
