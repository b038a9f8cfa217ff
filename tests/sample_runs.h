// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs made up for tests.
#include <perfpred/run.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runs/run_row.h"
#include "text/csv.h"

namespace perfpred::testing {

/// A run of depth 2, base 16 with these epochs: the mean of all but the first, throughput from it, all that a row
/// needs.
inline Run run_of_epochs(std::vector<double> epochs, std::int64_t batch = 128) {
  Run run;
  run.workload = Workload::cifar_cnn(2, 16, batch);
  run.timestamp_utc = "2026-01-01T00:00:00Z";
  run.framework = "test";
  run.epochs = static_cast<int>(epochs.size());
  run.params = 280218;
  run.epoch_times = std::move(epochs);
  double sum = 0;
  for (std::size_t i = 1; i < run.epoch_times.size(); ++i) sum += run.epoch_times[i];
  run.avg_time_sec = sum / static_cast<double>(run.epoch_times.size() - 1);
  run.images_per_sec = 50'000 / *run.avg_time_sec;
  run.test_acc = 0.5;
  return run;
}

/// A run that ended like this, without any time.
inline Run run_without_time(Outcome outcome) {
  Run run = run_of_epochs({9, 1, 1});
  run.outcome = outcome;
  run.epoch_times.clear();
  run.avg_time_sec = run.images_per_sec = run.test_acc = std::nullopt;
  return run;
}

/// The text of a runs.csv.
inline std::string csv_of(const std::vector<Run>& runs) {
  std::string text = csv_line(run_columns());
  for (const Run& run : runs) text += csv_line(run_fields(run));
  return text;
}

}  // namespace perfpred::testing
