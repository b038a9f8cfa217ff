// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/iteration_log.h"

#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "statistics/moments.h"
#include "text/csv.h"
#include "text/nearest_name.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

struct Iteration {
  std::int64_t index;
  std::optional<std::int64_t> epoch;
  double timer_ms, images_per_sec, timestamp;
};

struct Group {
  std::string environment;
  Workload workload;
  std::string place;                           // of its first row
  std::set<std::pair<double, double>> begins;  // timestamp and time of each log's first row
  std::optional<Iteration> last;
  std::int64_t position = 0;                                     // in the run, from 0
  std::optional<std::pair<double, std::optional<double>>> held;  // newest timer and wall time; dropped if the run ends
  Moments timer, wall, timer_beside_wall, logged, all_wall;

  void take(const Iteration& iteration, int warmup) {
    const bool follows = last && iteration.index == last->index + 1 && iteration.timestamp >= last->timestamp;
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
    const bool partial = images < 0.99 * static_cast<double>(workload.batch_size);
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

/// The workload that the current row names. `settings`: the optional columns that describe it further.
Workload workload_of(const CsvReader& csv, std::string_view network, std::int64_t batch_size, std::string_view device,
                     std::span<const CsvColumn> settings) {
  try {
    Workload workload = Workload::zoo(zoo_spelling(network), batch_size);
    workload.device = device;
    workload.optimizer = Optimizer::nesterov;
    workload.precision = Precision::unknown;
    for (const CsvColumn& column : settings) {
      if (!csv.text(column).empty()) workload = with_field(std::move(workload), column.name, csv.text(column));
    }
    return workload;
  } catch (const InputError& error) {
    throw InputError(csv.place("").prefix() + error.what());
  }
}

}  // namespace

IterationSummary summarise_iterations(std::span<const std::string> paths, int warmup) {
  if (warmup < 0) throw InputError("the number of warm-up iterations must not be negative");
  std::deque<Group> groups;
  IterationSummary summary;
  for (const std::string& path : paths) {
    std::map<std::tuple<std::string, std::string, std::string, std::int64_t, std::string>, Group*> groups_of_file;
    CsvReader csv(path);
    const CsvColumn environment = csv.optional("environment");
    const CsvColumn env = environment.index ? environment : csv.required("env");
    const CsvColumn device = environment.index ? environment : csv.required("device");
    const CsvColumn model = csv.optional("model");
    const CsvColumn network = model.index && !csv.optional("network").index ? model : csv.required("network");
    const CsvColumn batch_size = csv.required("batch_size"), index = csv.required("iter_idx");
    const CsvColumn time = csv.required("iter_time_ms"), rate = csv.required("imgs_per_sec");
    const CsvColumn timestamp = csv.required("timestamp"), epoch = csv.optional("epoch");
    std::vector<CsvColumn> settings = {csv.optional("layout")};
    for (const char* name : {"input", "classes", "optimizer", "precision"}) {
      settings.push_back(csv.optional(name));
      if (!settings.back().index) summary.missing_columns.insert(name);
    }
    while (csv.next()) {
      const std::int64_t batch = csv.positive_integer(batch_size);
      const Iteration iteration = {csv.integer(index), epoch.index ? std::optional(csv.integer(epoch)) : std::nullopt,
                                   csv.positive(time), csv.positive(rate), csv.finite(timestamp)};
      std::string stated;
      for (const CsvColumn& column : settings) stated.append(csv.text(column)) += '\n';
      Group*& group = groups_of_file[{std::string(csv.text(env)), std::string(csv.text(device)),
                                      std::string(csv.text(network)), batch, stated}];
      if (group == nullptr) {
        const Workload workload = workload_of(csv, csv.text(network), batch, csv.text(device), settings);
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
          return g.environment == csv.text(env) && g.workload == workload;
        });
        if (same == groups.end()) {
          group = &groups.emplace_back();
          group->environment = csv.text(env);
          group->workload = workload;
          group->place = csv.place("").prefix();
        } else {
          group = &*same;
          group->last.reset();
          group->held.reset();
        }
        if (!group->begins.insert({iteration.timestamp, iteration.timer_ms}).second) {
          throw InputError(csv.place("").prefix() + "this run is in an earlier log, too");
        }
      }
      group->take(iteration, warmup);
    }
  }

  for (const Group& group : groups) {
    const auto batch = static_cast<double>(group.workload.batch_size);
    if (group.timer.n == 0) {
      throw InputError(fmt::format("{}{}, batch size {}: no iteration is left without the first {} and the last",
                                   group.place, group.workload.network, group.workload.batch_size, warmup));
    }
    const bool unsynchronised = group.wall.n > 0 && group.wall.mean() > 1.02 * group.timer_beside_wall.mean();
    const Moments& used = unsynchronised ? group.wall : group.timer;
    const std::optional<double> deviation = used.n > 1 ? std::optional(used.deviation()) : std::nullopt;
    summary.rows.push_back({group.environment, group.workload, used.n, used.mean(), deviation, used.min, used.max,
                            batch / used.mean() * 1e3});
    if (unsynchronised) {
      const double wall_rate = batch / group.all_wall.mean() * 1e3;
      summary.warnings.push_back(fmt::format(
          "{}, {}, batch size {}: the timer saw {:.0f} % of the wall time, so it did not wait for the device; the "
          "imgs_per_sec in the log are {:.0f} % too high; times are taken from the timestamps",
          group.environment.empty() ? group.workload.device : group.environment, group.workload.network,
          group.workload.batch_size, 100 * group.timer_beside_wall.mean() / group.wall.mean(),
          100 * (group.logged.mean() / wall_rate - 1)));
    }
  }
  if (groups.empty()) {
    throw InputError((paths.empty() ? "" : paths.front() + ": ") + std::string("has no iteration"));
  }
  return summary;
}

}  // namespace perfpred
