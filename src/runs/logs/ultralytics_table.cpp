// SPDX-License-Identifier: Apache-2.0
// results.csv of Ultralytics YOLO: a row for each epoch, from 1; `time` is the time since training began.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"

namespace perfpred {
namespace {

bool is_results(const LogHead& head) {
  return head.has_columns({"epoch"}) && std::any_of(head.columns.begin(), head.columns.end(), [](const auto& name) {
           return name.starts_with("train/") && name.ends_with("loss");
         });
}

TrainingLog read_ultralytics(const std::string& path, const RunFacts&) {
  LogTable table(path);
  if (!table.has("time")) {
    throw InputError(path + ": this results.csv has no column time; Ultralytics writes it from version 8.2.32 on");
  }
  TrainingLog log;
  log.framework = "ultralytics";
  log.note = "epochs include validation";
  double epoch = 0, time = 0;
  while (table.next()) {
    epoch = table.growing("epoch", epoch);
    const double before = std::exchange(time, table.growing("time", time));
    log.epoch_times.push_back(time - before);
    log.test_acc = table.number("metrics/accuracy_top1");
  }
  log.epochs = static_cast<int>(log.epoch_times.size());
  return log;
}

}  // namespace

const LogFormat ultralytics_format = {"results.csv of Ultralytics", is_results, read_ultralytics};

}  // namespace perfpred
