// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_columns.h"

#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "network/adapter.h"
#include "network/records.h"
#include "network/zoo/cifar_cnn.h"
#include "network/zoo/pretrained.h"
#include "network/zoo/zoo.h"
#include "text/enum_names.h"
#include "text/nearest_name.h"
#include "text/several_devices.h"

namespace perfpred {
namespace {

int positive_int(std::string_view text, const ValuePlace& place) {
  const std::int64_t value = parse_positive_integer(text, place);
  if (value > std::numeric_limits<int>::max()) throw_bad_value(place, text, "a positive integer of usual size");
  return static_cast<int>(value);
}

std::string written(const std::string& value) { return value; }
std::string written(const std::optional<int>& value) { return value ? std::to_string(*value) : std::string(); }
std::string written(bool value) { return value ? "1" : "0"; }
std::string written(std::int64_t value) { return std::to_string(value); }
std::string written(EpochSamples value) { return std::to_string(std::int64_t{value}); }
std::string written(const AdapterName& value) { return value; }
std::string written(const ParallelLayout& value) { return value.text(); }
std::string written(const Placement& value) { return value.text(); }
std::string written(const std::vector<std::int64_t>& value) { return shape_text(value); }
template <class Word>
requires std::is_enum_v<Word> std::string written(Word value) { return std::string(to_string(value)); }

/// All words of a vocabulary.
template <class Word, std::size_t i = 0>
std::vector<std::string> words_of() {
  // A value that no enumerator has is written as a cast, "(perfpred::Phase)4".
  if constexpr (enumerator_name<static_cast<Word>(i)>().find(')') != std::string_view::npos) {
    return {};
  } else {
    std::vector<std::string> words = words_of<Word, i + 1>();
    words.insert(words.begin(), written(static_cast<Word>(i)));
    return words;
  }
}

template <class Value>
constexpr FieldType type_of() {
  if constexpr (std::is_enum_v<Value>) {
    return FieldType::word;
  } else if constexpr (std::is_same_v<Value, bool>) {
    return FieldType::flag;
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::optional<int>> ||
                       std::is_same_v<Value, EpochSamples>) {
    return FieldType::integer;
  } else {
    return std::is_same_v<Value, std::vector<std::int64_t>> ? FieldType::shape : FieldType::text;
  }
}

WorkloadColumn field(Column<Workload> text, FieldType type, std::string_view help, FieldTraits traits = {}) {
  return {std::move(text), traits, help, {}, {}, type};
}

/// @param parse  of a text, and of its place if it takes one
template <class Value, class Parse>
WorkloadColumn field(std::string_view name, Value Workload::*member, Parse parse, std::string_view help,
                     FieldTraits traits = {}) {
  constexpr FieldType type = type_of<Value>();
  constexpr bool is_number = type == FieldType::integer || type == FieldType::flag;
  const auto set = [member, parse](Workload& w, std::string_view text, const ValuePlace& place) {
    if constexpr (std::is_invocable_v<Parse, std::string_view, const ValuePlace&>) {
      w.*member = parse(text, place);
    } else {
      w.*member = placed(parse, text, place);
    }
  };
  WorkloadColumn column =
      field({name, set, [member](const Workload& w) { return written(w.*member); }, !is_number}, type, help, traits);
  if constexpr (type == FieldType::word) column.words = words_of<Value>();
  column.copy = [member](Workload& to, const Workload& from) { to.*member = from.*member; };
  column.equal = [member](const Workload& one, const Workload& other) { return one.*member == other.*member; };
  return column;
}

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
  if (w.input.empty()) return;  // while fields are set; validate() refuses it
  if (*std::min_element(w.input.begin(), w.input.end()) < 1) {
    throw InputError("input is not a list of positive sizes");
  }
  if (w.input.size() >= Shape::max_rank)
    throw InputError(fmt::format("input {} has too many sizes", shown(shape_text(w.input))));
  constexpr std::int64_t longest = std::int64_t{1} << 22;  // of a sequence: four times the longest context for sale
  if (w.input.size() == 1 && w.input[0] > longest) {
    throw InputError(fmt::format("input {} is not a sequence length from 1 to {}", w.input[0], longest));
  }
}

/// @throws InputError for another network than a cifar_cnn
CifarCnn cifar_cnn_of(const Workload& workload, const ValuePlace& place) {
  if (!is_cifar_cnn(workload.network)) {
    if (workload.network.empty()) throw InputError(place.prefix() + "network is missing");
    throw InputError(
        fmt::format("{}network {} has no depth and base_filters", place.prefix(), shown(workload.network)));
  }
  return parse_cifar_cnn(workload.network);
}

/// The name of the family alone leaves its sizes as they are: they have columns of their own.
void set_network(Workload& w, std::string_view text, const ValuePlace&) {
  const NetworkName name(text);
  if (name != cifar_cnn_family || !is_cifar_cnn(w.network)) w.network = name;
}

template <std::optional<int> CifarCnn::*size>
void set_size(Workload& w, std::string_view text, const ValuePlace& place) {
  CifarCnn network = cifar_cnn_of(w, place);
  network.*size = positive_int(text, place);
  w.network = network.name();
}

void check_network(const Workload& w) {
  constexpr int max_depth = 5, max_base_filters = 65'536;
  check_text("network", w.network);
  if (!is_cifar_cnn(w.network)) return;
  const auto [depth, base_filters, well_formed] = parse_cifar_cnn(w.network);
  if (!well_formed) {
    throw_bad_value({{}, 0, "network"}, w.network, fmt::format("of the form {}", cifar_cnn_example));
  }
  if (depth && (*depth < 1 || *depth > max_depth))
    throw InputError(fmt::format("depth {} is not in 1..{}", *depth, max_depth));
  if (base_filters && (*base_filters < 1 || *base_filters > max_base_filters)) {
    throw InputError(fmt::format("base_filters {} is not in 1..{}", *base_filters, max_base_filters));
  }
}

/// @throws InputError if fewer than `least`
void check_least(std::string_view name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw InputError(
      fmt::format("{} {} is not {}", name, value, least == 1 ? "positive" : fmt::format("at least {}", least)));
}

/// 0 for none.
std::int64_t parse_checkpoint(std::string_view text, const ValuePlace& place) {
  if (text == "none") return 0;
  if (text == "all") return 1;
  if (text == "selective") return selective_checkpoint;
  if (text == "op") return op_checkpoint;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    throw_bad_value(place, text, "none, all, selective, op or a positive integer");
  return parse_positive_integer(text, place);
}

std::string checkpoint_text(const Workload& w) {
  if (w.checkpoint == selective_checkpoint) return "selective";
  if (w.checkpoint == op_checkpoint) return "op";
  return w.checkpoint == 0 ? "none" : w.checkpoint == 1 ? "all" : written(w.checkpoint);
}

/// The same column, some of whose values are words.
WorkloadColumn in_words(WorkloadColumn column, std::string (*text)(const Workload& workload),
                        std::vector<std::string> words) {
  column.get = text;
  column.is_text = true;
  column.words = std::move(words);
  return column;
}

/// Fields that keys have only where they differ from their default.
std::vector<WorkloadColumn> rarer_columns() {
  using W = Workload;
  using Why = DomainViolation;
  return {
      field("attention", &W::attention, parse_attention,
            "of transformers: sdpa (PyTorch's fused kernels) or eager (written out)",
            {.usual = "sdpa", .how = Why::other_layout, .of_network = true}),
      field("optimizer_impl", &W::optimizer_impl, parse_optimizer_impl,
            "fused (one kernel for the update) or foreach (PyTorch's default: one for each operation)",
            {.usual = "fused", .how = Why::other_optimizer, .of_network = true, .only_predicted = true}),
      field("weights", &W::weights, parse_weights,
            "type of the parameters: as_precision, bf16, fp16 (with gradients and states), or packed and frozen: nf4, "
            "int8, int4",
            {.usual = "as_precision", .how = Why::other_precision, .of_network = true, .only_predicted = true}),
      field("adapter", &W::adapter, [](std::string_view t) { return AdapterName(parse_adapter(t).name); },
            "trained in place of the network: lora:r=16,targets=attention (or all, q+v), dora, adalora, ia3, adapter",
            {.usual = "",
             .how = Why::other_optimizer,
             .of_transformers = true,
             .of_network = true,
             .only_predicted = true,
             .check = [](const W& w) { (void)parse_adapter(w.adapter); }}),
      in_words(field("checkpoint", &W::checkpoint, parse_checkpoint,
                     "what the backward pass computes anew: none, all, every k-th block as a number, selective (the "
                     "attention), or op (all but every second product and fused attention, as torchtitan's)",
                     {.usual = "none",
                      .how = Why::other_layout,
                      .of_transformers = true,
                      .of_network = true,
                      .only_predicted = true,
                      .check = [](const W& w) { check_least("checkpoint", w.checkpoint, op_checkpoint); }}),
               checkpoint_text, {"none", "all", "selective", "op"}),
      field("accumulate", &W::accumulate, parse_positive_integer, "batches whose gradients one update uses",
            {.usual = "1",
             .how = Why::other_optimizer,
             .of_network = true,
             .check = [](const W& w) { check_least("accumulate", w.accumulate, 1); }}),
      field("compiled", &W::compiled, parse_flag, "1: by torch.compile",
            {.usual = "0", .how = Why::other_layout, .only_predicted = true}),
      field("software", &W::software, parse_software, "pytorch, tensorflow, xla, mxnet, paddle or jax",
            {.usual = "pytorch", .how = Why::other_layout, .only_predicted = true}),
      field("loader", &W::loader, parse_loader, "included: the step's time has that of loading its samples",
            {.usual = "none", .how = Why::other_layout, .only_predicted = true}),
      field("loss", &W::loss, parse_loss_form, "of language models: whole, or chunked (some positions at a time)",
            {.usual = "whole",
             .how = Why::other_layout,
             .of_transformers = true,
             .of_network = true,
             .only_predicted = true}),
      field("padding", &W::padding, parse_padding, "packed, or masked: padded (to a batch's longest), max (to one)",
            {.usual = "packed",
             .how = Why::other_layout,
             .of_transformers = true,
             .of_network = true,
             .only_predicted = true}),
      field("phases", &W::phases, parse_phases, "all (training) or forward (a pass in evaluation mode)",
            {.usual = "all", .how = Why::other_layout, .only_predicted = true}),
  };
}

/// Fields of jobs on several devices.
std::vector<WorkloadColumn> columns_of_devices() {
  using W = Workload;
  using Why = DomainViolation;
  return {
      field("parallel", &W::parallel, ParallelLayout::parse,
            "how devices share it: ddp, fsdp, zero1, zero2, zero3, tp=2,pp=4,sp=1, or joined by +",
            {.usual = "ddp", .how = Why::other_placement, .only_predicted = true}),
      field("gpus_per_node", &W::gpus_per_node, Placement::parse,
            "devices on each node: 8, 1+3, or 8x32 for 32 nodes of 8",
            {.usual = "1", .how = Why::other_placement, .only_predicted = true}),
      field("cluster", &W::cluster, [](std::string_view t) { return std::string(t); },
            "name in the table of links; without one: the device's usual node",
            {.usual = "",
             .how = Why::other_cluster,
             .only_predicted = true,
             .check = [](const W& w) { check_text("cluster", w.cluster); }}),
  };
}

/// What other software calls a field, or a term of a job; empty for other names.
std::string_view right_name(std::string_view field) {
  constexpr std::string_view of_step = "train_images, the samples of an epoch: steps times batch_size";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 22> others = {
      {{"gpu", "device"},
       {"gpuname", "device"},
       {"card", "device"},
       {"accelerator", "device"},
       {"model", "network"},
       {"arch", "network"},
       {"dtype", "precision"},
       {"torchdtype", "precision"},
       {"amp", "precision"},
       {"bs", "batch_size"},
       {"perdevicetrainbatchsize", "batch_size"},
       {"seqlen", "input"},
       {"sequencelength", "input"},
       {"maxseqlen", "input"},
       {"maxlength", "input"},
       {"imagesize", "input"},
       {"optim", "optimizer"},
       {"gradientaccumulationsteps", "accumulate"},
       {"gradientcheckpointing", "checkpoint"},
       {"numtrainepochs", "epochs"},
       {"steps", of_step},
       {"maxsteps", of_step}}};
  const std::string typed = bare(field);
  const auto known = std::find_if(others.begin(), others.end(), [&](const auto& one) { return one.first == typed; });
  return known == others.end() ? std::string_view() : known->second;
}

std::vector<WorkloadColumn> make_columns() {
  using W = Workload;
  using Why = DomainViolation;
  std::vector<WorkloadColumn> columns = {
      field({"network", set_network, [](const W& w) { return std::string(w.network.family()); }, true}, FieldType::text,
            "of the zoo, or cifar_cnn, transformer:..., lstm:...", {.check = check_network}),
      field({"depth", set_size<&CifarCnn::depth>, [](const W& w) { return written(w.depth()); }}, FieldType::integer,
            "blocks of cifar_cnn", {.mandatory = true, .of_cifar_cnn = true}),
      field({"base_filters", set_size<&CifarCnn::base_filters>, [](const W& w) { return written(w.base_filters()); }},
            FieldType::integer, "channels of its first block", {.mandatory = true, .of_cifar_cnn = true}),
      field("batch_size", &W::batch_size, parse_positive_integer, "images (or sequences) a step", {.mandatory = true}),
      field("input", &W::input, parse_shape, "one sample, as 3x32x32, or a sequence length",
            {.of_step = true, .check = check_input}),
      field("classes", &W::classes, parse_positive_integer, "classes",
            {.of_step = true, .check = [](const W& w) { check_least("classes", w.classes, 2); }}),
      field("train_images", &W::train_images, parse_positive_integer, "images (or sequences) an epoch",
            {.check = [](const W& w) { check_least("train_images", w.train_images, 1); }}),
      field("optimizer", &W::optimizer, parse_optimizer, "none, sgd, nesterov, adam, ...",
            {.how = Why::other_optimizer, .of_step = true}),
      field("precision", &W::precision, parse_precision, "fp32, tf32, default, bf16, fp16 or fp64",
            {.how = Why::other_precision}),
      field("layout", &W::layout, parse_layout, "nchw or nhwc", {.how = Why::other_layout}),
      field("cuda_graph", &W::cuda_graph, parse_flag, "0 or 1", {.how = Why::other_layout}),
      field("device", &W::device,
            [](std::string_view t) {
              check_text("device", t);  // before it becomes a name of the catalogue, which has letters and digits alone
              return DeviceName(t);
            },
            "name of the device",
            {.how = Why::other_device, .check = [](const W& w) { check_text("device", w.device); }}),
      field("threads", &W::threads, positive_int, "CPU threads",
            {.how = Why::other_device, .check = [](const W& w) { check_least("threads", w.threads.value_or(1), 1); }}),
  };
  for (auto* make : {rarer_columns, columns_of_devices}) {
    for (WorkloadColumn& column : make()) columns.push_back(std::move(column));
  }
  return columns;
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
  throw_unknown_field(field);
}

bool is_workload_field(std::string_view name) {
  return std::ranges::any_of(workload_columns(), [&](const WorkloadColumn& column) { return column.name == name; });
}

void throw_unknown_field(std::string_view field, std::span<const std::string_view> others) {
  if (const std::string_view right = right_name(field); !right.empty())
    throw InputError(fmt::format("field \"{}\" is not known: it is {}", shown(field), right));
  if (counts_devices(field)) throw InputError(fmt::format("field \"{}\": {}", shown(field), where_devices_are));
  if (const auto meant = meant_field(field))
    throw InputError(fmt::format("field \"{}\" is not known; did you mean {}?", shown(field), *meant));
  std::string names = fmt::format("{}", fmt::join(names_of(workload_columns()), ", "));
  for (const std::string_view other : others) names += fmt::format(", {}", other);
  throw_bad_value({{}, 0, "field"}, field, fmt::format("one of {}", names));
}

std::optional<std::string_view> meant_field(std::string_view name) {
  constexpr std::size_t shortest = 3, letters_per_slip = 4;
  const std::string typed = bare(name);
  if (typed.size() < shortest) return std::nullopt;
  std::size_t least = std::max<std::size_t>(1, typed.size() / letters_per_slip) + 1;
  std::optional<std::string_view> meant;
  for (const WorkloadColumn& column : workload_columns()) {
    const std::string spelling = bare(column.name);
    const bool is_first_word = column.name.starts_with(std::string(name) + "_");
    const std::size_t slips = is_first_word ? 0 : edit_distance(typed, spelling);
    if (slips >= least) continue;
    least = slips;
    meant = column.name;
  }
  return meant;
}

void check_ranges(const Workload& workload) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.check != nullptr) column.check(workload);
  }
}

namespace {
constexpr std::string_view captured_step = "step:";
}

bool is_captured_step(std::string_view name) { return name.starts_with(captured_step); }

std::string captured_step_name(const std::string& digits) { return std::string(captured_step) + digits; }

bool decides(std::string_view network, std::string_view field) {
  if (is_captured_step(network)) return workload_column(field).of_step;
  if (field != "classes" || !is_recorded(network)) return false;
  const Record* record = find_record(network);
  return record != nullptr && record->classes == 0;
}

bool takes_lengths(const Workload& workload) {
  return workload.input.size() == 1 && !decides(workload.network, "input") && !is_recurrent(workload.network) &&
         !is_recorded(workload.network);
}

std::vector<std::string> unknown_fields(const Workload& workload) {
  std::vector<std::string> unknown;
  for (const WorkloadColumn& column : workload_columns()) {
    if (decides(workload.network, column.name)) unknown.emplace_back(column.name);
  }
  if (!workload.knows_epoch()) unknown.emplace_back("train_images");
  return unknown;
}

std::string lacking_epoch(const Workload& workload) {
  return fmt::format("train_images is not stated: network {} has no data that it is usually trained on",
                     shown(workload.network));
}

Workload unstated_workload() {
  Workload workload;
  workload.network = cifar_cnn_family;
  workload.precision = Precision::unknown;
  workload.train_images = cifar_images;
  return workload;
}

void set_fields(Workload& workload, const std::vector<std::string_view>& texts, ValuePlace place) {
  const std::vector<WorkloadColumn>& columns = workload_columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    place.name = columns[i].name;
    if (!texts[i].empty()) columns[i].set(workload, texts[i], place);
  }
  try {
    const NetworkName stated(texts.front());
    if (stated != stated.family() && workload.network != stated) {
      throw InputError(fmt::format("network {} has another depth or base_filters", shown(stated)));
    }
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
  const std::string before(workload.network.family());
  column.set(workload, text, {{}, 0, field});
  check_ranges(workload);
  if (workload.network.family() == before) return workload;
  if (is_captured_step(workload.network)) {
    workload.train_images = EpochSamples::unstated(workload.train_images);
    return workload;
  }
  TrainingData data = usual_data(workload.network);
  workload.input = std::move(data.input);
  workload.classes = data.classes;
  workload.train_images = EpochSamples::unstated(data.images);
  return workload;
}

std::string field_text(const Workload& workload, std::string_view field) {
  return workload_column(field).get(workload);
}

}  // namespace perfpred
