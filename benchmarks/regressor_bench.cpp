// SPDX-License-Identifier: Apache-2.0
// One prediction and batches of 10,000 for each kind, and the hybrid's fit, on as many rows as the reference collection
// has.
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "model/kinds/ann.h"

namespace {

using namespace perfpred;

std::vector<AggregateRow> made_up_rows() {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.006);
  std::vector<AggregateRow> rows;
  for (int i = 0; i < 121; ++i) {
    AggregateRow& row = rows.emplace_back();
    row.workload = Workload::cifar_cnn(2 + i % 4, 16 << (i / 4 % 4), 32 * (1 + i / 16 * 7));
    const auto steps = static_cast<double>(row.workload.steps_per_epoch());
    row.n = 1;
    row.avg_time_mean =
        (0.3 + steps * (1.5e-3 + 2.5e-4 * (2 + i % 4) + 1e-10 * static_cast<double>(row.workload.params())) +
         2e-2 * (16 << (i / 4 % 4))) *
        std::exp(noise(random));
  }
  return rows;
}

/// A network of random weights: what it costs to evaluate does not depend on what it learnt, and half of the units are
/// out as in a trained one.
AnnNetwork random_network(const FeatureTask& task) {
  std::mt19937_64 random(task.seed);
  std::normal_distribution<float> normal;
  AnnNetwork network;
  network.standardize = Standardizer(task.features);
  const auto fill = [&](auto& matrix) {
    matrix = matrix.NullaryExpr(matrix.rows(), matrix.cols(), [&] { return 0.1F * normal(random); });
  };
  fill(network.input_weights);
  fill(network.input_bias);
  fill(network.hidden_weights);
  fill(network.hidden_bias);
  fill(network.output_weights);
  return network;
}

const TimeRegressor* model_of(benchmark::State& state, const char* kind) {
  static std::map<std::string, std::unique_ptr<TimeRegressor>> models;
  set_ann_fitter(&random_network);
#ifdef PERFPRED_WITH_XGBOOST
  enable_xgboost();
#endif
  try {
    auto& model = models[kind];
    if (!model) model = std::make_unique<TimeRegressor>(TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0}));
    return model.get();
  } catch (const Error& error) {
    state.SkipWithError(error.what());
    return nullptr;
  }
}

void one_prediction(benchmark::State& state, const char* kind) {
  const TimeRegressor* model = model_of(state, kind);
  const Workload workload = Workload::cifar_cnn(3, 48, 300);
  if (model == nullptr) return;
  for (auto _ : state) benchmark::DoNotOptimize(model->predict(workload));
}

void many_predictions(benchmark::State& state, const char* kind) {
  const TimeRegressor* model = model_of(state, kind);
  if (model == nullptr) return;
  std::vector<Workload> workloads;
  for (int i = 0; i < 10'000; ++i) workloads.push_back(Workload::cifar_cnn(2 + i % 4, 16 + i % 100, 32 + i % 2000));
  std::vector<Prediction> predictions(workloads.size());
  for (auto _ : state) model->predict(workloads, predictions);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(workloads.size()));
}

void fit_hybrid(benchmark::State& state) {
  const std::vector<AggregateRow> rows = made_up_rows();
  for (auto _ : state) benchmark::DoNotOptimize(TimeRegressor::fit(rows));
}

BENCHMARK_CAPTURE(one_prediction, hybrid, "hybrid");
BENCHMARK_CAPTURE(one_prediction, linear, "linear");
BENCHMARK_CAPTURE(one_prediction, ann, "ann");
BENCHMARK_CAPTURE(one_prediction, forest, "forest");
BENCHMARK_CAPTURE(one_prediction, boosting, "boosting");
BENCHMARK_CAPTURE(many_predictions, hybrid, "hybrid");
BENCHMARK_CAPTURE(many_predictions, linear, "linear");
BENCHMARK_CAPTURE(many_predictions, ann, "ann");
BENCHMARK_CAPTURE(many_predictions, forest, "forest");
BENCHMARK_CAPTURE(many_predictions, boosting, "boosting");
BENCHMARK(fit_hybrid)->Unit(benchmark::kMillisecond);

}  // namespace
