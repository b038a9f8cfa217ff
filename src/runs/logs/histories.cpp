// SPDX-License-Identifier: Apache-2.0
// Histories: an entry for each logged step, with the time since the run began. trainer_log.jsonl of LLaMA-Factory, and
// what people export of Weights & Biases, as JSON lines or CSV.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "runs/logs/log_table.h"
#include "runs/logs/training_log.h"
#include "text/json.h"

namespace perfpred {
namespace {

using Json = nlohmann::ordered_json;

/// Adds a point behind the others. @throws InputError at the place where its step or time lies before theirs
void add_point(std::vector<LoggedPoint>& points, const LoggedPoint& point, const ValuePlace& place) {
  if (!points.empty() && (point.step < points.back().step || point.sec < points.back().sec)) {
    throw InputError(
        fmt::format("{}step {} at {:.0f} s follows step {} at {:.0f} s: a log holds one run; give what is "
                    "behind the restart",
                    place.prefix(), point.step, point.sec, points.back().step, points.back().sec));
  }
  points.push_back(point);
}

/// A number of an entry; empty where it has none. @throws InputError at the place for another value
std::optional<double> number_of(const Json& entry, std::string_view key, ValuePlace place) {
  const auto found = entry.find(key);
  if (found == entry.end() || found->is_null()) return std::nullopt;
  place.name = key;
  if (!found->is_number()) throw_bad_value(place, dumped(*found), "a number");
  return found->get<double>();
}

/// Calls `take` for each line, an object. A last line that its writer cut off counts as not written.
void read_json_lines(const std::string& path, const std::function<void(const Json&, const ValuePlace&)>& take) {
  LineReader lines(path);
  for (const char* line = lines.next(); line != nullptr; line = lines.next()) {
    if (trimmed(line).empty()) continue;
    const ValuePlace place{path, lines.line(), {}};
    const auto entry = parse_json<Json>(line);
    if (entry.is_object()) {
      take(entry, place);
    } else if (lines.cut_off()) {
      return;
    } else {
      throw InputError(place.prefix() + "is not a JSON object");
    }
  }
}

/// `0:01:23`, `1 day, 2:00:00` or `2 days, 2:00:00`, as Python's timedelta writes whole seconds.
double elapsed_sec(std::string_view text, const ValuePlace& place) {
  const std::size_t day = text.find(" day"), comma = text.find(", ");
  if (day == std::string_view::npos || comma == std::string_view::npos) return parse_seconds(text, place);
  constexpr double day_sec = 86'400;
  return day_sec * parse_positive(text.substr(0, day), place) + parse_seconds(text.substr(comma + 2), place);
}

TrainingLog read_llama_factory(const std::string& path, const RunFacts&) {
  TrainingLog log;
  log.framework = "llama-factory";
  log.note = "median of logged intervals";
  std::vector<LoggedPoint> points;
  read_json_lines(path, [&](const Json& entry, ValuePlace place) {
    const auto step = number_of(entry, "current_steps", place);
    if (!step || !entry.contains("elapsed_time")) return;
    place.name = "elapsed_time";
    const Json& elapsed = entry["elapsed_time"];
    if (!elapsed.is_string()) throw_bad_value(place, dumped(elapsed), "a time");
    double sec = elapsed_sec(elapsed.get<std::string>(), place);
    // The rate is of all tokens since the start: their quotient is the time without its rounding.
    const auto tokens = number_of(entry, "total_tokens", place), per_sec = number_of(entry, "throughput", place);
    if (tokens && per_sec && *per_sec > 0) sec = *tokens / *per_sec;
    add_point(points, {*step, sec}, place);
    if (const auto epoch = number_of(entry, "epoch", place))
      log.epochs = static_cast<int>(std::clamp(*epoch, 0.0, 1e9));
  });
  log.step_sec = median_logged_sec(points, path);
  return log;
}

/// Columns of a history: updates of the parameters, as the Trainer of Hugging Face and Lightning call them, and W&B's
/// own steps, which count calls of log().
constexpr std::array<std::string_view, 3> update_columns = {"train/global_step", "trainer/global_step", "global_step"};
constexpr std::string_view own_step = "_step";
constexpr std::array<std::string_view, 2> time_columns = {"_runtime", "_timestamp"};

class WandbHistory {
 public:
  explicit WandbHistory(const std::string& path) : path_(path) {
    log_.framework = "wandb";
    log_.note = "median of logged intervals";
  }

  /// @param number  of a column of this row; empty where it has none
  void take(const std::function<std::optional<double>(std::string_view)>& number, const ValuePlace& place) {
    std::optional<double> sec;
    for (const std::string_view column : time_columns) sec = sec ? sec : number(column);
    if (!sec) return;
    for (const std::string_view column : update_columns) {
      if (const auto step = number(column)) return add_point(updates_, {*step, *sec}, place);
    }
    if (const auto step = number(own_step)) add_point(calls_, {*step, *sec}, place);
  }

  [[nodiscard]] TrainingLog result(const RunFacts& facts) && {
    if (updates_.empty() && !facts.counted) {
      throw InputError(
          fmt::format("{}: has no {}; its _step counts calls of wandb.log(): give counted=steps if each training step "
                      "calls it once",
                      path_, fmt::join(update_columns, ", ")));
    }
    if (updates_.empty() && *facts.counted == Timing::epochs) {
      throw InputError(path_ + ": counted=epochs is for TensorBoard files; a history of W&B is read by steps");
    }
    log_.step_sec = median_logged_sec(updates_.empty() ? calls_ : updates_, path_);
    return std::move(log_);
  }

 private:
  const std::string& path_;
  TrainingLog log_;
  std::vector<LoggedPoint> updates_, calls_;
};

TrainingLog read_wandb(const std::string& path, const RunFacts& facts, bool is_table) {
  WandbHistory history(path);
  if (is_table) {
    LogTable table(path);
    while (table.next()) {
      history.take([&](std::string_view column) { return table.number(column); }, table.place(""));
    }
  } else {
    read_json_lines(path, [&](const Json& entry, const ValuePlace& place) {
      history.take([&](std::string_view column) { return number_of(entry, column, place); }, place);
    });
  }
  return std::move(history).result(facts);
}

bool is_wandb_table(const LogHead& head) {
  return head.has_columns({own_step}) &&
         std::any_of(time_columns.begin(), time_columns.end(), [&](auto name) { return head.has_columns({name}); });
}

bool is_wandb_lines(const LogHead& head) {
  return head.bytes.starts_with('{') && head.bytes.find("\"_step\"") != std::string_view::npos;
}

}  // namespace

const LogFormat llama_factory_format = {"LLaMA-Factory's trainer_log.jsonl",
                                        [](const LogHead& head) {
                                          return head.bytes.starts_with('{') &&
                                                 head.bytes.find("\"current_steps\"") != std::string_view::npos;
                                        },
                                        read_llama_factory};
const LogFormat wandb_table_format = {
    "W&B's history as CSV", is_wandb_table,
    [](const std::string& path, const RunFacts& facts) { return read_wandb(path, facts, true); }};
const LogFormat wandb_lines_format = {
    "W&B's history as JSON lines", is_wandb_lines,
    [](const std::string& path, const RunFacts& facts) { return read_wandb(path, facts, false); }};

}  // namespace perfpred
