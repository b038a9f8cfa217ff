// SPDX-License-Identifier: Apache-2.0
// From measured runs to a plan of the next ones: the six classes of perfpred in a row.
//   pipeline data/nvidia_h200/runs.csv own_runs.csv
#include <perfpred/aggregator.h>
#include <perfpred/knapsack_planner.h>
#include <perfpred/run_recorder.h>
#include <perfpred/throughput_deriver.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

using namespace perfpred;

constexpr std::int64_t budget_sec = 600;
constexpr double epochs = 50;

void plan(const char* measured, const char* own) {
  // All runs but the last are known; the last stands for one that you have just measured.
  std::vector<Run> runs = read_runs(measured);
  RunRecorder recorder(own);
  recorder.append(runs.back());
  runs.pop_back();

  Aggregator aggregator;
  for (const Run& run : runs) aggregator.add(run);
  aggregator.add_file(own);
  const TimeRegressor regressor = TimeRegressor::fit(aggregator.rows());

  std::vector<Workload> jobs;
  std::vector<PlanItem> items;
  Workload job = regressor.example();  // its network, device, precision
  const ThroughputDeriver throughput(job.train_images);
  for (job.batch_size = 32; job.batch_size <= 1024; job.batch_size *= 2) {
    const Prediction epoch = regressor.predict(job);
    const Quantiles images = throughput.derive(epoch.time_sec);
    std::printf("batch %4lld: %.2f s an epoch (90 %% interval %.2f to %.2f), %.0f images/s\n",
                static_cast<long long>(job.batch_size), epoch.time_sec.p50, epoch.time_sec.p05, epoch.time_sec.p95,
                images.p50);
    jobs.push_back(job);
    items.push_back({std::llround(std::ceil(epochs * epoch.time_sec.p50)), images.p50});
  }
  const Plan best = KnapsackPlanner(budget_sec).plan(items);
  for (const std::size_t i : best.chosen) std::printf("run %s\n", jobs[i].key().c_str());
  std::printf("%lld of %lld s%s\n", static_cast<long long>(best.cost), static_cast<long long>(budget_sec),
              best.optimal ? ", no plan is worth more" : "");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: pipeline RUNS.CSV OWN_RUNS.CSV\n", stderr), 2;
  plan(argv[1], argv[2]);
}
