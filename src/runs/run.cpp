// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "runs/run_row.h"
#include "text/csv.h"
#include "text/enum_names.h"

namespace perfpred {
namespace {

constexpr std::string_view described_table = "runs.csv; logs of other software are for --from, in Python from_logs";

constexpr auto timings = enumerator_names<Timing::steps>;
constexpr auto outcomes = enumerator_names<Outcome::untrusted>;

/// The enumerator that the text names; the first one for an empty text.
template <class Enum, std::size_t n>
Enum parse_word(const std::array<std::string_view, n>& words, std::string_view text, const ValuePlace& place) {
  if (text.empty()) return Enum{};
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) throw_bad_value(place, text, fmt::format("one of {}", fmt::join(words, ", ")));
  return static_cast<Enum>(found - words.begin());
}

void read_epochs(Run& run, std::string_view text, const ValuePlace& place) {
  const std::int64_t value = text.empty() ? 0 : parse_integer(text, place);
  if (value < 0 || value > std::numeric_limits<int>::max()) throw_bad_value(place, text, "a count");
  run.epochs = static_cast<int>(value);
}

std::string epoch_times_text(const Run& run) {
  std::string text = "[";
  for (const double sec : run.epoch_times) text += (text.size() > 1 ? ", " : "") + number_text(sec);
  return text + "]";
}

Column<Run> text(std::string_view name, std::string Run::*member, bool required = false) {
  return text_column(name, member, required);
}

Column<Run> number(std::string_view name, std::optional<double> Run::*member, bool required = false) {
  return number_column(name, member, parse_non_negative, required);
}

void read_drift(Run& run, std::string_view text, const ValuePlace& place) {
  run.drift = text.empty() ? std::nullopt : std::optional(parse_flag(text, place));
}

void read_params(Run& run, std::string_view text, const ValuePlace& place) {
  run.params = text.empty() ? 0 : parse_positive_integer(text, place);
}

void read_epoch_times(Run& run, std::string_view text, const ValuePlace& place) {
  parse_seconds_list(text.empty() ? "[]" : text, place, run.epoch_times);
}

/// The run's own columns of the reference collection, which recorded files have: those before the sizes of its
/// workload ...
const Columns<Run>& first_columns() {
  static const Columns<Run> columns = {text("timestamp_utc", &Run::timestamp_utc, true),
                                       text("framework", &Run::framework, true)};
  return columns;
}

/// ... and those behind them.
const Columns<Run>& result_columns() {
  static const Columns<Run> columns = {
      {"epochs", read_epochs, [](const Run& r) { return std::to_string(r.epochs); }, false, true},
      {"params", read_params, [](const Run& r) { return r.params > 0 ? std::to_string(r.params) : std::string(); },
       false, true},
      {"epoch_times_json", read_epoch_times, epoch_times_text, false, true},
      number("avg_time_sec", &Run::avg_time_sec, true),
      number("images_per_sec", &Run::images_per_sec, true),
      number("test_acc", &Run::test_acc, true),
  };
  return columns;
}

const Columns<Run>& our_columns() {
  static const Columns<Run> columns = {
      text("env", &Run::env),
      text("host", &Run::host),
      text("driver", &Run::driver),
      text("cuda", &Run::cuda),
      text("cudnn", &Run::cudnn),
      number("step_p05_ms", &Run::step_p05_ms),
      number("step_p50_ms", &Run::step_p50_ms),
      number("step_p95_ms", &Run::step_p95_ms),
      number("clock_mhz", &Run::clock_mhz),
      number("mem_free_mb", &Run::mem_free_mb),
      number("peak_mem_mb", &Run::peak_mem_mb),
      number("load", &Run::load),
      {"timing", [](Run& r, std::string_view t, const ValuePlace& p) { r.timing = parse_word<Timing>(timings, t, p); },
       [](const Run& r) { return std::string(to_string(r.timing)); }, true},
      {"outcome",
       [](Run& r, std::string_view t, const ValuePlace& p) { r.outcome = parse_word<Outcome>(outcomes, t, p); },
       [](const Run& r) { return std::string(to_string(r.outcome)); }, true},
      text("note", &Run::note),
      number("peak_reserved_mb", &Run::peak_reserved_mb),
      number("cuda_graph_speedup", &Run::cuda_graph_speedup),
      number("host_p50_ms", &Run::host_p50_ms),
      number("step_cv", &Run::step_cv),
      number("epoch_rel_sem", &Run::epoch_rel_sem),
      number("clock_p05_mhz", &Run::clock_p05_mhz),
      number("clock_p95_mhz", &Run::clock_p95_mhz),
      {"drift", read_drift, [](const Run& r) { return std::string(!r.drift   ? ""
                                                                  : *r.drift ? "1"
                                                                             : "0"); }},
      number("data_wait_share", &Run::data_wait_share),
  };
  return columns;
}

/// In the order of runs.csv.
const std::vector<std::string_view>& recorded_columns() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Column<Run>& column : first_columns()) all.push_back(column.name);
    for (const WorkloadColumn& column : workload_columns()) {
      if (column.mandatory) all.push_back(column.name);
    }
    for (const Column<Run>& column : result_columns()) all.push_back(column.name);
    return all;
  }();
  return names;
}

std::vector<Run> all_runs(CsvReader csv) {
  RunParser parser(csv.header(), csv.path() + ":1");
  std::vector<Run> runs;
  while (csv.next()) runs.push_back(parser.parse(csv.fields(), csv.place("")));
  return runs;
}

void check(const Run& run, ValuePlace place) {
  if (run.avg_time_sec && *run.avg_time_sec <= 0) {
    place.name = "avg_time_sec";
    throw_bad_value(place, number_text(run.avg_time_sec), "a positive number");
  }
  if (run.outcome == Outcome::ok && !run.avg_time_sec) {
    place.name = "avg_time_sec";
    throw_bad_value(place, "", "a positive number (the outcome is ok)");
  }
  for (const auto& [name, share] : {std::pair("test_acc", run.test_acc), {"data_wait_share", run.data_wait_share}}) {
    if (!share || *share <= 1) continue;
    place.name = name;
    throw_bad_value(place, number_text(share), "a fraction");
  }
}

}  // namespace

std::string_view to_string(Timing timing) { return timings.at(static_cast<std::size_t>(timing)); }
std::string_view to_string(Outcome outcome) { return outcomes.at(static_cast<std::size_t>(outcome)); }

const Columns<Run>& run_table() {
  static const Columns<Run> table = with_workload(&Run::workload, first_columns(), result_columns(), our_columns());
  return table;
}

void require_recorded_columns(const std::vector<std::string>& header, const std::string& where) {
  require_columns(header, where, recorded_columns(), described_table);
}

RunParser::RunParser(const std::vector<std::string>& header, const std::string& where) : width_(header.size()) {
  std::vector<std::string> names = header;
  // The reference collection names this column after its framework.
  if (std::find(names.begin(), names.end(), "framework") == names.end())
    std::replace(names.begin(), names.end(), std::string("tf_version"), std::string("framework"));
  const auto index_of = [&names](std::string_view name) {
    const auto found = std::find(names.begin(), names.end(), name);
    return found != names.end() ? static_cast<std::size_t>(found - names.begin()) : missing;
  };
  if (index_of("batch_size") == missing) key_ = index_of("key");
  if (index_of("avg_time_sec") == missing && index_of("epochs") != missing) seconds_ = index_of("seconds");
  std::vector<std::string_view> needed;
  if (key_ == missing) needed.emplace_back("batch_size");
  if (seconds_ == missing) needed.emplace_back("avg_time_sec");
  require_columns(names, where, needed, described_table);
  if (key_ != missing) grouping_.push_back(key_);
  for (const Columns<Run>* columns : {&first_columns(), &result_columns(), &our_columns()}) {
    for (const Column<Run>& column : *columns) {
      const std::size_t index = index_of(column.name);
      if (index == missing) continue;
      rest_.push_back({index, &column});
      if (column.name == "env") grouping_.push_back(index);
    }
  }
  for (const WorkloadColumn& column : workload_columns()) {
    workload_.push_back(index_of(column.name));
    if (workload_.back() != missing) grouping_.push_back(workload_.back());
  }
  texts_.resize(workload_.size());
}

const Run& RunParser::parse(std::span<const std::string_view> fields, ValuePlace place) {
  if (fields.size() != width_) {
    throw InputError(fmt::format("{}{} fields where the header has {}", place.prefix(), fields.size(), width_));
  }
  group_text_.clear();
  for (const std::size_t i : grouping_) {
    group_text_ += fields[i];
    group_text_ += '\n';  // no field holds a line feed
  }
  const auto known = groups_.find(group_text_);
  if (known == groups_.end()) {
    Workload workload = workload_of(fields, place);
    run_.workload = workload;
    group_ = groups_.emplace(group_text_, workloads_.size()).first->second;
    workloads_.push_back(std::move(workload));
  } else if (known->second != group_) {
    group_ = known->second;
    run_.workload = workloads_[group_];
  }
  for (const auto& [i, column] : rest_) {
    place.name = column->name;
    column->set(run_, fields[i], place);
  }
  if (seconds_ != missing) share_seconds(fields[seconds_], place);
  check(run_, place);
  return run_;
}

Workload RunParser::workload_of(std::span<const std::string_view> fields, ValuePlace place) {
  if (key_ != missing) {
    try {
      return Workload::from_key(fields[key_]);
    } catch (const InputError& error) {
      throw InputError(place.prefix() + error.what());
    }
  }
  Workload workload = unstated_workload();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    texts_[i] = workload_[i] == missing ? std::string_view() : fields[workload_[i]];
  }
  set_fields(workload, texts_, place);
  return workload;
}

void RunParser::share_seconds(std::string_view text, ValuePlace place) {
  run_.avg_time_sec = std::nullopt;
  if (text.empty()) return;
  place.name = "epochs";
  if (run_.epochs < 1) throw_bad_value(place, std::to_string(run_.epochs), "a positive integer (seconds is given)");
  place.name = "seconds";
  run_.avg_time_sec = parse_positive(text, place) / run_.epochs;
}

std::vector<Run> read_runs(const std::string& path) { return all_runs(CsvReader(path)); }

std::vector<Run> read_runs_text(const std::string& name, std::string_view text) {
  return all_runs(CsvReader::from_text(name, text));
}

void check_run(const Run& run) {
  const auto check_number = [](std::string_view name, double value) {
    if (value >= 0 && std::isfinite(value)) return;
    throw_bad_value({{}, 0, name}, number_text(value), "a number that is zero or more");
  };
  run.workload.validate();
  if (run.epochs < 0) throw_bad_value({{}, 0, "epochs"}, std::to_string(run.epochs), "a count");
  if (run.params < 0) throw_bad_value({{}, 0, "params"}, std::to_string(run.params), "a positive integer");
  for (const double sec : run.epoch_times) check_number("the time of an epoch", sec);
  for (const Column<Run>& column : run_table()) {
    if (column.number != nullptr && run.*column.number) check_number(column.name, *(run.*column.number));
  }
  check(run, {});
}

const std::vector<std::string>& run_columns() {
  static const std::vector<std::string> names = names_of(run_table());
  return names;
}

std::vector<std::string> run_fields(const Run& run) { return fields_of(run_table(), run); }

Run run_from_fields(const std::vector<std::string>& header, const std::vector<std::string>& fields,
                    const std::string& where) {
  const std::vector<std::string_view> views(fields.begin(), fields.end());
  return RunParser(header, where).parse(views, {where, 0, {}});
}

}  // namespace perfpred
