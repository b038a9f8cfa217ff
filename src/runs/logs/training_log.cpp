// SPDX-License-Identifier: Apache-2.0
#include "runs/logs/training_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

#include "runs/run_row.h"
#include "statistics/quantiles.h"
#include "step/epoch_steps.h"
#include "text/csv.h"
#include "text/files.h"
#include "text/nearest_name.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// The first that recognises a file reads it.
constexpr std::array<const LogFormat*, 14> formats = {
    &event_file_format,  &trainer_state_format, &llama_factory_format, &wandb_lines_format, &wandb_table_format,
    &mlperf_format,      &megatron_format,      &nanogpt_format,       &timm_format,        &torchtune_format,
    &ultralytics_format, &fastai_format,        &lightning_format,     &keras_format};

constexpr std::size_t head_bytes = std::size_t{1} << 20;  // programs print much before their first step
constexpr double rounding_share = 0.02;                   // of an interval, that times in whole seconds may be off

std::string first_bytes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  try {
    read_at(fd, 0, head_bytes, text, path);
  } catch (const InputError&) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  return text;
}

std::vector<std::string> columns_of(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string line(text.substr(0, text.find_first_of("\r\n")));
  line.erase(std::find(line.begin(), line.end(), '\0'), line.end());
  std::vector<std::string_view> fields;
  if (!split_csv_fields(line.data(), fields)) return {};
  std::vector<std::string> columns;
  for (const std::string_view field : fields) columns.emplace_back(trimmed(field));
  return columns;
}

const LogFormat& format_of(const std::string& path) {
  const std::string text = first_bytes(path);
  if (text.empty()) throw InputError(path + ": is empty");
  const LogHead head{text, columns_of(text)};
  if (head.has_columns({"timestamp_utc", "avg_time_sec"}))
    throw InputError(path + ": is a table of runs, not a log; give it as runs");
  for (const LogFormat* format : formats) {
    if (format->recognises(head)) return *format;
  }
  throw InputError(fmt::format("{}: is no log of {} (docs/guides/aggregating.md)", path, training_log_formats()));
}

/// Fields of the workload, from both sides.
class KnownFields {
 public:
  /// @throws InputError if the sides differ
  KnownFields(const std::string& path, const TrainingLog& log, const RunFacts& facts)
      : path_(path), texts_(log.fields) {
    for (const auto& [name, text] : facts.fields) {
      const auto [logged, is_new] = texts_.emplace(name, text);
      if (is_new || canonical(name, logged->second) == canonical(name, text)) continue;
      throw InputError(fmt::format("{}: says {} {}, but {} was given", path, name, shown(logged->second), shown(text)));
    }
  }

  [[nodiscard]] bool has(std::string_view name) const { return texts_.contains(name); }

  /// @throws InputError that names those of the fields that nobody says
  void require(std::initializer_list<std::string_view> names, std::string_view what = {}) const {
    std::vector<std::string> missing;
    for (const std::string_view name : names) {
      if (!has(name)) missing.emplace_back(name);
    }
    if (missing.empty()) return;
    throw InputError(fmt::format("{}: does not say {}{}: give {}", path_, fmt::join(missing, ", "), what,
                                 missing.size() > 1 ? "them" : "it"));
  }

  /// @param needs_epoch  nobody need say the samples of an epoch otherwise
  /// @returns the workload, and whether the zoo has its network
  [[nodiscard]] std::pair<Workload, bool> workload(bool needs_epoch) const {
    if (needs_epoch) {
      require({"network", "batch_size", "train_images", "optimizer", "precision", "device"});
    } else {
      require({"network", "batch_size", "optimizer", "precision", "device"});
    }
    const std::string& network = texts_.find("network")->second;
    Workload workload = unstated_workload();
    bool is_known = true;
    try {
      workload = with_field(workload, "network", network);
    } catch (const InputError&) {
      require({"input", "classes"}, fmt::format(" of a network of its own (the zoo has no {})", shown(network)));
      is_known = false;
    }
    std::vector<std::string_view> texts;
    for (const WorkloadColumn& column : workload_columns()) {
      const auto found = texts_.find(column.name);
      texts.push_back(found == texts_.end() ? std::string_view() : found->second);
    }
    set_fields(workload, texts, {path_, 0, {}});
    return {workload, is_known};
  }

 private:
  [[nodiscard]] std::string canonical(std::string_view name, std::string_view text) const {
    Workload workload = unstated_workload();
    workload_column(name).set(workload, text, {path_, 0, name});
    return field_text(workload, name);
  }

  const std::string& path_;
  std::map<std::string, std::string, std::less<>> texts_;
};

/// Sets how many batches a step has, where the log says how many samples. @throws InputError if that is not whole, or
/// another number was given
void set_batches(Workload& workload, const TrainingLog& log, bool is_stated, const std::string& path) {
  std::optional<double> samples = log.step_samples;
  if (log.step_tokens && workload.input.size() == 1) {
    samples = *log.step_tokens / static_cast<double>(workload.input.front());
  }
  if (!samples) return;
  const std::int64_t replicas = replicas_of(workload);
  const double batches = *samples / static_cast<double>(workload.batch_size) / static_cast<double>(replicas);
  const double stated = static_cast<double>(workload.accumulate);
  if (batches < 1 || batches != std::floor(batches) || batches > 1e9 || (is_stated && stated != batches)) {
    throw InputError(
        fmt::format("{}: a step has {} samples, which are {:.4g} batches of {} on {} {}{}: correct batch_size, input, "
                    "accumulate or parallel",
                    path, *samples, batches, workload.batch_size, replicas, replicas > 1 ? "replicas" : "device",
                    is_stated ? fmt::format(", not {}", workload.accumulate) : ""));
  }
  workload.accumulate = static_cast<std::int64_t>(batches);
}

void set_times(Run& run, const TrainingLog& log, const std::string& path) {
  const Workload& w = run.workload;
  if (log.step_sec) {
    run.timing = Timing::steps;
    run.avg_time_sec = *log.step_sec * static_cast<double>(w.steps_per_epoch());
  } else if (log.batch_sec) {
    run.timing = Timing::steps;
    run.avg_time_sec =
        *log.batch_sec * std::ceil(static_cast<double>(w.train_images) / static_cast<double>(w.batch_size));
  } else if (log.epoch_times.size() < 2) {
    throw InputError(fmt::format("{}: times {} epochs; two are needed, since the first has the start in it", path,
                                 log.epoch_times.size()));
  } else {
    run.epoch_times = log.epoch_times;
    run.avg_time_sec = std::accumulate(log.epoch_times.begin() + 1, log.epoch_times.end(), 0.0) /
                       static_cast<double>(log.epoch_times.size() - 1);
  }
  run.images_per_sec = static_cast<double>(w.train_images) / *run.avg_time_sec;
}

}  // namespace

bool LogHead::has_columns(std::initializer_list<std::string_view> names) const {
  return std::all_of(names.begin(), names.end(), [this](std::string_view name) {
    return std::find(columns.begin(), columns.end(), name) != columns.end();
  });
}

double median_step_sec(const std::vector<LoggedPoint>& points, std::string_view where) {
  if (points.size() < 3) {
    throw InputError(fmt::format("{}: logs {} points in time; three are needed", where, points.size()));
  }
  std::vector<double> seconds;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double steps = points[i].step - points[i - 1].step, sec = points[i].sec - points[i - 1].sec;
    if (!(steps > 0)) {
      throw InputError(
          fmt::format("{}: step {} follows step {}; a log holds one run", where, points[i].step, points[i - 1].step));
    }
    if (!(sec > 0)) throw InputError(fmt::format("{}: time does not go on to step {}", where, points[i].step));
    seconds.push_back(sec / steps);
  }
  return median(std::move(seconds));
}

bool is_test_accuracy(std::string_view name) {
  const auto has = [letters = bare(name)](const char* part) { return letters.find(part) != std::string::npos; };
  return has("acc") && (has("val") || has("test")) && !has("5");  // nor the share of the five best
}

bool is_given(const RunFacts& facts, std::string_view name) {
  return std::any_of(facts.fields.begin(), facts.fields.end(),
                     [name](const auto& field) { return field.first == name; });
}

double median_logged_sec(const std::vector<LoggedPoint>& points, std::string_view where) {
  const bool whole = std::all_of(points.begin(), points.end(),
                                 [](const LoggedPoint& point) { return point.sec == std::floor(point.sec); });
  std::vector<LoggedPoint> kept;
  for (const LoggedPoint& point : points) {
    if (!kept.empty() && point.step == kept.back().step) continue;
    if (whole && !kept.empty() && point.sec < kept.back().sec + 1 / rounding_share) continue;
    kept.push_back(point);
  }
  if (whole && kept.size() < 3) {
    throw InputError(fmt::format("{}: its times are whole seconds: {:.0f} s of steps are needed, it has {:.0f}", where,
                                 2 / rounding_share, points.empty() ? 0 : points.back().sec - points.front().sec));
  }
  return median_step_sec(kept, where);
}

std::string utc_text(double unix_sec) {
  constexpr double first = -62135596800, last = 253402300799;  // in the years 1 and 9999
  if (!(unix_sec >= first && unix_sec <= last)) return {};
  const long ms = std::lround(unix_sec * 1000), part = ((ms % 1000) + 1000) % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>((ms - part) / 1000)), part);
}

std::string training_log_formats() {
  std::string text;
  for (const LogFormat* format : formats) {
    if (!text.empty()) text += format == formats.back() ? " or " : ", ";
    text += format->name;
  }
  return text;
}

Run read_training_log(const std::string& path, const RunFacts& facts) {
  const TrainingLog log = format_of(path).read(path, facts);
  Run run;
  bool is_known = false;
  const KnownFields known(path, log, facts);
  const bool has_one_step = facts.of_step && !known.has("train_images") && (log.step_sec || log.batch_sec);
  std::tie(run.workload, is_known) = known.workload(!has_one_step);
  set_batches(run.workload, log, known.has("accumulate"), path);
  if (has_one_step) run.workload.train_images = samples_per_step(run.workload);
  if (!is_known && !facts.params) {
    throw InputError(fmt::format("{}: does not say params of a network of its own: give it", path));
  }
  run.params = facts.params ? *facts.params : run.workload.params();
  run.timestamp_utc = log.timestamp_utc;
  run.framework = log.framework;
  run.env = facts.env;
  run.epochs = log.epochs;
  run.outcome = log.outcome;
  run.note = log.note;
  run.data_wait_share = log.data_wait_share;
  set_times(run, log, path);
  if (log.test_acc && *log.test_acc >= 0 && *log.test_acc <= 1) run.test_acc = log.test_acc;
  try {
    check_run(run);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
  return run;
}

}  // namespace perfpred
