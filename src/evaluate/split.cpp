// SPDX-License-Identifier: Apache-2.0
#include "evaluate/split.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "evaluate/evaluation.h"
#include "evaluate/folds.h"
#include "text/csv.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {

Split split_rows(std::span<const AggregateRow> rows, double test_fraction, double val_fraction, std::uint64_t seed) {
  for (const double fraction : {test_fraction, val_fraction}) {
    if (!(fraction >= 0 && fraction < 1)) throw InputError(fmt::format("fraction {} is not in [0, 1)", fraction));
  }
  const std::vector<AggregateRow> kept = timed(rows);
  std::vector<std::vector<std::size_t>> order = rows_by_workload(kept);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto n = static_cast<double>(order.size());
  const auto test = static_cast<std::size_t>(std::lround(test_fraction * n));
  const auto val = static_cast<std::size_t>(std::lround(val_fraction * n));
  if (test + val >= order.size()) throw InputError(fmt::format("no row of {} is left to fit on", kept.size()));
  const std::span all(order);
  return {pick(kept, flatten(all.subspan(test + val))), pick(kept, flatten(all.subspan(test, val))),
          pick(kept, flatten(all.first(test)))};
}

namespace {

/// Which workload a line of a split table names: by its key, or by depth, base_filters and batch_size.
class SplitLine {
 public:
  explicit SplitLine(CsvReader& csv) : csv_(csv), split_(csv.required("split")), key_(csv.optional("key")) {
    if (key_.index) return;
    depth_ = csv.required("depth");
    base_filters_ = csv.required("base_filters");
    batch_size_ = csv.required("batch_size");
  }

  /// @returns where the line wants its rows
  [[nodiscard]] std::vector<AggregateRow>& part_of(Split& split) const {
    const std::string_view part = csv_.text(split_);
    if (part == "train") return split.train;
    if (part == "val") return split.val;
    if (part == "test") return split.test;
    throw_bad_value(csv_.place("split"), part, "train, val or test");
  }

  [[nodiscard]] std::function<bool(const Workload&)> named() const {
    if (key_.index) {
      return [keyed = placed(Workload::from_key, csv_.text(key_), csv_.place(""))](const Workload& workload) {
        return workload == keyed;
      };
    }
    return [depth = csv_.positive_integer(depth_), width = csv_.positive_integer(base_filters_),
            batch = csv_.positive_integer(batch_size_)](const Workload& workload) {
      return workload.depth() == depth && workload.base_filters() == width && workload.batch_size == batch;
    };
  }

 private:
  CsvReader& csv_;
  CsvColumn split_, key_, depth_, base_filters_, batch_size_;
};

}  // namespace

Split read_split(const std::string& path, std::span<const AggregateRow> rows) {
  CsvReader csv(path);
  const SplitLine line(csv);
  Split split;
  std::vector<std::size_t> line_of(rows.size());  // that names the row; 0: not named yet
  while (csv.next()) {
    std::vector<AggregateRow>& part = line.part_of(split);
    const auto named = line.named();
    const ValuePlace place = csv.place("");
    bool found = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!named(rows[i].workload)) continue;
      if (line_of[i] != 0)
        throw InputError(fmt::format("{}names the row of line {} again", place.prefix(), line_of[i]));
      line_of[i] = place.line;
      found = true;
      if (rows[i].avg_time_mean) part.push_back(rows[i]);
    }
    if (!found) throw InputError(place.prefix() + "names no measured row");
  }
  if (split.train.empty()) throw InputError(fmt::format("{}: no row has the split train", path));
  return split;
}

}  // namespace perfpred
