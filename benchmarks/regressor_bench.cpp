// SPDX-License-Identifier: Apache-2.0
// One prediction and batches of 10,000 for each kind, and the hybrid's fit, on as many rows as the reference collection
// has; then an answer, load and fit of 5,000 rows, of one network family and of all networks.
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

#include <benchmark/benchmark.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "model/kinds/ann.h"

namespace {

using namespace perfpred;

constexpr int many = 5000;

AggregateRow row_of(const Workload& workload, double sec) {
  AggregateRow row;
  row.workload = workload;
  row.n = 1;
  row.avg_time_mean = sec;
  return row;
}

/// Of 4 widths, or of 10 if there are many rows.
std::vector<AggregateRow> made_up_rows(int count = 121) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.006);
  std::vector<AggregateRow> rows;
  for (int i = 0; i < count; ++i) {
    const int depth = 2 + i % 4, width = count < many ? 16 << (i / 4 % 4) : 8 * (1 + i / 4 % 10);
    const Workload workload =
        Workload::cifar_cnn(depth, width, count < many ? 32 * (1 + i / 16 * 7) : 16 + 8 * (i / 40));
    const auto steps = static_cast<double>(workload.steps_per_epoch());
    rows.push_back(row_of(
        workload,
        (0.3 + steps * (1.5e-3 + 2.5e-4 * depth + 1e-10 * static_cast<double>(workload.params())) + 2e-2 * width) *
            std::exp(noise(random))));
  }
  return rows;
}

/// Of all networks of the zoo on eight devices, off the standard model by a factor of each network and device.
std::vector<AggregateRow> rows_of_all_networks() {
  const TimeRegressor standard = TimeRegressor::standard();
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.01), factor(0, 0.15);
  std::vector<AggregateRow> rows;
  for (const char* device :
       {"T4", "V100-SXM2-16GB", "A100-SXM4-80GB", "L4", "A10", "H100-SXM5-80GB", "RTX 3090", "RTX 4090"}) {
    for (const std::string_view network : zoo_networks()) {
      const double away = factor(random);
      for (std::int64_t batch = 1; batch <= 128 && rows.size() < many; batch *= 2) {
        Workload workload = Workload::zoo(network, batch);
        workload.device = device;
        rows.push_back(row_of(workload, standard.predict(workload).time_sec.p50 * std::exp(away + noise(random))));
      }
    }
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
  network.input_weights.resize(AnnNetwork::units, task.features.cols());
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

const TimeRegressor& model_of_many(bool all_networks) {
  static const TimeRegressor family = TimeRegressor::fit(made_up_rows(many));
  static const TimeRegressor all = TimeRegressor::fit(rows_of_all_networks());
  return all_networks ? all : family;
}

void answer_of_many(benchmark::State& state) {
  const TimeRegressor& model = model_of_many(false);
  const Workload workload = Workload::cifar_cnn(3, 44, 300);
  for (auto _ : state) benchmark::DoNotOptimize(model.predict(workload));
}

/// @param model  that of all networks; the one without rows shows what the op model itself takes
void answer_of_step(benchmark::State& state, bool without_rows) {
  static const TimeRegressor standard = TimeRegressor::standard();
  const TimeRegressor& model = without_rows ? standard : model_of_many(true);
  Workload workload = Workload::zoo("resnet50", 48);
  workload.device = "A100-SXM4-80GB";
  for (auto _ : state) benchmark::DoNotOptimize(model.predict(workload));
}

void load_of_many(benchmark::State& state, bool all_networks) {
  const std::string file = std::filesystem::temp_directory_path() / "perfpred_regressor_bench.json";
  model_of_many(all_networks).save(file);
  for (auto _ : state) benchmark::DoNotOptimize(TimeRegressor::load(file));
  std::filesystem::remove(file);
}

void fit_of_many(benchmark::State& state) {
  const std::vector<AggregateRow> rows = made_up_rows(many);
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
BENCHMARK(answer_of_many)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(answer_of_step, of_no_rows, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(answer_of_step, of_many, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(load_of_many, family, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load_of_many, all_networks, true)->Unit(benchmark::kMillisecond);
BENCHMARK(fit_of_many)->Unit(benchmark::kMillisecond);

}  // namespace
