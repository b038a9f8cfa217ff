// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_progress.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using nlohmann::json;

/// All that decides what the next step computes.
json settings_of(const TrainNetOptions& options, const Workload& workload) {
  json settings = {{"workload", workload.key()},
                   {"data", options.data},
                   {"epochs", options.epochs},
                   {"lr", options.learning_rate},
                   {"warmup", options.warmup},
                   {"label_smoothing", options.loss.label_smoothing},
                   {"weight_decay", options.weight_decay},
                   {"seed", options.seed}};
  if (options.accumulate != 1) settings["accumulate"] = options.accumulate;
  const Loss& loss = options.loss;
  if (loss.sum || loss.kind != LossKind::cross_entropy)
    settings["loss"] = fmt::format("{} of {}", loss.sum ? "sum" : "mean", to_string(loss.kind));
  return settings;
}

/// The first setting that differs between two trainings, with both values; empty if all are equal.
std::string difference(const json& theirs, const json& ours) {
  for (const char* key : {"loss", "accumulate"}) {  // which are left out where they are the default
    if (theirs.contains(key) && !ours.contains(key))
      return fmt::format("{} {}, not the default", key, theirs[key].dump());
  }
  for (const auto& [key, value] : ours.items()) {
    const json other = theirs.is_object() && theirs.contains(key) ? theirs[key] : json();
    if (other == value) continue;
    if (key == "workload" && other.is_string()) {
      const Workload a = Workload::from_key(other.get<std::string>());
      const Workload b = Workload::from_key(value.get<std::string>());
      for (const WorkloadColumn& column : workload_columns()) {
        if (column.get(a) != column.get(b))
          return fmt::format("{} {}, not {}", column.name, column.get(a), column.get(b));
      }
    }
    return fmt::format("{} {}, not {}", key, other.dump(), value.dump());
  }
  return {};
}

/// An object without objects in it; anything else is null.
json parsed(const std::string& text) {
  constexpr int flat = 1;
  bool deep = false;
  json object = json::parse(
      text, [&deep](int depth, json::parse_event_t, const json&) { return !(deep |= depth > flat); }, false);
  return object.is_object() && !deep ? object : json();
}

/// @throws InputError if the progress of a checkpoint has no such number
double number_in(const json& progress, const char* key, const std::string& path) {
  if (!progress.is_object() || !progress.contains(key) || !progress[key].is_number()) {
    throw InputError(fmt::format("{}: does not say how far it is", path));
  }
  return progress[key].get<double>();
}

}  // namespace

std::int64_t steps_per_epoch(const TrainNetOptions& options, const Workload& workload) {
  return (workload.steps_per_epoch() + options.accumulate - 1) / options.accumulate;
}

std::string settings_text(const TrainNetOptions& options, const Workload& workload) {
  return nlohmann::ordered_json{{"settings", settings_of(options, workload)}}.dump();
}

Checkpoint checkpoint_of(const TrainNetOptions& options, const Workload& workload, const TrainingProgress& progress) {
  json text = {{"epoch", progress.epochs}, {"best", progress.best}};
  if (progress.steps > 0) {
    text["step"] = progress.steps;
    text["loss_sum"] = progress.loss_sum;
    text["correct"] = progress.correct;
  }
  return {settings_of(options, workload).dump(), text.dump(), {}};
}

Resumption read_progress(const Checkpoint& checkpoint, const TrainNetOptions& options, const Workload& workload,
                         const std::string& path) {
  const json theirs = parsed(checkpoint.settings);
  json ours = settings_of(options, workload);
  Resumption found;
  found.planned_epochs = options.epochs;
  if (theirs.is_object() && theirs.contains("epochs") && theirs["epochs"].is_number_integer()) {
    const auto planned = theirs["epochs"].get<std::int64_t>();
    if (planned >= 1 && planned < options.epochs) {
      found.planned_epochs = static_cast<int>(planned);
      ours["epochs"] = planned;
    }
  }
  if (const std::string other = difference(theirs, ours); !other.empty()) {
    throw InputError(fmt::format("{}: was made with {}", path, other));
  }
  const json text = parsed(checkpoint.progress);
  const auto number = [&](const char* key) { return number_in(text, key, path); };
  const auto whole = [&](const char* key, std::int64_t low, std::int64_t high) {
    const double value = number(key);
    if (value >= static_cast<double>(low) && value <= static_cast<double>(high))
      return static_cast<std::int64_t>(value);
    throw InputError(fmt::format("{}: stands at {} {}, which is not {} to {}", path, key, value, low, high));
  };
  TrainingProgress& progress = found.progress;
  progress.epochs = static_cast<int>(whole("epoch", 0, std::numeric_limits<int>::max()));
  progress.best = number("best");
  if (!text.contains("step")) return found;
  progress.steps = whole("step", 1, steps_per_epoch(options, workload));
  // JSON has no NaN: a diverged loss was written as null.
  progress.loss_sum = text.value("loss_sum", json()).is_null() ? std::nan("") : number("loss_sum");
  progress.correct = number("correct");
  return found;
}

}  // namespace perfpred
