// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_progress.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <cmath>
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
  const Loss& loss = options.loss;
  if (loss.sum || loss.kind != LossKind::cross_entropy)
    settings["loss"] = fmt::format("{} of {}", loss.sum ? "sum" : "mean", to_string(loss.kind));
  return settings;
}

/// The first setting that differs between two trainings, with both values; empty if all are equal.
std::string difference(const json& theirs, const json& ours) {
  if (theirs.contains("loss") && !ours.contains("loss"))
    return fmt::format("loss {}, not the default", theirs["loss"].dump());
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

}  // namespace

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
  const json theirs = json::parse(checkpoint.settings, nullptr, false);
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
  const json text = json::parse(checkpoint.progress, nullptr, false);
  const auto number = [&](const char* key) {
    if (!text.is_object() || !text.contains(key) || !text[key].is_number()) {
      throw InputError(fmt::format("{}: does not say how far it is", path));
    }
    return text[key].get<double>();
  };
  TrainingProgress& progress = found.progress;
  progress.epochs = static_cast<int>(number("epoch"));
  progress.best = number("best");
  if (!text.contains("step")) return found;
  const std::int64_t steps_an_epoch = workload.steps_per_epoch();
  progress.steps = static_cast<std::int64_t>(number("step"));
  if (progress.steps < 1 || progress.steps > steps_an_epoch) {
    throw InputError(fmt::format("{}: stands at step {} of {}", path, progress.steps, steps_an_epoch));
  }
  // JSON has no NaN: a diverged loss was written as null.
  progress.loss_sum = text.value("loss_sum", json()).is_null() ? std::nan("") : number("loss_sum");
  progress.correct = number("correct");
  return found;
}

}  // namespace perfpred
