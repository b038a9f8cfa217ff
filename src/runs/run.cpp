// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "text/csv.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

constexpr std::array<std::string_view, 2> timings = {"epochs", "steps"};
constexpr std::array<std::string_view, 5> outcomes = {"ok", "oom", "failed", "interrupted", "untrusted"};

template <class Enum, std::size_t n>
Enum parse_word(const std::array<std::string_view, n>& words, std::string_view text, const ValuePlace& place) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) throw_bad_value(place, text, fmt::format("one of {}", fmt::join(words, ", ")));
  return static_cast<Enum>(found - words.begin());
}

std::optional<double> optional_number(std::string_view text, const ValuePlace& place) {
  if (text.empty()) return std::nullopt;
  return parse_non_negative(text, place);
}

/// A column of runs.csv that is not a field of the workload.
struct RunColumn {
  std::string_view name;
  bool mandatory;
  void (*set)(Run& run, std::string_view text, const ValuePlace& place);
  std::string (*get)(const Run& run);
};

template <std::string Run::*member>
constexpr RunColumn text_column(std::string_view name, bool mandatory = false) {
  return {name, mandatory, [](Run& r, std::string_view t, const ValuePlace&) { r.*member = t; },
          [](const Run& r) { return r.*member; }};
}

template <std::optional<double> Run::*member>
constexpr RunColumn number_column(std::string_view name, bool mandatory = false) {
  return {name, mandatory, [](Run& r, std::string_view t, const ValuePlace& p) { r.*member = optional_number(t, p); },
          [](const Run& r) { return number_text(r.*member); }};
}

std::string epoch_times_text(const Run& run) {
  std::string text = "[";
  for (const double sec : run.epoch_times) text += (text.size() > 1 ? ", " : "") + number_text(sec);
  return text + "]";
}

int count(std::string_view text, const ValuePlace& place) {
  const std::int64_t value = parse_integer(text, place);
  if (value < 0 || value > std::numeric_limits<int>::max()) throw_bad_value(place, text, "a count");
  return static_cast<int>(value);
}

std::int64_t parameter_count(std::string_view text, const ValuePlace& place) {
  return parse_positive_integer(text, place);
}

constexpr std::array<RunColumn, 28> columns = {{
    text_column<&Run::timestamp_utc>("timestamp_utc", true),
    text_column<&Run::framework>("framework", true),
    {"epochs", true, [](Run& r, std::string_view t, const ValuePlace& p) { r.epochs = count(t, p); },
     [](const Run& r) { return std::to_string(r.epochs); }},
    {"params", true, [](Run& r, std::string_view t, const ValuePlace& p) { r.params = parameter_count(t, p); },
     [](const Run& r) { return std::to_string(r.params); }},
    {"epoch_times_json", true,
     [](Run& r, std::string_view t, const ValuePlace& p) { r.epoch_times = parse_seconds_list(t, p); },
     epoch_times_text},
    number_column<&Run::avg_time_sec>("avg_time_sec", true),
    number_column<&Run::images_per_sec>("images_per_sec", true),
    number_column<&Run::test_acc>("test_acc", true),
    text_column<&Run::env>("env"),
    text_column<&Run::host>("host"),
    text_column<&Run::driver>("driver"),
    text_column<&Run::cuda>("cuda"),
    text_column<&Run::cudnn>("cudnn"),
    number_column<&Run::step_p05_ms>("step_p05_ms"),
    number_column<&Run::step_p50_ms>("step_p50_ms"),
    number_column<&Run::step_p95_ms>("step_p95_ms"),
    number_column<&Run::host_p50_ms>("host_p50_ms"),
    number_column<&Run::step_cv>("step_cv"),
    number_column<&Run::epoch_rel_sem>("epoch_rel_sem"),
    number_column<&Run::clock_mhz>("clock_mhz"),
    number_column<&Run::mem_free_mb>("mem_free_mb"),
    number_column<&Run::peak_mem_mb>("peak_mem_mb"),
    number_column<&Run::peak_reserved_mb>("peak_reserved_mb"),
    number_column<&Run::cuda_graph_speedup>("cuda_graph_speedup"),
    number_column<&Run::load>("load"),
    {"timing", false,
     [](Run& r, std::string_view t, const ValuePlace& p) {
       if (!t.empty()) r.timing = parse_word<Timing>(timings, t, p);
     },
     [](const Run& r) { return std::string(to_string(r.timing)); }},
    {"outcome", false,
     [](Run& r, std::string_view t, const ValuePlace& p) {
       if (!t.empty()) r.outcome = parse_word<Outcome>(outcomes, t, p);
     },
     [](const Run& r) { return std::string(to_string(r.outcome)); }},
    text_column<&Run::note>("note"),
}};

const RunColumn* run_column(std::string_view name) {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [name](const RunColumn& c) { return c.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

const WorkloadColumn* workload_column(std::string_view name) {
  const auto all = workload_columns();
  const auto found = std::find_if(all.begin(), all.end(), [name](const WorkloadColumn& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The reference collection calls it by its framework.
constexpr std::string_view framework_alias = "tf_version";

/// Where the columns of a header find their setter; built once per table.
class RunParser {
 public:
  RunParser(const std::vector<std::string>& header, const std::string& where) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::string_view name = header[i] == framework_alias ? std::string_view("framework") : header[i];
      if (const auto* column = run_column(name)) {
        run_.emplace_back(i, column);
      } else if (const auto* field = workload_column(name)) {
        workload_.emplace_back(i, field);
      }
    }
    for (const RunColumn& column : columns) {
      const bool there =
          std::any_of(run_.begin(), run_.end(), [&column](const auto& c) { return c.second == &column; });
      if (column.mandatory && !there) refuse_missing(column.name, where);
    }
    for (const std::string_view name : {"depth", "base_filters", "batch_size"}) {
      if (std::find(header.begin(), header.end(), name) == header.end()) refuse_missing(name, where);
    }
  }

  template <class Field>
  [[nodiscard]] Run parse(const Field& field, ValuePlace place) const {
    Run run;
    run.workload = unstated_workload();
    for (const auto& [i, column] : workload_) {
      place.name = column->name;
      if (const std::string_view text = field(i); !text.empty()) column->set(run.workload, text, place);
    }
    for (const auto& [i, column] : run_) {
      place.name = column->name;
      column->set(run, field(i), place);
    }
    try {
      run.workload.validate();
    } catch (const InputError& error) {
      throw InputError(place.prefix() + error.what());
    }
    check(run, place);
    return run;
  }

 private:
  [[noreturn]] static void refuse_missing(std::string_view name, const std::string& where) {
    throw InputError(fmt::format("{}: column \"{}\" is missing", where, name));
  }

  static void check(const Run& run, ValuePlace place) {
    const bool timed = run.avg_time_sec.has_value();
    if (timed && *run.avg_time_sec <= 0) {
      place.name = "avg_time_sec";
      throw_bad_value(place, number_text(run.avg_time_sec), "a positive number");
    }
    if (run.outcome == Outcome::ok && !timed) {
      place.name = "avg_time_sec";
      throw_bad_value(place, "", "a positive number (the outcome is ok)");
    }
    if (run.test_acc && *run.test_acc > 1) {
      place.name = "test_acc";
      throw_bad_value(place, number_text(run.test_acc), "a fraction");
    }
  }

  std::vector<std::pair<std::size_t, const RunColumn*>> run_;
  std::vector<std::pair<std::size_t, const WorkloadColumn*>> workload_;
};

/// The order of the reference collection, then ours.
constexpr std::array<std::string_view, 41> order = {"timestamp_utc",
                                                    "framework",
                                                    "depth",
                                                    "base_filters",
                                                    "batch_size",
                                                    "epochs",
                                                    "params",
                                                    "epoch_times_json",
                                                    "avg_time_sec",
                                                    "images_per_sec",
                                                    "test_acc",
                                                    "network",
                                                    "input",
                                                    "classes",
                                                    "train_images",
                                                    "optimizer",
                                                    "precision",
                                                    "layout",
                                                    "cuda_graph",
                                                    "device",
                                                    "threads",
                                                    "env",
                                                    "host",
                                                    "driver",
                                                    "cuda",
                                                    "cudnn",
                                                    "step_p05_ms",
                                                    "step_p50_ms",
                                                    "step_p95_ms",
                                                    "clock_mhz",
                                                    "mem_free_mb",
                                                    "peak_mem_mb",
                                                    "load",
                                                    "timing",
                                                    "outcome",
                                                    "note",
                                                    "peak_reserved_mb",
                                                    "cuda_graph_speedup",
                                                    "host_p50_ms",
                                                    "step_cv",
                                                    "epoch_rel_sem"};

}  // namespace

std::string_view to_string(Timing timing) { return timings.at(static_cast<std::size_t>(timing)); }
std::string_view to_string(Outcome outcome) { return outcomes.at(static_cast<std::size_t>(outcome)); }

struct RunReader::Impl {
  explicit Impl(const std::string& path) : csv(path), parser(csv.header(), path + ":1") {
    for (const std::string& name : csv.header()) fields.push_back(csv.optional(name));
  }

  CsvReader csv;
  RunParser parser;
  std::vector<CsvColumn> fields;
};

RunReader::RunReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
RunReader::~RunReader() = default;
RunReader::RunReader(RunReader&&) noexcept = default;
RunReader& RunReader::operator=(RunReader&&) noexcept = default;

std::optional<Run> RunReader::next() {
  if (!impl_->csv.next()) return std::nullopt;
  return impl_->parser.parse([this](std::size_t i) { return impl_->csv.text(impl_->fields[i]); }, impl_->csv.place(""));
}

const std::vector<std::string>& RunReader::columns() const { return impl_->csv.header(); }

std::vector<Run> read_runs(const std::string& path) {
  RunReader reader(path);
  std::vector<Run> runs;
  while (auto run = reader.next()) runs.push_back(std::move(*run));
  return runs;
}

const std::vector<std::string>& run_columns() {
  static const std::vector<std::string> names(order.begin(), order.end());
  return names;
}

std::vector<std::string> run_fields(const Run& run) {
  std::vector<std::string> fields;
  for (const std::string_view name : order) {
    const auto* column = run_column(name);
    fields.push_back(column != nullptr ? column->get(run) : workload_column(name)->get(run.workload));
  }
  return fields;
}

Run run_from_fields(const std::vector<std::string>& header, const std::vector<std::string>& fields,
                    const std::string& where) {
  if (fields.size() != header.size()) {
    throw InputError(fmt::format("{}: {} fields where the header has {}", where, fields.size(), header.size()));
  }
  return RunParser(header, where)
      .parse([&fields](std::size_t i) { return std::string_view(fields[i]); }, {where, 0, {}});
}

}  // namespace perfpred
