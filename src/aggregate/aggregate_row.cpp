// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "aggregate/figures.h"
#include "aggregate/usable_rows.h"
#include "text/csv.h"
#include "text/files.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

struct FlagWord {
  std::string_view word;
  bool AggregateFlags::*flag;
};

constexpr std::array<FlagWord, 4> flag_words = {{{"unstable", &AggregateFlags::unstable},
                                                 {"disagree", &AggregateFlags::disagree},
                                                 {"diverged", &AggregateFlags::diverged},
                                                 {"oom", &AggregateFlags::oom}}};

/// Columns of numbers that may be empty, and what requires a value.
struct NumberColumn {
  std::string_view name;
  std::optional<double> AggregateRow::*value;
  enum class With { runs, accuracy, nothing } with;
};

/// Those of the reference collection, then ours.
constexpr std::array<NumberColumn, 7> number_columns = {
    {{"avg_time_mean", &AggregateRow::avg_time_mean, NumberColumn::With::runs},
     {"avg_time_std", &AggregateRow::avg_time_std, NumberColumn::With::runs},
     {"thr_mean", &AggregateRow::thr_mean, NumberColumn::With::runs},
     {"thr_std", &AggregateRow::thr_std, NumberColumn::With::runs},
     {"acc_mean", &AggregateRow::acc_mean, NumberColumn::With::accuracy},
     {"acc_std", &AggregateRow::acc_std, NumberColumn::With::accuracy},
     {"epoch_rel_sem", &AggregateRow::epoch_rel_sem, NumberColumn::With::nothing}}};
constexpr double rounding = 1.01;  // of means and deviations that were written with few digits

std::int64_t count(std::string_view text, const ValuePlace& place) {
  const std::int64_t value = parse_integer(text, place);
  if (value < 0) throw_bad_value(place, text, "zero or more");
  return value;
}

void read_flags(AggregateRow& row, std::string_view text, const ValuePlace& place) {
  row.flags = placed(AggregateFlags::parse, text, place);
}

using R = AggregateRow;

Columns<R> figure_columns(bool of_reference) {
  Columns<R> columns;
  for (const NumberColumn& column : number_columns) {
    if ((column.with != NumberColumn::With::nothing) != of_reference) continue;
    columns.push_back(number_column(column.name, column.value, parse_finite, of_reference));
  }
  return columns;
}

/// The row's own columns of the reference collection, all mandatory.
Columns<R> reference_columns() {
  Columns<R> columns = {
      {"params",
       [](R& r, std::string_view t, const ValuePlace& p) { r.params = t.empty() ? 0 : parse_positive_integer(t, p); },
       [](const R& r) { return r.params > 0 ? std::to_string(r.params) : std::string(); }, false, true},
      {"n", [](R& r, std::string_view t, const ValuePlace& p) { r.n = count(t, p); },
       [](const R& r) { return std::to_string(r.n); }, false, true},
      {"steps_per_epoch",
       [](R& r, std::string_view t, const ValuePlace& p) { r.steps_per_epoch = parse_positive_integer(t, p); },
       [](const R& r) { return std::to_string(r.steps_per_epoch); }, false, true}};
  const Columns<R> figures = figure_columns(true);
  columns.insert(columns.end(), figures.begin(), figures.end());
  return columns;
}

Columns<R> added_columns() {
  Columns<R> columns = {
      {"n_rejected", [](R& r, std::string_view t, const ValuePlace& p) { r.n_rejected = t.empty() ? 0 : count(t, p); },
       [](const R& r) { return std::to_string(r.n_rejected); }},
      {"flags", read_flags, [](const R& r) { return r.flags.text(); }, true}};
  const Columns<R> figures = figure_columns(false);
  columns.insert(columns.end(), figures.begin(), figures.end());
  columns.push_back(text_column("env", &R::env));
  return columns;
}

/// A row's own columns.
const Columns<R>& own_columns() {
  static const Columns<R> columns = [] {
    Columns<R> own = reference_columns();
    const Columns<R> added = added_columns();
    own.insert(own.end(), added.begin(), added.end());
    return own;
  }();
  return columns;
}

/// All columns, in the order of runs_agg.csv.
const Columns<R>& aggregate_columns() {
  static const Columns<R> columns = with_workload(&R::workload, {}, reference_columns(), added_columns());
  return columns;
}

CsvReader with_all_columns(CsvReader csv) {
  const std::string& path = csv.path();
  if (std::find(csv.header().begin(), csv.header().end(), "epoch_times_json") != csv.header().end())
    throw InputError(
        fmt::format("{}: is a runs.csv, of single runs; perfpred-aggregate makes a runs_agg.csv of it", path));
  std::vector<std::string_view> names;
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.mandatory) names.push_back(column.name);
  }
  for (const Column<R>& column : own_columns()) {
    if (column.required) names.push_back(column.name);
  }
  require_columns(csv.header(), path + ":1", names, "runs_agg.csv");
  return csv;
}

class AggregateReader {
 public:
  explicit AggregateReader(CsvReader csv)
      : csv_(with_all_columns(std::move(csv))), workload_(csv_, unstated_workload(), true), own_(csv_, own_columns()) {}

  [[nodiscard]] bool next() { return csv_.next(); }

  [[nodiscard]] AggregateRow row() const {
    AggregateRow row;
    row.workload = workload_.read(csv_);
    own_.read(csv_, row);
    check(row);
    return row;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw InputError(csv_.place({}).prefix() + std::string(what));
  }
  [[nodiscard]] std::size_t line() const { return csv_.place({}).line; }

 private:
  void check(const AggregateRow& row) const {
    for (const NumberColumn& column : number_columns) {
      const auto& value = row.*column.value;
      if (column.with == NumberColumn::With::accuracy && value.has_value() != row.acc_mean.has_value())
        refuse("acc_mean and acc_std go together");
      if (column.with == NumberColumn::With::runs && value.has_value() != (row.n > 0))
        refuse(fmt::format("n is {} but {} is {}", row.n, column.name, value ? "given" : "empty"));
    }
    check_figures(row, csv_.place({}));
  }

  CsvReader csv_;
  WorkloadReader workload_;
  TableReader<AggregateRow> own_;
};

}  // namespace

void check_figures(const AggregateRow& row, ValuePlace place) {
  const auto require = [&place](bool holds, std::string_view name, const std::optional<double>& value,
                                std::string_view expected) {
    if (holds) return;
    place.name = name;
    throw_bad_value(place, number_text(value), expected);
  };
  for (const NumberColumn& column : number_columns) {
    const auto& value = row.*column.value;
    require(!value || (*value >= 0 && std::isfinite(*value)), column.name, value, "a number that is zero or more");
  }
  require(row.avg_time_mean != 0, "avg_time_mean", row.avg_time_mean, "a positive number");
  require(row.thr_mean != 0, "thr_mean", row.thr_mean, "a positive number");
  require(!row.acc_mean || *row.acc_mean <= 1, "acc_mean", row.acc_mean, "a fraction");
  for (std::size_t i = 0; i + 1 < number_columns.size(); i += 2) {  // a mean and its deviation
    const auto& mean = row.*number_columns.at(i).value;
    const auto& deviation = row.*number_columns.at(i + 1).value;
    if (!mean || !deviation) continue;
    const double most = row.n > 1 ? std::sqrt(static_cast<double>(row.n)) * *mean : 0;
    if (*deviation <= rounding * most) continue;
    place.name = number_columns.at(i + 1).name;
    throw_bad_value(place, number_text(deviation),
                    fmt::format("at most {:.3g} (n is {}, {} is {})", most, row.n, number_columns.at(i).name, *mean));
  }
}

std::string AggregateFlags::text() const {
  std::string text;
  for (const FlagWord& word : flag_words) {
    if (!(this->*word.flag)) continue;
    if (!text.empty()) text += '+';
    text += word.word;
  }
  return text;
}

AggregateFlags AggregateFlags::parse(std::string_view text) {
  AggregateFlags flags;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t plus = rest.find('+');
    bool known = false;
    for (const FlagWord& word : flag_words) {
      if (word.word != rest.substr(0, plus)) continue;
      flags.*word.flag = known = true;
    }
    if (!known || plus + 1 == rest.size()) throw_bad_value({{}, 0, "flags"}, text, "flags joined by +");
    rest.remove_prefix(plus == std::string_view::npos ? rest.size() : plus + 1);
  }
  return flags;
}

namespace {

/// Calls `take(row, place)` for each row. @param repeats  whether a row may have the workload of another
template <class Take>
void for_each_row(CsvReader csv, bool repeats, Take take) {
  const std::string path = csv.path();
  AggregateReader reader(std::move(csv));
  std::unordered_map<std::string, std::size_t> line_of;  // by key and env
  while (reader.next()) {
    AggregateRow row = reader.row();
    const auto [first, is_new] = line_of.emplace(row.workload.key() + '\n' + row.env, reader.line());
    if (!is_new && !repeats) reader.refuse(fmt::format("the workload of line {} again", first->second));
    take(std::move(row), ValuePlace{path, reader.line(), {}});
  }
  if (line_of.empty()) throw InputError(fmt::format("{}: has a header and no row", path));
}

}  // namespace

std::vector<AggregateRow> read_aggregate(const std::string& path) {
  return read_aggregate_rows(CsvReader(path), false);
}

std::vector<AggregateRow> read_aggregate_rows(CsvReader csv, bool repeats) {
  std::vector<AggregateRow> rows;
  for_each_row(std::move(csv), repeats, [&](AggregateRow row, const ValuePlace&) { rows.push_back(std::move(row)); });
  return rows;
}

std::vector<AggregateRow> read_usable_rows(const std::string& path, std::vector<RejectedRun>& left_out) {
  std::vector<AggregateRow> rows;
  const std::size_t before = left_out.size();
  for_each_row(CsvReader(path), false, [&](AggregateRow row, const ValuePlace& place) {
    try {
      (void)row.workload.graph();
      rows.push_back(std::move(row));
    } catch (const InputError& error) {
      left_out.push_back({row.workload.key(), place.prefix() + error.what()});
    }
  });
  if (rows.empty()) throw InputError(left_out[before].reason);
  return rows;
}

void write_aggregate(const std::string& path, const std::vector<AggregateRow>& rows) {
  AtomicFile file(path);
  file.write(csv_line(names_of(aggregate_columns())));
  for (const AggregateRow& row : rows) file.write(csv_line(fields_of(aggregate_columns(), row)));
  file.commit();
}

}  // namespace perfpred
