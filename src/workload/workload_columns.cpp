// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_columns.h"

#include <perfpred/workload.h>

#include <array>
#include <limits>
#include <utility>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

int positive_int(std::string_view text, const ValuePlace& place) {
  const std::int64_t value = parse_positive_integer(text, place);
  if (value > std::numeric_limits<int>::max()) throw_bad_value(place, text, "a positive integer of usual size");
  return static_cast<int>(value);
}

/// Puts the place in front of the error of a parser that does not know about files.
template <class Parse>
auto placed(Parse parse, std::string_view text, const ValuePlace& place) {
  try {
    return parse(text);
  } catch (const InputError& error) {
    throw InputError(place.prefix() + error.what());
  }
}

std::string text_of(const std::optional<int>& value) { return value ? std::to_string(*value) : std::string(); }

constexpr std::array<WorkloadColumn, 15> columns = {{
    {"network", [](Workload& w, std::string_view t, const ValuePlace&) { w.network = t; },
     [](const Workload& w) { return std::string(w.network); }},
    {"depth", [](Workload& w, std::string_view t, const ValuePlace& p) { w.depth = positive_int(t, p); },
     [](const Workload& w) { return text_of(w.depth); }},
    {"base_filters", [](Workload& w, std::string_view t, const ValuePlace& p) { w.base_filters = positive_int(t, p); },
     [](const Workload& w) { return text_of(w.base_filters); }},
    {"batch_size",
     [](Workload& w, std::string_view t, const ValuePlace& p) { w.batch_size = parse_positive_integer(t, p); },
     [](const Workload& w) { return std::to_string(w.batch_size); }},
    {"input", [](Workload& w, std::string_view t, const ValuePlace& p) { w.input = placed(parse_shape, t, p); },
     [](const Workload& w) { return shape_text(w.input); }},
    {"classes", [](Workload& w, std::string_view t, const ValuePlace& p) { w.classes = parse_positive_integer(t, p); },
     [](const Workload& w) { return std::to_string(w.classes); }},
    {"train_images",
     [](Workload& w, std::string_view t, const ValuePlace& p) { w.train_images = parse_positive_integer(t, p); },
     [](const Workload& w) { return std::to_string(w.train_images); }},
    {"optimizer",
     [](Workload& w, std::string_view t, const ValuePlace& p) { w.optimizer = placed(parse_optimizer, t, p); },
     [](const Workload& w) { return std::string(to_string(w.optimizer)); }},
    {"precision",
     [](Workload& w, std::string_view t, const ValuePlace& p) { w.precision = placed(parse_precision, t, p); },
     [](const Workload& w) { return std::string(to_string(w.precision)); }},
    {"layout", [](Workload& w, std::string_view t, const ValuePlace& p) { w.layout = placed(parse_layout, t, p); },
     [](const Workload& w) { return std::string(to_string(w.layout)); }},
    {"cuda_graph", [](Workload& w, std::string_view t, const ValuePlace& p) { w.cuda_graph = parse_flag(t, p); },
     [](const Workload& w) { return std::string(w.cuda_graph ? "1" : "0"); }},
    {"device", [](Workload& w, std::string_view t, const ValuePlace&) { w.device = t; },
     [](const Workload& w) { return std::string(w.device); }},
    {"threads", [](Workload& w, std::string_view t, const ValuePlace& p) { w.threads = positive_int(t, p); },
     [](const Workload& w) { return text_of(w.threads); }},
    {"attention",
     [](Workload& w, std::string_view t, const ValuePlace& p) { w.attention = placed(parse_attention, t, p); },
     [](const Workload& w) { return std::string(to_string(w.attention)); }, "sdpa"},
    {"optimizer_impl",
     [](Workload& w, std::string_view t, const ValuePlace& p) {
       w.optimizer_impl = placed(parse_optimizer_impl, t, p);
     },
     [](const Workload& w) { return std::string(to_string(w.optimizer_impl)); }, "fused"},
}};

}  // namespace

std::span<const WorkloadColumn> workload_columns() { return columns; }

bool is_file_network(std::string_view name) { return name.find(':') != std::string_view::npos && !states_sizes(name); }

bool is_captured_step(std::string_view name) { return name.starts_with("step:"); }

Workload unstated_workload() {
  Workload workload;
  workload.depth = workload.base_filters = std::nullopt;
  workload.precision = Precision::unknown;
  return workload;
}

WorkloadReader::WorkloadReader(const CsvReader& csv, Workload defaults) : defaults_(std::move(defaults)) {
  for (const WorkloadColumn& column : columns) columns_.push_back(csv.optional(column.name));
}

Workload WorkloadReader::read(const CsvReader& csv, Workload workload) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string_view text = csv.text(columns_[i]);
    if (!text.empty()) columns[i].set(workload, text, csv.place(columns[i].name));
  }
  try {
    workload.validate();
  } catch (const InputError& error) {
    throw InputError(csv.place("").prefix() + error.what());
  }
  return workload;
}

namespace {

const WorkloadColumn& column_named(std::string_view field) {
  for (const WorkloadColumn& column : columns) {
    if (column.name == field) return column;
  }
  std::string names;
  for (const WorkloadColumn& column : columns) names += (names.empty() ? "" : ", ") + std::string(column.name);
  throw_bad_value({{}, 0, "field"}, field, "one of " + names);
}

}  // namespace

Workload with_field(Workload workload, std::string_view field, std::string_view text) {
  const WorkloadColumn& column = column_named(field);
  const NetworkName before = workload.network;
  column.set(workload, text, {{}, 0, field});
  check_ranges(workload);
  if (workload.network == before) return workload;
  workload.depth = workload.base_filters = std::nullopt;
  if (is_file_network(workload.network)) return workload;
  TrainingData data = usual_data(workload.network);
  workload.input = std::move(data.input);
  workload.classes = data.classes;
  workload.train_images = data.images;
  return workload;
}

std::string field_text(const Workload& workload, std::string_view field) { return column_named(field).get(workload); }

}  // namespace perfpred
