// SPDX-License-Identifier: Apache-2.0
// The table of Keras' CSVLogger: a row for each epoch, from 0, with whatever callbacks before it put into `logs`.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"

namespace perfpred {
namespace {

/// What people call the seconds of an epoch; Keras itself does not log them.
constexpr std::array<std::string_view, 4> time_columns = {"epoch_time", "epoch_time_sec", "epoch_sec", "epoch_seconds"};

TrainingLog read_keras(const std::string& path, const RunFacts&) {
  LogTable table(path);
  const auto timed = std::find_if(time_columns.begin(), time_columns.end(),
                                  [&table](std::string_view name) { return table.has(name); });
  if (timed == time_columns.end()) {
    throw InputError(
        path +
        ": Keras' CSVLogger writes no times; log a column epoch_time by a callback (docs/guides/aggregating.md)");
  }
  const auto accuracy = std::find_if(table.columns().begin(), table.columns().end(), is_test_accuracy);
  TrainingLog log;
  log.framework = "keras";
  double epoch = -1;
  while (table.next()) {
    epoch = table.growing("epoch", epoch);
    const std::optional<double> sec = table.number(*timed);
    if (!sec || *sec <= 0) throw_bad_value(table.place(*timed), table.text(*timed), "a positive number");
    log.epoch_times.push_back(*sec);
    if (accuracy != table.columns().end()) log.test_acc = table.number(*accuracy);
  }
  log.epochs = static_cast<int>(log.epoch_times.size());
  return log;
}

}  // namespace

const LogFormat keras_format = {"Keras' CSVLogger",
                                [](const LogHead& head) {
                                  return head.has_columns({"epoch", "loss"});
                                },
                                read_keras};

}  // namespace perfpred
