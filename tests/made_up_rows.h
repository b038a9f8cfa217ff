// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows and runs of a made-up machine, for the tests of models.
#include <perfpred/aggregator.h>
#include <perfpred/prediction.h>
#include <perfpred/run.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "model/hybrid/step_shape.h"
#include "sample_rows.h"

namespace perfpred {

/// Seconds per epoch on a made-up machine, which spends time on launches, FLOPs, weights and input.
/// @param noise  of the logarithm
inline double made_up_time(const Workload& workload, double noise) {
  const StepShape shape(workload, DeviceKind::gpu);
  double step = 1e-3, flops = 0, params = 0;
  for (const StepLayer& layer : shape.layers()) {
    step += 2e-4;
    flops += layer.flops;
    params += layer.params;
  }
  step += 3e-11 * params;
  return (shape.steps * step + shape.samples * (5e-6 + 2e-14 * flops)) * std::exp(noise);
}

inline std::vector<AggregateRow> made_up_rows(double noise = 0.005, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<AggregateRow> rows;
  for (const int depth : {2, 3, 4}) {
    for (const int base : {16, 32, 64}) {
      for (const int batch : {32, 96, 256, 1024}) {
        const Workload workload = Workload::cifar_cnn(depth, base, batch);
        rows.push_back(testing::row_of(workload, made_up_time(workload, noise * normal(random))));
      }
    }
  }
  return rows;
}

/// @param number  of the run; each has a time stamp of its own
inline Run run_of(const Workload& workload, double sec, int number = 0) {
  perfpred::Run run;
  run.workload = workload;
  run.timestamp_utc = "2026-01-01T00:00:" + std::to_string(10 + number);
  run.epochs = 3;
  run.params = workload.params();
  run.epoch_times = {sec * 3, sec, sec};
  run.avg_time_sec = sec;
  run.images_per_sec = static_cast<double>(workload.train_images) / sec;
  return run;
}

/// The rows of another group, whose times differ by a factor.
inline std::vector<AggregateRow> as_group(std::vector<AggregateRow> rows, double factor, const auto& change) {
  for (AggregateRow& row : rows) {
    change(row.workload);
    row.avg_time_mean = factor * *row.avg_time_mean;
  }
  return rows;
}

inline std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("perfpred_model_" + std::to_string(::getpid()) + "_" + name))
      .string();
}

inline bool same(const Quantiles& a, const Quantiles& b) { return a.p05 == b.p05 && a.p50 == b.p50 && a.p95 == b.p95; }

}  // namespace perfpred
