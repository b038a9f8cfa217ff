// SPDX-License-Identifier: Apache-2.0
// metrics.csv of Lightning's CSVLogger, timed by its ThroughputMonitor: train/time in seconds, train/batches and
// train/samples since training began, without validation.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"

namespace perfpred {
namespace {

TrainingLog read_lightning(const std::string& path, const RunFacts&) {
  LogTable table(path);
  for (const char* column : {"train/time", "train/batches", "train/samples"}) {
    if (table.has(column)) continue;
    throw InputError(
        fmt::format("{}: has no column {}: Lightning's CSVLogger times nothing without the callback ThroughputMonitor "
                    "(docs/guides/aggregating.md)",
                    path, column));
  }
  const auto accuracy = std::find_if(table.columns().begin(), table.columns().end(), is_test_accuracy);
  TrainingLog log;
  log.framework = "lightning";
  std::vector<LoggedPoint> points;
  while (table.next()) {
    if (const auto epoch = table.number("epoch"); epoch && *epoch >= 0 && *epoch < 1e9) {
      log.epochs = std::max(log.epochs, static_cast<int>(*epoch) + 1);
    }
    if (accuracy != table.columns().end()) {
      if (const auto value = table.number(*accuracy)) log.test_acc = value;
    }
    const auto sec = table.number("train/time"), batches = table.number("train/batches");
    const auto samples = table.number("train/samples");
    if (!sec || !batches || !samples) continue;
    points.push_back({*batches, *sec});
    const double batch = *samples / *batches;  // at first: the last batch of an epoch may be smaller
    if (points.size() == 1 && batch == std::floor(batch)) log.fields["batch_size"] = number_text(batch);
  }
  log.batch_sec = median_step_sec(points, path);
  return log;
}

}  // namespace

const LogFormat lightning_format = {"Lightning's CSVLogger",
                                    [](const LogHead& head) {
                                      return head.has_columns({"epoch", "step"});
                                    },
                                    read_lightning};

}  // namespace perfpred
