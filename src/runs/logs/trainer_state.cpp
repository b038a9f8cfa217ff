// SPDX-License-Identifier: Apache-2.0
// trainer_state.json of Hugging Face's transformers. Its last entry of a whole training has train_runtime, the seconds
// of train() with the evaluations in it (eval_runtime), and train_samples_per_second, rounded to 3 decimals.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runs/logs/training_log.h"
#include "text/json.h"

namespace perfpred {
namespace {

using Json = nlohmann::ordered_json;

constexpr double tolerated_error = 0.01;  // relative error up to which a number follows from rounded ones
constexpr double rate_rounding = 0.0005;  // of rates
constexpr double largest_number = 1e15;   // below it every whole number is a double

/// A number of an entry; empty where it has none. @throws InputError for another value
std::optional<double> number(const Json& entry, const char* key, const std::string& path) {
  const auto found = entry.find(key);
  if (found == entry.end() || found->is_null()) return std::nullopt;
  if (!found->is_number() || std::abs(found->get<double>()) > largest_number) {
    throw_bad_value({path, 0, key}, dumped(*found), "a number");
  }
  return found->get<double>();
}

double positive(const Json& entry, const char* key, const std::string& path) {
  const std::optional<double> value = number(entry, key, path);
  if (value && *value > 0) return *value;
  throw_bad_value({path, 0, key}, value ? number_text(*value) : "", "a positive number");
}

/// The whole training.
struct Training {
  double sec = 0;      ///< without evaluations
  double steps = 0;    ///< updates of the parameters
  double epochs = 0;   ///< may be a fraction
  double samples = 0;  ///< of all steps
  double error = 0;    ///< relative, of samples and epochs together
};

Training training_of(const Json& entry, double eval_sec, double max_steps, const std::string& path) {
  Training training;
  const double runtime = positive(entry, "train_runtime", path);
  training.sec = runtime - eval_sec;
  if (!(training.sec > 0)) throw InputError(fmt::format("{}: evaluations take longer than train_runtime", path));
  training.steps = positive(entry, "step", path);
  training.epochs = positive(entry, "epoch", path);
  const double steps_per_sec = positive(entry, "train_steps_per_second", path);
  const double timed = steps_per_sec * runtime;
  const auto agrees = [&](double steps) {
    return std::abs(timed - steps) <= tolerated_error * steps + rate_rounding * runtime + 1;
  };
  if (!agrees(training.steps) && !agrees(max_steps)) {
    throw InputError(fmt::format("{}: train_runtime is of {:.0f} of {:.0f} steps; resumed trainings are not read", path,
                                 timed, training.steps));
  }
  const double samples_per_sec = positive(entry, "train_samples_per_second", path);
  training.samples = samples_per_sec * runtime;
  const double hundreds = 100 * training.epochs;
  const bool is_rounded =
      std::abs(hundreds - std::round(hundreds)) < 1e-9 && training.epochs != std::floor(training.epochs);
  training.error = rate_rounding / samples_per_sec + (is_rounded ? 0.005 / training.epochs : 0);
  return training;
}

/// Samples an epoch and the batch. @throws InputError if a step takes several batches and nobody says how many
void set_sizes(TrainingLog& log, const Training& training, std::optional<double> batch, const RunFacts& facts,
               const std::string& path) {
  const double images = std::round(training.samples / training.epochs);
  double error = training.error;
  if (batch) {
    log.fields["batch_size"] = number_text(*batch);
    const double batches = training.samples / training.steps / *batch, whole = std::round(batches);
    if (batches > 1.5 && !is_given(facts, "accumulate")) {
      throw InputError(
          fmt::format("{}: a step takes about {:.1f} batches of {}: give accumulate if one device accumulated them; "
                      "trainings on several devices are not read",
                      path, batches, *batch));
    }
    // A training until max_steps counts whole batches, however small the last one of an epoch is.
    if (std::abs(batches / whole - 1) < tolerated_error) error += (whole * *batch - 1) / images;
  }
  if (error < tolerated_error && !is_given(facts, "train_images")) log.fields["train_images"] = number_text(images);
}

/// The median step of a training by Axolotl with `include_tkps`, whose entries have what they add to the tokens that
/// count in the loss, and their rate. @throws InputError where no entry has, or where steps do not grow
double axolotl_step_sec(const Json& history, const std::string& path) {
  std::vector<LoggedPoint> points;
  std::optional<double> tokens_before;
  double sec = 0;
  for (const Json& entry : history) {
    const auto tokens = number(entry, "tokens/trainable", path), step = number(entry, "step", path);
    const auto per_sec = number(entry, "tokens/train_per_sec_per_gpu", path);
    if (!tokens || !step) continue;
    if (per_sec && *per_sec > 0 && tokens_before) sec += (*tokens - *tokens_before) / *per_sec;
    points.push_back({*step, sec});
    tokens_before = tokens;
  }
  if (points.empty()) {
    throw InputError(
        path +
        ": has no train_runtime, since it is of a checkpoint; trainer.save_state() after train() writes one that has, "
        "Axolotl with include_tkps: true one with rates of tokens");
  }
  return median_step_sec(points, path);
}

TrainingLog read_trainer_state(const std::string& path, const RunFacts& facts) {
  const auto json = read_json<Json>(path);
  const auto history = json.find("log_history");
  if (history == json.end() || !history->is_array()) throw InputError(path + ": log_history is missing");
  TrainingLog log;
  log.framework = "transformers";
  log.note = "without evaluations";
  const Json* whole = nullptr;
  double eval_sec = 0, eval_until_end = 0;
  for (const Json& entry : *history) {
    if (!entry.is_object()) throw InputError(path + ": an entry of log_history is not an object");
    eval_sec += std::max(0.0, number(entry, "eval_runtime", path).value_or(0));
    if (const auto accuracy = number(entry, "eval_accuracy", path)) log.test_acc = accuracy;
    if (!entry.contains("train_runtime")) continue;
    if (whole != nullptr) throw InputError(path + ": has two trainings; a log holds one run");
    whole = &entry;
    eval_until_end = eval_sec;
  }
  if (whole == nullptr) {
    log.step_sec = axolotl_step_sec(*history, path);
    log.framework = "axolotl";
    log.note = "median of logged intervals";
    if (const auto batch = number(json, "train_batch_size", path)) log.fields["batch_size"] = number_text(*batch);
    return log;
  }
  const Training training = training_of(*whole, eval_until_end, number(json, "max_steps", path).value_or(0), path);
  log.step_sec = training.sec / training.steps;
  log.epochs = static_cast<int>(std::min(training.epochs, 1e9));
  set_sizes(log, training, number(json, "train_batch_size", path), facts, path);
  return log;
}

}  // namespace

const LogFormat trainer_state_format = {"Hugging Face's trainer_state.json",
                                        [](const LogHead& head) {
                                          return head.bytes.starts_with('{') &&
                                                 head.bytes.find("\"global_step\"") != std::string_view::npos;
                                        },
                                        read_trainer_state};

}  // namespace perfpred
