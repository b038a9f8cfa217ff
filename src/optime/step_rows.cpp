// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "optime/step_model.h"
#include "step/graph_folder.h"
#include "text/csv.h"
#include "text/enum_names.h"

namespace perfpred {
namespace {

/// What a row's `precision` says: `half` and `double` are pure, `amp` and `fp16` mixed.
struct Arithmetic {
  Precision rates;  // of the device
  Precision graph;
  StepArithmetic whole = StepArithmetic::as_graph;
};

/// The layout that a row's precision names, if any.
std::optional<Layout> stated_layout(std::string_view precision) {
  if (precision.ends_with("-nhwc")) return Layout::nhwc;
  return precision.ends_with("-nchw") ? std::optional(Layout::nchw) : std::nullopt;
}

std::optional<Arithmetic> arithmetic_of(std::string_view text) {
  if (stated_layout(text)) text.remove_suffix(std::string_view("-nchw").size());
  if (text == "half") return Arithmetic{Precision::fp16, Precision::fp32, StepArithmetic::half};
  if (text == "double" || text == "fp64") return Arithmetic{Precision::fp64, Precision::fp32, StepArithmetic::double_};
  if (text.starts_with("amp") || text == "fp16") return Arithmetic{Precision::fp16, Precision::fp16};
  if (text == "bf16") return Arithmetic{Precision::bf16, Precision::bf16};
  if (text == "tf32") return Arithmetic{Precision::tf32, Precision::tf32};
  if (text.starts_with("default") || text.starts_with("fp32(")) return Arithmetic{Precision::default_, Precision::fp32};
  if (text == "fp32") return Arithmetic{Precision::fp32, Precision::fp32};
  return std::nullopt;
}

/// Bytes of a number of most tensors; 0 for an unknown precision.
double element_bytes(Precision precision) {
  switch (precision) {
    case Precision::unknown:
      return 0;
    case Precision::fp64:
      return 8;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    default:
      return 4;
  }
}

bool is_cifar(std::string_view dataset) { return dataset.starts_with("CIFAR") || dataset.starts_with("cifar"); }

/// The picture's side from a last word that is a size (`synthetic 3x224x224`, `synthetic 224`); CIFAR's; else
/// ImageNet's.
std::int64_t side_of(std::string_view dataset) {
  if (is_cifar(dataset)) return 32;
  const std::string_view word = dataset.substr(dataset.find_last_of(' ') + 1);
  const std::string_view side = word.substr(word.find_last_of('x') + 1);
  if (side.empty() || word.find_first_not_of("0123456789x") != std::string_view::npos) return 224;
  constexpr std::size_t longest = 6;
  return std::stoll(std::string(side.substr(0, longest)));
}

std::string network_name(std::string_view model, std::string_view dataset) {
  std::string name = canonical_network(model);
  if (name.size() > 4 && name.ends_with("v1.5")) name.resize(name.size() - 4);
  const bool small = is_cifar(dataset) && (name == "resnet18" || name == "resnet34");
  return small ? "cifar_" + name : name;
}

/// The name up to its first digit or underscore; all of a name that starts with one.
std::string family_of(const std::string& network) {
  const std::size_t end = network.find_first_of("0123456789_");
  return end == 0 ? network : network.substr(0, end);
}

/// A step's kernels, the bytes of an element of most of its tensors, and its input.
struct Step {
  std::shared_ptr<const std::vector<StepKernel>> kernels;
  double element_bytes = 0;  ///< 0: not known
  const char* unscored = nullptr;
  Layout layout = Layout::nchw;
  std::int64_t side = 0;  ///< of a picture; words of a text
  double input_bytes = 0;
};

constexpr const char* unknown_network = "unknown network";

std::shared_ptr<const std::vector<StepKernel>> shared_kernels(const OpGraph& graph) {
  auto kernels = std::make_shared<std::vector<StepKernel>>(step_kernels(graph));
  find_repeats(*kernels);
  return kernels;
}

Step captured_step(const std::string& model, std::int64_t batch, std::optional<Layout> layout) {
  const auto file = find_graph(model);
  if (!file) return {nullptr, 0, unknown_network};
  Step step;
  try {
    OpGraph graph = file->graph(batch);
    if (layout) graph.set_layout(*layout);
    step.kernels = shared_kernels(graph);
    step.layout = graph.layout();
  } catch (const InputError&) {
    return {nullptr, 0, "graph of another batch size"};
  }
  step.element_bytes = element_bytes(file->precision());
  return step;
}

/// The zoo's step, else that of a step file `<model>.json`. Networks of text have their usual number of words.
Step step_of(const std::string& model, const std::string& network, std::int64_t batch, std::int64_t side,
             Precision precision, std::optional<Layout> layout, std::string_view optimizer) {
  bool known = false;
  Step step;
  try {
    Workload workload = Workload::zoo(network, batch);
    known = true;
    const bool pictures = workload.input.size() == 3;
    if (pictures) workload.input = {3, side, side};
    workload.precision = precision;
    workload.layout = layout.value_or(Layout::nchw);
    const auto update = enumerator_named<Optimizer::rmsprop>(optimizer.empty() ? "none" : optimizer);
    if (!update) return {nullptr, 0, "unknown optimizer"};
    workload.optimizer = *update;
    step = {shared_kernels(workload.graph()), element_bytes(precision)};
    if (!pictures) {
      step.side = workload.input.back();
      step.input_bytes = 8.0 * static_cast<double>(batch * step.side);
      return step;
    }
  } catch (const InputError&) {  // the zoo has no such network, or the picture does not fit it
    step = captured_step(model, batch, layout);
    if (known && step.unscored == unknown_network) step.unscored = "picture that does not fit the network";
  }
  step.side = side;
  step.input_bytes = 4.0 * 3.0 * static_cast<double>(batch * side * side);
  return step;
}

/// Fills in the device and what follows from it. Returns why the row is not scored, or null.
const char* find_device(const DeviceCatalogue& devices, const std::optional<Arithmetic>& arithmetic, StepRow& row) {
  const std::vector<const Device*> named = devices.candidates(row.gpu);
  if (named.size() != 1) return named.empty() ? "unknown device" : "ambiguous device";
  if (!arithmetic) return "unknown precision";
  try {
    row.device = step_device(*named.front(), arithmetic->rates, arithmetic->whole);
  } catch (const InputError&) {
    return "no peak in this precision";
  }
  row.family = row.device.matrix.family;
  row.arithmetic = arithmetic_key(arithmetic->rates, row.device, arithmetic->whole);
  return nullptr;
}

/// @param layout  what the precision's name leaves open
void name_groups(const std::string& network, std::int64_t side, std::string_view layout, StepRow& row) {
  row.network_family = family_of(network);
  row.network = network_key(network, side);
  row.machine = fmt::format("{}|{}|{}{}", row.source, row.gpu, row.precision, layout);
}

/// One step of each row of a runs_agg.csv.
StepTable steps_of_runs(const std::string& path) {
  const DeviceCatalogue devices;
  StepTable table;
  const auto add = [&](const AggregateRow& run) -> const char* {  // returns why the row is not scored, or null
    const Workload& workload = run.workload;
    if (!run.avg_time_mean) return "no time";
    if (workload.cuda_graph) return "replayed from a CUDA graph";
    StepRow row;
    row.source = "runs";
    row.gpu = workload.device;
    row.model = workload.network.family();
    row.precision = std::string(to_string(workload.precision)) + (workload.layout == Layout::nhwc ? "-nhwc" : "");
    row.batch = workload.batch_size;
    row.sec = *run.avg_time_mean / static_cast<double>(run.steps_per_epoch);
    if (const char* unscored = find_device(devices, Arithmetic{workload.precision, workload.precision}, row))
      return unscored;
    try {
      row.kernels = shared_kernels(workload.graph());
    } catch (const InputError&) {
      return unknown_network;
    }
    name_groups(row.model, workload.input.back(), "", row);
    table.rows.push_back(std::move(row));
    return nullptr;
  };
  for (const AggregateRow& run : read_aggregate(path)) {
    if (const char* unscored = add(run)) ++table.unscored[unscored];
  }
  return table;
}

}  // namespace

std::optional<Precision> step_precision(std::string_view text) {
  const auto arithmetic = arithmetic_of(text);
  return arithmetic ? std::optional(arithmetic->rates) : std::nullopt;
}

Layout step_layout(std::string_view text) { return stated_layout(text).value_or(Layout::nchw); }

std::string network_key(std::string_view network, std::int64_t side) { return fmt::format("{}|{}", network, side); }

std::string arithmetic_key(Precision precision, const StepDevice& device, StepArithmetic arithmetic) {
  return fmt::format("{} bytes{}{}", element_bytes(precision), device.conv_matrix_units ? ", matrix units" : "",
                     arithmetic == StepArithmetic::half ? ", throughout" : "");
}

StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic) {
  StepDevice step;
  const Precision asked = std::exchange(precision, computed_precision(device, precision));
  step.emulated_half = precision != asked;
  step.matrix = hardware_of(device, precision);
  step.conv_flops = device.convolution_flops(precision).value_or(step.matrix.flops);
  const double vector = step.matrix.vector_flops * 1.05;
  step.matrix_units = step.matrix.flops > vector;
  step.conv_matrix_units = step.conv_flops > vector;
  step.fp64 = precision == Precision::fp64;
  step.cpu = device.kind == DeviceKind::cpu;
  const KernelFamily family = step.matrix.family;
  const bool nvidia = family == KernelFamily::volta_turing || family == KernelFamily::ampere_ada;
  step.transposes = nvidia && step.conv_matrix_units && !step.fp64;
  step.winograd = !device.arch.starts_with("Hopper");
  step.byte_scale = arithmetic == StepArithmetic::half ? 0.5 : arithmetic == StepArithmetic::double_ ? 2 : 1;
  return step;
}

StepTable read_step_table(const std::string& path) {
  CsvReader csv(path);
  if (csv.optional("avg_time_mean").index) return steps_of_runs(path);
  const CsvColumn source = csv.required("source"), gpu = csv.required("gpu"), model = csv.required("model"),
                  dataset = csv.required("dataset"), batch = csv.required("batch"),
                  precision = csv.required("precision"), time = csv.required("ms_per_step"),
                  optimizer = csv.optional("optimizer");
  const DeviceCatalogue devices;
  std::map<std::string, Step> steps;
  StepTable file;
  while (csv.next()) {
    const auto leave = [&](const std::string& reason) { ++file.unscored[reason]; };
    if (csv.text(time).empty()) {
      leave("no time");
      continue;
    }
    StepRow row;
    row.sec = csv.positive(time) / 1e3;
    row.source = csv.text(source);
    row.gpu = csv.text(gpu);
    row.model = csv.text(model);
    row.precision = csv.text(precision);
    if (csv.text(batch).empty()) {
      leave("no batch size");
      continue;
    }
    row.batch = std::llround(csv.positive(batch));  // 32.0
    if (row.batch == 0) throw_bad_value(csv.place("batch"), csv.text(batch), "a positive integer");
    const auto arithmetic = arithmetic_of(row.precision);
    if (const char* unscored = find_device(devices, arithmetic, row)) {
      leave(unscored);
      continue;
    }
    const std::string network = network_name(row.model, csv.text(dataset));
    const std::int64_t side = side_of(csv.text(dataset));
    const std::string_view update = csv.text(optimizer);
    const auto layout = stated_layout(row.precision);
    const std::string key =
        fmt::format("{}|{}|{}|{}|{}|{}|{}", row.model, network, row.batch, side, to_string(arithmetic->graph),
                    layout ? to_string(*layout) : std::string_view(), update);
    auto step = steps.find(key);
    if (step == steps.end()) {
      step = steps.emplace(key, step_of(row.model, network, row.batch, side, arithmetic->graph, layout, update)).first;
    }
    if (step->second.unscored != nullptr) {
      leave(step->second.unscored);
      continue;
    }
    row.kernels = step->second.kernels;
    const double in_graph = step->second.element_bytes;
    if (in_graph != 0) row.device.byte_scale *= element_bytes(arithmetic->graph) / in_graph;
    row.input_bytes = step->second.input_bytes;
    name_groups(network, step->second.side, !layout && step->second.layout == Layout::nhwc ? "-nhwc" : "", row);
    file.rows.push_back(std::move(row));
  }
  return file;
}

StepTable read_step_tables(const std::vector<std::string>& paths) {
  StepTable all;
  std::set<std::filesystem::path> known;
  for (const std::string& path : paths) {
    std::error_code error;  // a pipe has no such name
    std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
    if (error) file = path;
    if (!known.insert(std::move(file)).second) throw InputError(path + " is named twice; its rows would count twice");
    StepTable table = read_step_table(path);
    std::move(table.rows.begin(), table.rows.end(), std::back_inserter(all.rows));
    for (const auto& [reason, count] : table.unscored) all.unscored[reason] += count;
  }
  return all;
}

}  // namespace perfpred
