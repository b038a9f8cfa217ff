// SPDX-License-Identifier: Apache-2.0
// Lines of MLPerf's logging (mlperf_logging.mllog): `:::MLLOG` and a JSON object with time_ms, key, value, metadata.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runs/logs/training_log.h"
#include "statistics/quantiles.h"
#include "text/csv.h"
#include "text/json.h"

namespace perfpred {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view line_mark = ":::MLLOG";

struct Meaning {
  std::string_view value, means;
};
/// MLPerf Training's benchmarks of one fixed network; others have sizes that the log does not say.
constexpr std::array<Meaning, 3> benchmark_networks = {
    {{"resnet", "resnet50"}, {"bert", "bert_large"}, {"llama31_8b", "llama3.1_8b"}}};
/// Not `sgd`, whose momentum the log does not say.
constexpr std::array<Meaning, 4> optimizer_names = {
    {{"adam", "adam"}, {"adamw", "adamw"}, {"adagrad", "adagrad"}, {"lamb", "lamb"}}};

template <std::size_t n>
std::string meaning(const std::array<Meaning, n>& table, const Json& value) {
  for (const Meaning& row : table) {
    if (value.is_string() && value.get<std::string>() == row.value) return std::string(row.means);
  }
  return {};
}

class MlperfReader {
 public:
  explicit MlperfReader(const std::string& path) : path_(path) {
    log_.framework = "mlperf";
    log_.outcome = Outcome::interrupted;  // until run_stop
  }

  void read() {
    LineReader lines(path_);
    for (const char* line = lines.next(); line != nullptr; line = lines.next()) {
      const std::string_view text = line;
      const std::size_t begin = text.find(line_mark);
      if (begin == std::string_view::npos) continue;
      place_ = {path_, lines.line(), {}};
      const auto json = object_in(text.substr(begin + line_mark.size()));
      if (!json.is_object()) {
        if (lines.cut_off()) return;
        throw InputError(place_.prefix() + "is not a JSON object behind :::MLLOG");
      }
      take(json);
    }
  }

  [[nodiscard]] TrainingLog result() {
    if (log_.epoch_times.empty()) read_blocks();
    log_.epochs = static_cast<int>(log_.epoch_times.size());
    if (global_batch_) {
      const double batch = *global_batch_ / accumulate_;
      log_.fields["batch_size"] = number_text(batch);
      if (accumulate_ > 1) log_.fields["accumulate"] = number_text(accumulate_);
      log_.note = fmt::format("batch of {} as on one device", batch);
    }
    return std::move(log_);
  }

 private:
  /// Between evaluations, from block_start to block_stop.
  struct Block {
    double sec;
    std::optional<double> from, until;  ///< samples_count there: those of the training, or of each block
  };

  /// The median step of the blocks behind the first, which has the start in it.
  void read_blocks() {
    std::vector<double> steps;
    double until = blocks_.empty() ? 0 : blocks_.front().from.value_or(0);
    for (const Block& block : blocks_) {
      const double counted = block.until.value_or(0), samples = counted > until ? counted - until : counted;
      if (global_batch_ && samples > 0) steps.push_back(block.sec * *global_batch_ / samples);
      until = counted;
    }
    if (steps.size() < 2) {
      throw InputError(
          fmt::format("{}: has no epoch_start with its epoch_stop, and {} blocks with samples_count and a "
                      "global_batch_size; two are needed",
                      path_, steps.size()));
    }
    steps.erase(steps.begin());
    log_.step_sec = median(std::move(steps));
  }

  [[nodiscard]] static std::optional<double> samples_count(const Json& json) {
    const auto metadata = json.find("metadata");
    if (metadata == json.end() || !metadata->is_object()) return std::nullopt;
    const Json count = metadata->value("samples_count", Json());
    return count.is_number() ? std::optional(count.get<double>()) : std::nullopt;
  }

  [[nodiscard]] Json object_in(std::string_view text) const {
    try {
      return parse_json<Json>(text);
    } catch (const InputError& error) {
      throw InputError(place_.prefix() + error.what());
    }
  }

  void take(const Json& json) {
    const auto key = json.find("key");
    if (key == json.end() || !key->is_string()) throw_bad_value(place_, "", "an object with a key");
    const std::string name = key->get<std::string>();
    const Json value = json.value("value", Json());
    if (name == "submission_benchmark") {
      set("network", meaning(benchmark_networks, value));
    } else if (name == "opt_name") {
      set("optimizer", meaning(optimizer_names, value));
    } else if (name == "global_batch_size") {
      global_batch_ = count(value, name);
    } else if (name == "gradient_accumulation_steps") {
      accumulate_ = count(value, name);
    } else if (name == "train_samples") {
      set("train_images", number_text(count(value, name)));
    } else if (name == "max_sequence_length") {
      set("input", number_text(count(value, name)));
    } else if (name == "eval_accuracy") {
      if (value.is_number()) log_.test_acc = value.get<double>();
    } else {
      take_time(name, json);
    }
  }

  void take_time(std::string_view name, const Json& json) {
    if (name == "run_start") {
      if (!log_.timestamp_utc.empty()) throw InputError(place_.prefix() + "a second run_start; a log holds one run");
      log_.timestamp_utc = utc_text(seconds(json));
    } else if (name == "run_stop") {
      log_.outcome = Outcome::ok;
    } else if (name == "epoch_start") {
      if (std::exchange(epoch_start_, seconds(json))) {
        throw InputError(place_.prefix() + "a second epoch_start before an epoch_stop");
      }
      eval_sec_ = 0;
    } else if (name == "eval_start") {
      eval_start_ = seconds(json);
    } else if (name == "eval_stop" && eval_start_) {
      const double sec = seconds(json) - *std::exchange(eval_start_, std::nullopt);
      if (sec < 0) throw InputError(place_.prefix() + "the evaluation ends before it begins");
      eval_sec_ += sec;
    } else if (name == "epoch_stop" && epoch_start_) {
      const double sec = seconds(json) - *std::exchange(epoch_start_, std::nullopt) - eval_sec_;
      if (!(sec > 0)) throw InputError(place_.prefix() + "the epoch ends before it begins");
      log_.epoch_times.push_back(sec);
    } else {
      take_block(name, json);
    }
  }

  void take_block(std::string_view name, const Json& json) {
    if (name == "block_start") {
      if (std::exchange(block_start_, seconds(json))) {
        throw InputError(place_.prefix() + "a second block_start before a block_stop");
      }
      block_from_ = samples_count(json);
    } else if (name == "block_stop" && block_start_) {
      const double sec = seconds(json) - *std::exchange(block_start_, std::nullopt);
      if (!(sec > 0)) throw InputError(place_.prefix() + "the block ends before it begins");
      blocks_.push_back({sec, block_from_, samples_count(json)});
    }
  }

  void set(const char* field, std::string text) {
    if (!text.empty()) log_.fields[field] = std::move(text);
  }

  double count(const Json& value, std::string_view name) {
    place_.name = name;
    const double number = value.is_number() ? value.get<double>() : 0;
    if (number < 1 || number > 1e15 || number != std::floor(number)) {
      throw_bad_value(place_, dumped(value), "a positive integer");
    }
    return number;
  }

  double seconds(const Json& json) {
    place_.name = "time_ms";
    const Json value = json.value("time_ms", Json());
    if (!value.is_number() || value.get<double>() < 0) throw_bad_value(place_, dumped(value), "a time");
    return value.get<double>() / 1000;
  }

  const std::string& path_;
  ValuePlace place_;
  TrainingLog log_;
  std::optional<double> global_batch_, epoch_start_, eval_start_, block_start_, block_from_;
  std::vector<Block> blocks_;
  double accumulate_ = 1;
  double eval_sec_ = 0;  // within the epoch
};

TrainingLog read_mlperf(const std::string& path, const RunFacts&) {
  MlperfReader reader(path);
  reader.read();
  return reader.result();
}

}  // namespace

const LogFormat mlperf_format = {
    "MLPerf", [](const LogHead& head) { return head.bytes.find(line_mark) != std::string_view::npos; }, read_mlperf};

}  // namespace perfpred
