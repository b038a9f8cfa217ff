// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_columns.h"

#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

constexpr int max_base_filters = 65'536;

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

void read(NetworkName& value, std::string_view text, const ValuePlace&) { value = text; }
void read(DeviceName& value, std::string_view text, const ValuePlace&) { value = text; }
void read(std::optional<int>& value, std::string_view text, const ValuePlace& place) {
  value = positive_int(text, place);
}
void read(bool& value, std::string_view text, const ValuePlace& place) { value = parse_flag(text, place); }
void read(std::int64_t& value, std::string_view text, const ValuePlace& place) {
  value = parse_positive_integer(text, place);
}
void read(std::vector<std::int64_t>& value, std::string_view text, const ValuePlace& place) {
  value = placed(parse_shape, text, place);
}
void read(Optimizer& value, std::string_view text, const ValuePlace& place) {
  value = placed(parse_optimizer, text, place);
}
void read(Precision& value, std::string_view text, const ValuePlace& place) {
  value = placed(parse_precision, text, place);
}
void read(Layout& value, std::string_view text, const ValuePlace& place) { value = placed(parse_layout, text, place); }
void read(Attention& value, std::string_view text, const ValuePlace& place) {
  value = placed(parse_attention, text, place);
}
void read(OptimizerImpl& value, std::string_view text, const ValuePlace& place) {
  value = placed(parse_optimizer_impl, text, place);
}

std::string written(const std::string& value) { return value; }
std::string written(const std::optional<int>& value) { return value ? std::to_string(*value) : std::string(); }
std::string written(bool value) { return value ? "1" : "0"; }
std::string written(std::int64_t value) { return std::to_string(value); }
std::string written(const std::vector<std::int64_t>& value) { return shape_text(value); }
template <class Word>
requires std::is_enum_v<Word> std::string written(Word value) { return std::string(to_string(value)); }

template <class Value>
constexpr bool is_number = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::optional<int>>;

template <class Value>
WorkloadColumn field(std::string_view name, Value Workload::*member, std::string_view help, FieldTraits traits = {}) {
  WorkloadColumn column;
  column.name = name;
  column.set = [member](Workload& w, std::string_view text, const ValuePlace& place) { read(w.*member, text, place); };
  column.get = [member](const Workload& w) { return written(w.*member); };
  column.is_text = !is_number<Value>;
  column.required = traits.mandatory;
  static_cast<FieldTraits&>(column) = traits;
  column.help = help;
  column.copy = [member](Workload& to, const Workload& from) { to.*member = from.*member; };
  return column;
}

[[noreturn]] void refuse(const std::string& what) { throw InputError(what); }

/// @throws InputError for a text that cannot stand in a key
void check_text(std::string_view name, std::string_view text) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != ';'; };
  if (std::all_of(text.begin(), text.end(), plain)) return;  // nearly all names: a prediction takes 100 ns
  const bool unfit =
      std::any_of(text.begin(), text.end(), [](char c) { return c == ';' || static_cast<unsigned char>(c) < 0x20; });
  if (unfit) throw_bad_value({{}, 0, name}, text, "free of ; and control characters");
  if (!is_utf8(text)) throw_bad_value({{}, 0, name}, text, "valid UTF-8");
}

void check_input(const Workload& w) {
  if (w.input.empty() || *std::min_element(w.input.begin(), w.input.end()) < 1) {
    refuse("input is not a list of positive sizes");
  }
  if (w.input.size() >= Shape::max_rank) refuse(fmt::format("input {} has too many sizes", shape_text(w.input)));
}

void check_sizes(const Workload& w) {
  if (w.depth && (*w.depth < 1 || *w.depth > 5)) refuse(fmt::format("depth {} is not in 1..5", *w.depth));
  if (w.base_filters && (*w.base_filters < 1 || *w.base_filters > max_base_filters)) {
    refuse(fmt::format("base_filters {} is not in 1..{}", *w.base_filters, max_base_filters));
  }
}

/// @throws InputError if fewer than `least`
void check_least(std::string_view name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  refuse(fmt::format("{} {} is not {}", name, value, least == 1 ? "positive" : fmt::format("at least {}", least)));
}

std::vector<WorkloadColumn> make_columns() {
  using W = Workload;
  return {
      field("network", &W::network, "of the zoo, or cifar_cnn, transformer:..., lstm:...",
            {.check = [](const W& w) { check_text("network", w.network); }}),
      field("depth", &W::depth, "blocks of cifar_cnn", {.mandatory = true, .of_cifar_cnn = true, .check = check_sizes}),
      field("base_filters", &W::base_filters, "channels of its first block", {.mandatory = true, .of_cifar_cnn = true}),
      field("batch_size", &W::batch_size, "images (or sequences) a step", {.mandatory = true}),
      field("input", &W::input, "one sample, as 3x32x32, or a sequence length",
            {.of_step = true, .check = check_input}),
      field("classes", &W::classes, "classes",
            {.of_step = true, .check = [](const W& w) { check_least("classes", w.classes, 2); }}),
      field("train_images", &W::train_images, "images (or sequences) an epoch",
            {.check = [](const W& w) { check_least("train_images", w.train_images, 1); }}),
      field("optimizer", &W::optimizer, "none, sgd, nesterov, adam, ...", {.how = true, .of_step = true}),
      field("precision", &W::precision, "fp32, tf32, default, bf16, fp16 or fp64", {.how = true}),
      field("layout", &W::layout, "nchw or nhwc", {.how = true}),
      field("cuda_graph", &W::cuda_graph, "0 or 1", {.how = true}),
      field("device", &W::device, "name of the device",
            {.how = true, .check = [](const W& w) { check_text("device", w.device); }}),
      field("threads", &W::threads, "CPU threads",
            {.how = true, .check = [](const W& w) { check_least("threads", w.threads.value_or(1), 1); }}),
      field("attention", &W::attention, "of transformers: sdpa (PyTorch's fused kernels) or eager (written out)",
            {.usual = "sdpa", .how = true}),
      field("optimizer_impl", &W::optimizer_impl,
            "fused (one kernel for the update) or foreach (PyTorch's default: one for each operation)",
            {.usual = "fused", .how = true}),
  };
}

}  // namespace

const std::vector<WorkloadColumn>& workload_columns() {
  static const std::vector<WorkloadColumn> columns = make_columns();
  return columns;
}

const WorkloadColumn& workload_column(std::string_view field) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.name == field) return column;
  }
  throw_bad_value({{}, 0, "field"}, field, fmt::format("one of {}", fmt::join(names_of(workload_columns()), ", ")));
}

void check_ranges(const Workload& workload) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.check != nullptr) column.check(workload);
  }
}

bool is_file_network(std::string_view name) { return name.find(':') != std::string_view::npos && !states_sizes(name); }

bool is_captured_step(std::string_view name) { return name.starts_with("step:"); }

Workload unstated_workload() {
  Workload workload;
  workload.depth = workload.base_filters = std::nullopt;
  workload.precision = Precision::unknown;
  return workload;
}

void set_fields(Workload& workload, const std::vector<std::string_view>& texts, ValuePlace place) {
  const std::vector<WorkloadColumn>& columns = workload_columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    place.name = columns[i].name;
    if (!texts[i].empty()) columns[i].set(workload, texts[i], place);
  }
  try {
    workload.validate();
  } catch (const InputError& error) {
    throw InputError(place.prefix() + error.what());
  }
}

WorkloadReader::WorkloadReader(const CsvReader& csv, Workload defaults, bool measured)
    : defaults_(std::move(defaults)) {
  for (const WorkloadColumn& column : workload_columns()) {
    columns_.push_back(measured && column.mandatory ? csv.required(column.name) : csv.optional(column.name));
  }
}

Workload WorkloadReader::read(const CsvReader& csv, Workload workload) const {
  std::vector<std::string_view> texts;
  for (const CsvColumn& column : columns_) texts.push_back(csv.text(column));
  set_fields(workload, texts, csv.place(""));
  return workload;
}

Workload with_field(Workload workload, std::string_view field, std::string_view text) {
  const WorkloadColumn& column = workload_column(field);
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

std::string field_text(const Workload& workload, std::string_view field) {
  return workload_column(field).get(workload);
}

}  // namespace perfpred
