// SPDX-License-Identifier: Apache-2.0
// The table of fastai's CSVLogger: a row for each epoch, from 0; `time` is its length in whole seconds, as 01:23.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <string>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"

namespace perfpred {
namespace {

double seconds(std::string_view text, const ValuePlace& place) {
  const bool has_hours = std::count(text.begin(), text.end(), ':') != 1;
  const double sec = parse_seconds(has_hours ? std::string(text) : fmt::format("0:{}", text), place);
  if (sec < 1)
    throw_bad_value(place, text, "at least a second: fastai writes whole ones, and such epochs are too short");
  return sec;
}

TrainingLog read_fastai(const std::string& path, const RunFacts&) {
  LogTable table(path);
  TrainingLog log;
  log.framework = "fastai";
  log.note = "epochs include validation, in whole seconds";
  double epoch = -1;
  while (table.next()) {
    epoch = table.growing("epoch", epoch);
    log.epoch_times.push_back(seconds(table.text("time"), table.place("time")));
    log.test_acc = table.number("accuracy");
  }
  log.epochs = static_cast<int>(log.epoch_times.size());
  return log;
}

}  // namespace

const LogFormat fastai_format = {"fastai's CSVLogger",
                                 [](const LogHead& head) {
                                   return head.has_columns({"epoch", "train_loss", "time"});
                                 },
                                 read_fastai};

}  // namespace perfpred
