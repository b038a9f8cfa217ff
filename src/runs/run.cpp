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

int count(std::string_view text, const ValuePlace& place) {
  const std::int64_t value = parse_integer(text, place);
  if (value < 0 || value > std::numeric_limits<int>::max()) throw_bad_value(place, text, "a count");
  return static_cast<int>(value);
}

std::string epoch_times_text(const Run& run) {
  std::string text = "[";
  for (const double sec : run.epoch_times) text += (text.size() > 1 ? ", " : "") + number_text(sec);
  return text + "]";
}

template <std::string Run::*member>
RunColumn text_column(std::string_view name, bool mandatory = false) {
  return {name,
          mandatory,
          true,
          nullptr,
          [](Run& r, std::string_view t, const ValuePlace&) { r.*member = t; },
          [](const Run& r) { return r.*member; }};
}

template <std::optional<double> Run::*member>
RunColumn number_column(std::string_view name, bool mandatory = false) {
  return {name,
          mandatory,
          false,
          nullptr,
          [](Run& r, std::string_view t, const ValuePlace& p) {
            r.*member = t.empty() ? std::nullopt : std::optional(parse_non_negative(t, p));
          },
          [](const Run& r) { return number_text(r.*member); },
          member};
}

RunColumn drift_column() {
  return {"drift",
          false,
          false,
          nullptr,
          [](Run& r, std::string_view t, const ValuePlace& p) {
            r.drift = t.empty() ? std::nullopt : std::optional(parse_flag(t, p));
          },
          [](const Run& r) {
            return std::string(!r.drift ? "" : *r.drift ? "1" : "0");
          }};
}

RunColumn workload_column(const WorkloadColumn& field, bool mandatory) {
  constexpr std::array<std::string_view, 7> numbers = {"depth",        "base_filters", "batch_size", "classes",
                                                       "train_images", "cuda_graph",   "threads"};
  const bool text = std::find(numbers.begin(), numbers.end(), field.name) == numbers.end();
  return {field.name, mandatory, text, &field};
}

std::vector<RunColumn> make_table() {
  // The eleven columns of the reference collection, all mandatory.
  std::vector<RunColumn> table = {text_column<&Run::timestamp_utc>("timestamp_utc", true),
                                  text_column<&Run::framework>("framework", true)};
  constexpr std::array<std::string_view, 3> sizes = {"depth", "base_filters", "batch_size"};
  std::vector<RunColumn> other_fields;
  for (const WorkloadColumn& field : workload_columns()) {
    const bool mandatory = std::find(sizes.begin(), sizes.end(), field.name) != sizes.end();
    (mandatory ? table : other_fields).push_back(workload_column(field, mandatory));
  }
  const std::vector<RunColumn> results = {
      {"epochs", true, false, nullptr, [](Run& r, std::string_view t, const ValuePlace& p) { r.epochs = count(t, p); },
       [](const Run& r) { return std::to_string(r.epochs); }},
      {"params", true, false, nullptr,
       [](Run& r, std::string_view t, const ValuePlace& p) { r.params = parse_positive_integer(t, p); },
       [](const Run& r) { return std::to_string(r.params); }},
      {"epoch_times_json", true, false, nullptr,
       [](Run& r, std::string_view t, const ValuePlace& p) { parse_seconds_list(t, p, r.epoch_times); },
       epoch_times_text},
      number_column<&Run::avg_time_sec>("avg_time_sec", true),
      number_column<&Run::images_per_sec>("images_per_sec", true),
      number_column<&Run::test_acc>("test_acc", true),
  };
  table.insert(table.end(), results.begin(), results.end());
  table.insert(table.end(), other_fields.begin(), other_fields.end());
  const std::vector<RunColumn> ours = {
      text_column<&Run::env>("env"),
      text_column<&Run::host>("host"),
      text_column<&Run::driver>("driver"),
      text_column<&Run::cuda>("cuda"),
      text_column<&Run::cudnn>("cudnn"),
      number_column<&Run::step_p05_ms>("step_p05_ms"),
      number_column<&Run::step_p50_ms>("step_p50_ms"),
      number_column<&Run::step_p95_ms>("step_p95_ms"),
      number_column<&Run::clock_mhz>("clock_mhz"),
      number_column<&Run::mem_free_mb>("mem_free_mb"),
      number_column<&Run::peak_mem_mb>("peak_mem_mb"),
      number_column<&Run::load>("load"),
      {"timing", false, true, nullptr,
       [](Run& r, std::string_view t, const ValuePlace& p) { r.timing = parse_word<Timing>(timings, t, p); },
       [](const Run& r) { return std::string(to_string(r.timing)); }},
      {"outcome", false, true, nullptr,
       [](Run& r, std::string_view t, const ValuePlace& p) { r.outcome = parse_word<Outcome>(outcomes, t, p); },
       [](const Run& r) { return std::string(to_string(r.outcome)); }},
      text_column<&Run::note>("note"),
      number_column<&Run::peak_reserved_mb>("peak_reserved_mb"),
      number_column<&Run::cuda_graph_speedup>("cuda_graph_speedup"),
      number_column<&Run::host_p50_ms>("host_p50_ms"),
      number_column<&Run::step_cv>("step_cv"),
      number_column<&Run::epoch_rel_sem>("epoch_rel_sem"),
      number_column<&Run::clock_p05_mhz>("clock_p05_mhz"),
      number_column<&Run::clock_p95_mhz>("clock_p95_mhz"),
      drift_column(),
  };
  table.insert(table.end(), ours.begin(), ours.end());
  return table;
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
  if (run.test_acc && *run.test_acc > 1) {
    place.name = "test_acc";
    throw_bad_value(place, number_text(run.test_acc), "a fraction");
  }
}

}  // namespace

std::string_view to_string(Timing timing) { return timings.at(static_cast<std::size_t>(timing)); }
std::string_view to_string(Outcome outcome) { return outcomes.at(static_cast<std::size_t>(outcome)); }

const std::vector<RunColumn>& run_table() {
  static const std::vector<RunColumn> table = make_table();
  return table;
}

RunParser::RunParser(const std::vector<std::string>& header, const std::string& where) : width_(header.size()) {
  for (const RunColumn& column : run_table()) {
    auto found = std::find(header.begin(), header.end(), column.name);
    // The reference collection names this column after its framework.
    if (column.name == "framework" && found == header.end())
      found = std::find(header.begin(), header.end(), "tf_version");
    if (found == header.end()) {
      if (column.mandatory) throw InputError(fmt::format("{}: column \"{}\" is missing", where, column.name));
      continue;
    }
    const auto index = static_cast<std::size_t>(found - header.begin());
    (column.workload != nullptr ? workload_ : rest_).push_back({index, &column});
    if (column.workload != nullptr || column.name == "env") grouping_.push_back(index);
  }
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
    Workload workload = unstated_workload();
    for (const auto& [i, column] : workload_) {
      place.name = column->name;
      if (!fields[i].empty()) column->workload->set(workload, fields[i], place);
    }
    try {
      workload.validate();
    } catch (const InputError& error) {
      throw InputError(place.prefix() + error.what());
    }
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
  check(run_, place);
  return run_;
}

std::vector<Run> read_runs(const std::string& path) {
  CsvReader csv(path);
  RunParser parser(csv.header(), path + ":1");
  std::vector<Run> runs;
  while (csv.next()) runs.push_back(parser.parse(csv.fields(), csv.place("")));
  return runs;
}

void check_run(const Run& run) {
  const auto check_number = [](std::string_view name, double value) {
    if (value >= 0 && std::isfinite(value)) return;
    throw_bad_value({{}, 0, name}, number_text(value), "a number that is zero or more");
  };
  run.workload.validate();
  if (run.epochs < 0) throw_bad_value({{}, 0, "epochs"}, std::to_string(run.epochs), "a count");
  if (run.params < 1) throw_bad_value({{}, 0, "params"}, std::to_string(run.params), "a positive integer");
  for (const double sec : run.epoch_times) check_number("the time of an epoch", sec);
  for (const RunColumn& column : run_table()) {
    if (column.number != nullptr && run.*column.number) check_number(column.name, *(run.*column.number));
  }
  check(run, {});
}

const std::vector<std::string>& run_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const RunColumn& column : run_table()) all.emplace_back(column.name);
    return all;
  }();
  return names;
}

std::vector<std::string> run_fields(const Run& run) {
  std::vector<std::string> fields;
  for (const RunColumn& column : run_table()) {
    fields.push_back(column.workload != nullptr ? column.workload->get(run.workload) : column.get(run));
  }
  return fields;
}

Run run_from_fields(const std::vector<std::string>& header, const std::vector<std::string>& fields,
                    const std::string& where) {
  const std::vector<std::string_view> views(fields.begin(), fields.end());
  return RunParser(header, where).parse(views, {where, 0, {}});
}

}  // namespace perfpred
