// SPDX-License-Identifier: Apache-2.0
#include "model/training_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "aggregate/figures.h"
#include "text/hash.h"
#include "text/parse.h"
#include "workload/world.h"

namespace perfpred {

std::vector<AggregateRow> training_rows(std::span<const AggregateRow> rows) {
  std::vector<std::pair<std::string, AggregateRow>> keyed;
  for (const AggregateRow& row : rows) {
    if (!row.avg_time_mean || row.n < 1) continue;
    row.workload.validate();
    AggregateRow placed = row;
    placed.workload = without_idle_placement(row.workload);
    std::string key = placed.workload.key();
    check_figures(row, {key, 0, {}});
    EpochSamples& samples = placed.workload.train_images;
    samples = std::int64_t{samples};  // it was measured
    keyed.emplace_back(std::move(key), std::move(placed));
  }
  const auto by = [](const auto& entry) {
    const AggregateRow& row = entry.second;
    return std::tie(entry.first, row.avg_time_mean, row.n, row.avg_time_std, row.epoch_rel_sem);
  };
  std::sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) { return by(a) < by(b); });
  std::vector<AggregateRow> pooled;
  const std::string* last = nullptr;
  for (const auto& [key, row] : keyed) {
    if (last == nullptr || *last != key) {
      pooled.push_back(row);
    } else {
      pool(pooled.back(), row);
    }
    last = &key;
  }
  return pooled;
}

void pool(AggregateRow& row, const AggregateRow& other) {
  const auto n = static_cast<double>(row.n), m = static_cast<double>(other.n);
  const double mean = *row.avg_time_mean, apart = *other.avg_time_mean - mean;
  if (row.avg_time_std && other.avg_time_std) {
    const double squares = (n - 1) * *row.avg_time_std * *row.avg_time_std +
                           (m - 1) * *other.avg_time_std * *other.avg_time_std + n * m / (n + m) * apart * apart;
    row.avg_time_std = std::sqrt(squares / (n + m - 1));
  } else {
    row.avg_time_std.reset();
  }
  if (row.epoch_rel_sem && other.epoch_rel_sem) {
    row.epoch_rel_sem =
        std::hypot(std::sqrt(n / (n + m)) * *row.epoch_rel_sem, std::sqrt(m / (n + m)) * *other.epoch_rel_sem);
  } else if (other.epoch_rel_sem) {
    row.epoch_rel_sem = other.epoch_rel_sem;
  }
  row.avg_time_mean = mean + m / (n + m) * apart;
  row.n += other.n;
  row.flags.unstable = row.flags.unstable || other.flags.unstable;
  row.flags.disagree = row.flags.disagree || other.flags.disagree;
}

std::uint64_t set_id(std::span<const AggregateRow> rows) {
  std::uint64_t id = 0;
  for (const AggregateRow& row : rows)
    id += fnv1a(fmt::format("{}|{}|{}", row.workload.key(), number_text(row.avg_time_mean), row.n));
  return id;
}

}  // namespace perfpred
