// SPDX-License-Identifier: Apache-2.0
#include "tools/iteration_log.h"

#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "text/csv.h"

namespace perfpred {
namespace {

/// Mean and spread without keeping the values (Welford).
class Moments {
 public:
  void add(double value) {
    ++n_;
    const double off = value - mean_;
    mean_ += off / static_cast<double>(n_);
    squares_ += off * (value - mean_);
    min_ = n_ == 1 ? value : std::min(min_, value);
    max_ = n_ == 1 ? value : std::max(max_, value);
  }
  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double std() const { return n_ > 1 ? std::sqrt(squares_ / static_cast<double>(n_ - 1)) : 0; }
  [[nodiscard]] double min() const { return min_; }
  [[nodiscard]] double max() const { return max_; }

 private:
  std::int64_t n_ = 0;
  double mean_ = 0, squares_ = 0, min_ = 0, max_ = 0;
};

struct Iteration {
  std::int64_t index;
  std::optional<std::int64_t> epoch;
  double timer_ms, images_per_sec, timestamp;
};

struct Group {
  IterationStats stats;
  std::string place;  // of its first row
  std::optional<Iteration> last;
  std::int64_t position = 0;  // in the run, from 0
  std::optional<std::pair<double, std::optional<double>>>
      held;  // the latest timer and wall time, dropped if the run ends
  Moments timer, wall, logged, all_wall;

  void take(const Iteration& iteration, int warmup) {
    const bool follows = last && iteration.index == last->index + 1 && iteration.timestamp >= last->timestamp;
    if (!follows) {
      position = 0;
      held.reset();
    }
    std::optional<double> wall_ms;
    if (follows && iteration.epoch == last->epoch) {  // what lies between two epochs is no iteration's time
      wall_ms = (iteration.timestamp - last->timestamp) * 1e3;
      all_wall.add(*wall_ms);
    }
    logged.add(iteration.images_per_sec);
    if (held) {
      timer.add(held->first);
      if (held->second) wall.add(*held->second);
      held.reset();
    }
    const double images = iteration.images_per_sec * iteration.timer_ms / 1e3;
    const bool partial = images < 0.99 * static_cast<double>(stats.batch_size);
    if (position >= warmup && !partial) held = {iteration.timer_ms, wall_ms};
    ++position;
    last = iteration;
  }
};

/// The zoo's spelling of a network; letters and digits decide.
std::string zoo_spelling(std::string_view name, const std::string& place) {
  const auto bare = [](std::string_view text) {
    std::string letters;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    return letters;
  };
  for (const std::string_view known : zoo_networks()) {
    if (bare(known) == bare(name)) return std::string(known);
  }
  try {
    return Workload::zoo(name, 1).network;
  } catch (const InputError& error) {
    throw InputError(place + error.what());
  }
}

}  // namespace

IterationSummary summarise_iterations(std::span<const std::string> paths, int warmup) {
  if (warmup < 0) throw InputError("the number of warm-up iterations must not be negative");
  std::deque<Group> groups;
  for (const std::string& path : paths) {
    std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, Group*> of_file;
    std::map<std::string, std::string, std::less<>> spellings;
    CsvReader csv(path);
    const CsvColumn environment = csv.optional("environment");
    const CsvColumn env = environment.index ? environment : csv.required("env");
    const CsvColumn device = environment.index ? environment : csv.required("device");
    const CsvColumn network = csv.optional("network").index ? csv.required("network") : csv.optional("model");
    if (!network.index) (void)csv.required("network");
    const CsvColumn batch_size = csv.required("batch_size"), index = csv.required("iter_idx");
    const CsvColumn time = csv.required("iter_time_ms"), rate = csv.required("imgs_per_sec");
    const CsvColumn timestamp = csv.required("timestamp");
    const CsvColumn epoch = csv.optional("epoch");
    while (csv.next()) {
      const std::string spelled(csv.text(network));
      const auto known = spellings.find(spelled);
      const std::string name = known != spellings.end() ? known->second : zoo_spelling(spelled, csv.place("").prefix());
      if (known == spellings.end()) spellings.emplace(spelled, name);
      const std::int64_t batch = csv.positive_integer(batch_size);
      const std::string where(csv.text(env)), on(csv.text(device));
      const Iteration iteration = {csv.integer(index), epoch.index ? std::optional(csv.integer(epoch)) : std::nullopt,
                                   csv.positive(time), csv.positive(rate), csv.finite(timestamp)};
      Group*& group = of_file[{where, on, name, batch}];
      if (group == nullptr) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
          return g.stats.environment == where && g.stats.device == on && g.stats.network == name &&
                 g.stats.batch_size == batch;
        });
        const bool fresh = same == groups.end();
        group = fresh ? &groups.emplace_back() : &*same;
        if (fresh) {
          group->stats.environment = where;
          group->stats.device = on;
          group->stats.network = name;
          group->stats.batch_size = batch;
          group->place = csv.place("").prefix();
        }
        group->last.reset();
        group->held.reset();
      }
      group->take(iteration, warmup);
    }
  }

  IterationSummary summary;
  for (Group& group : groups) {
    IterationStats& stats = group.stats;
    if (group.timer.n() == 0) {
      throw InputError(fmt::format("{}{}, batch size {}: no iteration is left without the first {} and the last",
                                   group.place, stats.network, stats.batch_size, warmup));
    }
    const bool walls = group.wall.n() > 0;
    stats.from_timestamps = walls && group.wall.mean() > 1.02 * group.timer.mean();
    const Moments& used = stats.from_timestamps ? group.wall : group.timer;
    stats.iterations = used.n();
    stats.mean_ms = used.mean();
    stats.std_ms = used.std();
    stats.min_ms = used.min();
    stats.max_ms = used.max();
    stats.images_per_sec = static_cast<double>(stats.batch_size) / stats.mean_ms * 1e3;
    stats.logged_images_per_sec = group.logged.mean();
    if (stats.from_timestamps) {
      const double wall_rate = static_cast<double>(stats.batch_size) / group.all_wall.mean() * 1e3;
      summary.warnings.push_back(
          fmt::format("{}, {}, batch size {}: the timer saw {:.0f} % of the wall time, so it did not wait for the "
                      "device; the images/s "
                      "logged are {:.0f} % too high, times are differences of timestamps",
                      stats.environment, stats.network, stats.batch_size, 100 * group.timer.mean() / group.wall.mean(),
                      100 * (stats.logged_images_per_sec / wall_rate - 1)));
    }
    summary.rows.push_back(stats);
  }
  if (summary.rows.empty())
    throw InputError((paths.empty() ? "" : paths.front() + ": ") + std::string("no iterations"));
  return summary;
}

}  // namespace perfpred
