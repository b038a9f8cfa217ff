// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/iteration_log.h"

#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "statistics/moments.h"
#include "step/epoch_steps.h"
#include "text/csv.h"
#include "text/nearest_name.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

constexpr double max_wall_to_timer = 1.02;  // beyond, the timer did not wait for the device

struct Iteration {
  std::int64_t index;
  std::optional<std::int64_t> epoch;
  double timer_ms, images_per_sec, timestamp;
};

bool is_next(std::int64_t index, std::int64_t last) { return index > last && index == last + 1; }

struct IterationGroup {
  std::string environment;
  Workload workload;
  std::int64_t accumulate = 1;
  std::string place;                           // of its first row
  std::set<std::pair<double, double>> begins;  // timestamp and time of each log's first row
  std::optional<Iteration> last;
  std::int64_t position = 0;                                     // in the run, from 0
  std::optional<std::pair<double, std::optional<double>>> held;  // newest timer and wall time; dropped if the run ends
  Moments timer, wall, timer_beside_wall, logged, all_wall;

  [[nodiscard]] std::int64_t samples() const { return samples_of(workload.batch_size, accumulate); }  // of an iteration

  void take(const Iteration& iteration, int warmup) {
    const bool follows = last && is_next(iteration.index, last->index) && iteration.timestamp >= last->timestamp;
    if (!follows) {
      position = 0;
      held.reset();
    }
    std::optional<double> wall_ms;
    if (follows && iteration.epoch == last->epoch) {  // the pause between two epochs belongs to no iteration
      wall_ms = (iteration.timestamp - last->timestamp) * 1e3;
      all_wall.add(*wall_ms);
    }
    logged.add(iteration.images_per_sec);
    if (held) {
      timer.add(held->first);
      if (held->second) {
        timer_beside_wall.add(held->first);
        wall.add(*held->second);
      }
      held.reset();
    }
    const double images = iteration.images_per_sec * iteration.timer_ms / 1e3;
    const bool partial = images < 0.99 * static_cast<double>(samples());
    if (position >= warmup && !partial) held = {iteration.timer_ms, wall_ms};
    ++position;
    last = iteration;
  }
};

/// "MobileNetV2" is "mobilenet_v2": letters and digits decide.
std::string zoo_spelling(std::string_view name) {
  for (const std::string_view known : zoo_networks()) {
    if (bare(known) == bare(name)) return std::string(known);
  }
  return std::string(name);
}

/// The columns of an iteration log, under either of their names.
class IterationTable {
 public:
  IterationTable(const std::string& path, std::set<std::string>& missing_columns) : csv_(path) {
    const CsvColumn environment = csv_.optional("environment");
    env_ = environment.index ? environment : csv_.required("env");
    device_ = environment.index ? environment : csv_.required("device");
    const CsvColumn model = csv_.optional("model");
    network_ = model.index && !csv_.optional("network").index ? model : csv_.required("network");
    batch_size_ = csv_.required("batch_size");
    index_ = csv_.required("iter_idx");
    time_ = csv_.required("iter_time_ms");
    rate_ = csv_.required("imgs_per_sec");
    timestamp_ = csv_.required("timestamp");
    epoch_ = csv_.optional("epoch");
    accumulate_ = csv_.optional("accumulate");
    settings_ = {csv_.optional("layout"), csv_.optional("threads")};
    for (const char* name : {"input", "classes", "optimizer", "precision"}) {
      settings_.push_back(csv_.optional(name));
      if (!settings_.back().index) missing_columns.insert(name);
    }
  }

  [[nodiscard]] bool next() { return csv_.next(); }
  [[nodiscard]] std::string place() const { return csv_.place("").prefix(); }
  [[nodiscard]] std::string_view environment() const { return csv_.text(env_); }

  [[nodiscard]] Iteration iteration() const {
    return {csv_.integer(index_), epoch_.index ? std::optional(csv_.integer(epoch_)) : std::nullopt,
            csv_.positive(time_), csv_.positive(rate_), csv_.finite(timestamp_)};
  }

  /// What the row says of its workload, as it stands there: rows with the same text belong together.
  [[nodiscard]] std::string stated() const {
    std::string text;
    for (const CsvColumn& column : {env_, device_, network_, batch_size_}) text.append(csv_.text(column)) += '\n';
    for (const CsvColumn& column : settings_) text.append(csv_.text(column)) += '\n';
    return text.append(csv_.text(accumulate_));
  }

  [[nodiscard]] std::int64_t accumulate() const {
    return csv_.text(accumulate_).empty() ? 1 : csv_.positive_integer(accumulate_);
  }

  /// @throws InputError with its place for a row that names no workload
  [[nodiscard]] Workload workload() const {
    const std::int64_t batch_size = csv_.positive_integer(batch_size_);
    try {
      Workload workload = Workload::zoo(zoo_spelling(csv_.text(network_)), batch_size);
      workload.device = csv_.text(device_);
      workload.optimizer = Optimizer::nesterov;
      workload.precision = Precision::unknown;
      for (const CsvColumn& column : settings_) {
        if (!csv_.text(column).empty()) workload = with_field(std::move(workload), column.name, csv_.text(column));
      }
      (void)samples_of(batch_size, accumulate());
      return workload;
    } catch (const InputError& error) {
      throw InputError(place() + error.what());
    }
  }

 private:
  CsvReader csv_;
  CsvColumn env_, device_, network_, batch_size_, index_, time_, rate_, timestamp_, epoch_, accumulate_;
  std::vector<CsvColumn> settings_;  // the optional columns that describe a workload further
};

/// The group of a row whose workload this log has not named before. @throws InputError if an earlier log has this run
IterationGroup& group_of(std::deque<IterationGroup>& groups, const IterationTable& table, const Iteration& first) {
  const Workload workload = table.workload();
  const std::int64_t accumulate = table.accumulate();
  const auto same = std::find_if(groups.begin(), groups.end(), [&](const IterationGroup& group) {
    return group.environment == table.environment() && group.workload == workload && group.accumulate == accumulate;
  });
  const bool is_new = same == groups.end();
  IterationGroup& group = is_new ? groups.emplace_back() : *same;
  if (is_new) {
    group.environment = table.environment();
    group.workload = workload;
    group.accumulate = accumulate;
    group.place = table.place();
  }
  group.last.reset();
  group.held.reset();
  if (!group.begins.insert({first.timestamp, first.timer_ms}).second) {
    throw InputError(table.place() + "this run is in an earlier log, too");
  }
  return group;
}

void summarise(const IterationGroup& group, int warmup, IterationSummary& summary) {
  const Workload& workload = group.workload;
  const auto batch = static_cast<double>(group.samples());
  if (group.timer.n == 0) {
    throw InputError(fmt::format("{}{}, batch size {}: no iteration is left without the first {} and the last",
                                 group.place, workload.network, workload.batch_size, warmup));
  }
  const bool unsynchronised =
      group.wall.n > 0 && group.wall.mean() > max_wall_to_timer * group.timer_beside_wall.mean();
  const Moments& used = unsynchronised ? group.wall : group.timer;
  const std::optional<double> deviation = used.n > 1 ? std::optional(used.deviation()) : std::nullopt;
  summary.rows.push_back({group.environment, workload, group.accumulate, used.n, used.mean(), deviation, used.min,
                          used.max, batch / used.mean() * 1e3});
  if (!unsynchronised) return;
  const double wall_rate = batch / group.all_wall.mean() * 1e3;
  summary.warnings.push_back(fmt::format(
      "{}, {}, batch size {}: the timer saw {:.0f} % of the wall time, so it did not wait for the device; "
      "the imgs_per_sec in the log are {:.0f} % too high; times are taken from the timestamps",
      group.environment.empty() ? workload.device : group.environment, workload.network, workload.batch_size,
      100 * group.timer_beside_wall.mean() / group.wall.mean(), 100 * (group.logged.mean() / wall_rate - 1)));
}

}  // namespace

IterationSummary summarise_iterations(std::span<const std::string> paths, int warmup) {
  if (warmup < 0) throw InputError("the number of warm-up iterations must not be negative");
  std::deque<IterationGroup> groups;
  IterationSummary summary;
  for (const std::string& path : paths) {
    std::map<std::string, IterationGroup*> groups_of_file;  // by what their rows state
    IterationTable table(path, summary.missing_columns);
    while (table.next()) {
      const Iteration iteration = table.iteration();
      IterationGroup*& group = groups_of_file[table.stated()];
      if (group == nullptr) group = &group_of(groups, table, iteration);
      group->take(iteration, warmup);
    }
  }
  for (const IterationGroup& group : groups) summarise(group, warmup, summary);
  if (groups.empty()) {
    throw InputError((paths.empty() ? "" : paths.front() + ": ") + std::string("has no iteration"));
  }
  return summary;
}

}  // namespace perfpred
