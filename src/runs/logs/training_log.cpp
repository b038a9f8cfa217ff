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
#include "text/csv.h"
#include "text/files.h"
#include "text/nearest_name.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// The first that recognises a file reads it.
constexpr std::array<const LogFormat*, 7> formats = {&event_file_format,  &trainer_state_format, &mlperf_format,
                                                     &ultralytics_format, &fastai_format,        &lightning_format,
                                                     &keras_format};

constexpr std::size_t head_bytes = std::size_t{64} << 10;

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

  /// @returns the workload, and whether the zoo has its network
  [[nodiscard]] std::pair<Workload, bool> workload() const {
    require({"network", "batch_size", "train_images", "optimizer", "precision", "device"});
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
  std::tie(run.workload, is_known) = KnownFields(path, log, facts).workload();
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
