// SPDX-License-Identifier: Apache-2.0
// Tables with a row for each epoch: of fastai's CSVLogger, of Keras' CSVLogger with a callback that logs times, and
// results.csv of Ultralytics YOLO.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"

namespace perfpred {
namespace {

struct EpochTable {
  const char *framework, *note;
  double before;  ///< the number before that of the first epoch
  /// Columns of the seconds: the first that a table has. Keras itself logs none; these are what people call them.
  std::array<std::string_view, 4> times;
  const char* without_times;  ///< what to say of a table without one
  /// Of an epoch. @param total  of the row before
  double (*seconds)(const LogTable& table, std::string_view column, double& total);
  std::string_view accuracy;  ///< its column; empty: the first that is_test_accuracy()
};

/// fastai writes whole seconds, as 01:23.
double clock_time(const LogTable& table, std::string_view column, double&) {
  const std::string_view text = table.text(column);
  const double sec = parse_seconds(text, table.place(column));
  if (sec >= 1) return sec;
  throw_bad_value(table.place(column), text,
                  "at least a second: fastai writes whole ones, and such epochs are too short");
}

double positive_seconds(const LogTable& table, std::string_view column, double&) {
  const std::optional<double> sec = table.number(column);
  if (!sec || *sec <= 0) throw_bad_value(table.place(column), table.text(column), "a positive number");
  return *sec;
}

double since_the_row_before(const LogTable& table, std::string_view column, double& total) {
  const double before = std::exchange(total, table.growing(column, total));
  return total - before;
}

constexpr EpochTable fastai = {
    "fastai",  "epochs include validation, in whole seconds", -1, {"time"}, "has no column time", clock_time,
    "accuracy"};
constexpr EpochTable keras = {
    "keras",
    "",
    -1,
    {"epoch_time", "epoch_time_sec", "epoch_sec", "epoch_seconds"},
    "Keras' CSVLogger writes no times; log a column epoch_time by a callback (docs/guides/aggregating.md)",
    positive_seconds,
    ""};
constexpr EpochTable ultralytics = {"ultralytics",
                                    "epochs include validation",
                                    0,
                                    {"time"},
                                    "this results.csv has no column time; Ultralytics writes it from version 8.2.32 on",
                                    since_the_row_before,
                                    "metrics/accuracy_top1"};

template <const EpochTable& format>
TrainingLog read_epoch_table(const std::string& path, const RunFacts&) {
  LogTable table(path);
  const auto timed = std::find_if(format.times.begin(), format.times.end(),
                                  [&](std::string_view name) { return !name.empty() && table.has(name); });
  if (timed == format.times.end()) throw InputError(fmt::format("{}: {}", path, format.without_times));
  const std::vector<std::string>& columns = table.columns();
  const auto found = std::find_if(columns.begin(), columns.end(), is_test_accuracy);
  const std::string accuracy(format.accuracy.empty() && found != columns.end() ? *found : format.accuracy);
  TrainingLog log;
  log.framework = format.framework;
  log.note = format.note;
  double epoch = format.before, total = 0;
  while (table.next()) {
    epoch = table.growing("epoch", epoch);
    log.epoch_times.push_back(format.seconds(table, *timed, total));
    if (!accuracy.empty()) log.test_acc = table.number(accuracy);
  }
  log.epochs = static_cast<int>(log.epoch_times.size());
  return log;
}

bool is_results(const LogHead& head) {
  return head.has_columns({"epoch"}) && std::any_of(head.columns.begin(), head.columns.end(), [](const auto& name) {
           return name.starts_with("train/") && name.ends_with("loss");
         });
}

}  // namespace

const LogFormat fastai_format = {"fastai's CSVLogger",
                                 [](const LogHead& head) {
                                   return head.has_columns({"epoch", "train_loss", "time"});
                                 },
                                 read_epoch_table<fastai>};
const LogFormat keras_format = {"Keras' CSVLogger",
                                [](const LogHead& head) {
                                  return head.has_columns({"epoch", "loss"});
                                },
                                read_epoch_table<keras>};
const LogFormat ultralytics_format = {"results.csv of Ultralytics", is_results, read_epoch_table<ultralytics>};

}  // namespace perfpred
