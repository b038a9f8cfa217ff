// SPDX-License-Identifier: Apache-2.0
// Aggregation of files, row by row and in parallel, and of parts. The peer is benchmarks/peers/aggregate_duckdb.py.
#include <perfpred/aggregator.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "runs/run_row.h"
#include "text/csv.h"
#include "text/files.h"

namespace {

using namespace perfpred;

constexpr std::int64_t rows = 200'000;

Run run_of(std::mt19937_64& random) {
  std::normal_distribution<double> noise(1, 0.0065);
  Run run;
  run.workload = Workload::cifar_cnn(1 + static_cast<int>(random() % 5), 8 << (random() % 5),
                                     32 << static_cast<int>(random() % 7));
  run.timestamp_utc = "2026-01-01T00:00:00Z";
  run.framework = "benchmark";
  run.epochs = 3;
  run.params = 280218;
  run.epoch_times = {9 * noise(random), noise(random), noise(random) * (random() % 100 == 0 ? 1.5 : 1)};
  run.avg_time_sec = (run.epoch_times[1] + run.epoch_times[2]) / 2;
  run.images_per_sec = 50'000 / *run.avg_time_sec;
  run.test_acc = std::generate_canonical<double, 53>(random);
  return run;
}

/// A runs.csv that lasts as long as the benchmarks.
const std::string& runs_file() {
  struct File {
    File() {
      std::mt19937_64 random(1);
      AtomicFile file(path);
      file.write(csv_line(run_columns()));
      for (std::int64_t i = 0; i < rows; ++i) file.write(csv_line(run_fields(run_of(random))));
      file.commit();
    }
    ~File() { std::filesystem::remove(path); }
    std::string path = (std::filesystem::temp_directory_path() / "perfpred-aggregator-bench.csv").string();
  };
  static const File file;
  return file.path;
}

void aggregate_file(benchmark::State& state) {
  const std::string& path = runs_file();
  for (auto _ : state) {
    Aggregator aggregator;
    aggregator.add_file(path, static_cast<int>(state.range(0)));
    benchmark::DoNotOptimize(aggregator.rows());
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(aggregate_file)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

void aggregate_row_by_row(benchmark::State& state) {
  const std::string& path = runs_file();
  for (auto _ : state) {
    Aggregator aggregator;
    for (const Run& run : read_runs(path)) aggregator.add(run);
    benchmark::DoNotOptimize(aggregator.rows());
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(aggregate_row_by_row)->UseRealTime()->Unit(benchmark::kMillisecond);

void merge_parts(benchmark::State& state) {
  constexpr int parts_count = 10;
  std::mt19937_64 random(2);
  std::vector<Aggregator> parts(parts_count);
  for (std::int64_t i = 0; i < rows; ++i) parts[static_cast<std::size_t>(i % parts_count)].add(run_of(random));
  for (auto _ : state) {
    Aggregator whole;
    for (const Aggregator& part : parts) whole.merge(part);
    benchmark::DoNotOptimize(whole.rows());
  }
}
BENCHMARK(merge_parts)->Unit(benchmark::kMillisecond);

}  // namespace
