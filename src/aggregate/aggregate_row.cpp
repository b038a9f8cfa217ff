// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>

#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "aggregate/figures.h"
#include "text/csv.h"
#include "text/files.h"
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

/// The columns of the reference collection first, then the workload's other fields, then ours.
constexpr std::array<std::string_view, 28> order = {
    "depth",        "base_filters", "batch_size",     "params",     "n",       "steps_per_epoch", "avg_time_mean",
    "avg_time_std", "thr_mean",     "thr_std",        "acc_mean",   "acc_std", "network",         "input",
    "classes",      "train_images", "optimizer",      "precision",  "layout",  "cuda_graph",      "device",
    "threads",      "attention",    "optimizer_impl", "n_rejected", "flags",   "epoch_rel_sem",   "env"};

/// Columns of numbers that may be empty, and what requires a value.
struct NumberColumn {
  std::string_view name;
  std::optional<double> AggregateRow::*value;
  enum class With { runs, accuracy, nothing } with;
};

constexpr std::array<NumberColumn, 7> number_columns = {
    {{"avg_time_mean", &AggregateRow::avg_time_mean, NumberColumn::With::runs},
     {"avg_time_std", &AggregateRow::avg_time_std, NumberColumn::With::runs},
     {"thr_mean", &AggregateRow::thr_mean, NumberColumn::With::runs},
     {"thr_std", &AggregateRow::thr_std, NumberColumn::With::runs},
     {"acc_mean", &AggregateRow::acc_mean, NumberColumn::With::accuracy},
     {"acc_std", &AggregateRow::acc_std, NumberColumn::With::accuracy},
     {"epoch_rel_sem", &AggregateRow::epoch_rel_sem, NumberColumn::With::nothing}}};
constexpr double rounding = 1.01;  // of means and deviations that were written with few digits

std::int64_t count(const CsvReader& csv, const CsvColumn& column) {
  const std::int64_t value = csv.integer(column);
  if (value < 0) throw_bad_value(csv.place(column.name), csv.text(column), "zero or more");
  return value;
}

class AggregateReader {
 public:
  explicit AggregateReader(const std::string& path)
      : csv_(path),
        workload_(csv_, unstated_workload()),
        params_(csv_.required("params")),
        n_(csv_.required("n")),
        steps_(csv_.required("steps_per_epoch")),
        n_rejected_(csv_.optional("n_rejected")),
        flags_(csv_.optional("flags")),
        env_(csv_.optional("env")) {
    for (const std::string_view name : {"depth", "base_filters", "batch_size"}) (void)csv_.required(name);
    for (const NumberColumn& column : number_columns) {
      const bool ours = column.with == NumberColumn::With::nothing;  // which the reference collection lacks
      numbers_.push_back(ours ? csv_.optional(column.name) : csv_.required(column.name));
    }
  }

  [[nodiscard]] bool next() { return csv_.next(); }

  [[nodiscard]] AggregateRow row() const {
    AggregateRow row;
    row.workload = workload_.read(csv_);
    row.env = csv_.text(env_);
    row.params = csv_.positive_integer(params_);
    row.n = count(csv_, n_);
    row.steps_per_epoch = csv_.positive_integer(steps_);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (const std::string_view text = csv_.text(numbers_[i]); !text.empty()) {
        row.*number_columns[i].value = parse_finite(text, csv_.place(numbers_[i].name));
      }
    }
    if (!csv_.text(n_rejected_).empty()) row.n_rejected = count(csv_, n_rejected_);
    try {
      row.flags = AggregateFlags::parse(csv_.text(flags_));
    } catch (const InputError& error) {
      refuse(error.what());
    }
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
  CsvColumn params_, n_, steps_, n_rejected_, flags_, env_;
  std::vector<CsvColumn> numbers_;
};

std::string field_text(const AggregateRow& row, std::string_view name) {
  if (name == "params") return std::to_string(row.params);
  if (name == "n") return std::to_string(row.n);
  if (name == "steps_per_epoch") return std::to_string(row.steps_per_epoch);
  if (name == "n_rejected") return std::to_string(row.n_rejected);
  if (name == "flags") return row.flags.text();
  if (name == "env") return row.env;
  for (const NumberColumn& column : number_columns) {
    if (column.name == name) return number_text(row.*column.value);
  }
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.name == name) return column.get(row.workload);
  }
  throw Error(fmt::format("runs_agg.csv has no column {}", name));
}

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

std::vector<AggregateRow> read_aggregate(const std::string& path) {
  AggregateReader reader(path);
  std::vector<AggregateRow> rows;
  std::unordered_map<std::string, std::size_t> line_of;  // by key and env
  while (reader.next()) {
    rows.push_back(reader.row());
    const auto [first, is_new] = line_of.emplace(rows.back().workload.key() + '\n' + rows.back().env, reader.line());
    if (!is_new) reader.refuse(fmt::format("the workload of line {} again", first->second));
  }
  if (rows.empty()) throw InputError(fmt::format("{}: has a header and no row", path));
  return rows;
}

void write_aggregate(const std::string& path, const std::vector<AggregateRow>& rows) {
  AtomicFile file(path);
  const std::vector<std::string> header(order.begin(), order.end());
  file.write(csv_line(header));
  std::vector<std::string> fields(order.size());
  for (const AggregateRow& row : rows) {
    for (std::size_t i = 0; i < order.size(); ++i) fields[i] = field_text(row, order[i]);
    file.write(csv_line(fields));
  }
  file.commit();
}

}  // namespace perfpred
