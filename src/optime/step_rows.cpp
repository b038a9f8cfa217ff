// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "catalogue/device_table.h"
#include "network/records.h"
#include "optime/step_model.h"
#include "step/forward_pass.h"
#include "step/graph_folder.h"
#include "text/csv.h"
#include "text/enum_names.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// How tables of training steps that others published spell the arithmetic of a row, after a layout was cut off. They
/// are taken as they are: `--steps-train` is given such a table, not one that was cleaned.
struct ArithmeticName {
  std::string_view text;
  bool begins;      ///< more may follow: `fp32(tf32 default on A100)`
  Precision rates;  ///< of the device
  Precision graph;
  StepArithmetic arithmetic = StepArithmetic::as_graph;  ///< `half` and `double` change all tensors
};
constexpr auto arithmetic_names = std::to_array<ArithmeticName>({
    {"half", false, Precision::fp16, Precision::fp32, StepArithmetic::half},
    {"double", false, Precision::fp64, Precision::fp32, StepArithmetic::double_},
    {"fp64", false, Precision::fp64, Precision::fp32, StepArithmetic::double_},
    {"amp", true, Precision::fp16, Precision::fp16},
    {"fp16", false, Precision::fp16, Precision::fp16},
    {"bf16", false, Precision::bf16, Precision::bf16},
    {"tf32", false, Precision::tf32, Precision::tf32},
    {"default", true, Precision::default_, Precision::fp32},
    {"fp32(", true, Precision::default_, Precision::fp32},
    {"fp32", false, Precision::fp32, Precision::fp32},
});
constexpr std::string_view network_version = "v1.5";  // NVIDIA's name of torchvision's ResNet-50

struct Arithmetic {
  Precision rates, graph;
  StepArithmetic arithmetic = StepArithmetic::as_graph;
  std::optional<Layout> layout;  ///< that the row names
};

std::optional<Arithmetic> arithmetic_of(std::string_view text) {
  std::optional<Layout> layout;
  for (const Layout named : {Layout::nchw, Layout::nhwc}) {
    const std::string suffix = fmt::format("-{}", to_string(named));
    if (!text.ends_with(suffix)) continue;
    layout = named;
    text.remove_suffix(suffix.size());
    break;
  }
  for (const ArithmeticName& name : arithmetic_names) {
    if (name.begins ? text.starts_with(name.text) : text == name.text)
      return Arithmetic{name.rates, name.graph, name.arithmetic, layout};
  }
  return std::nullopt;
}

/// Why a row has no prediction.
enum class Unscored {
  no_time,
  no_batch_size,
  unknown_device,
  ambiguous_device,
  unknown_precision,
  no_peak,
  unknown_network,
  other_picture,
  other_batch_size,
  unknown_optimizer,
  cuda_graph,
};

std::string_view text_of(Unscored reason) {
  constexpr std::array<std::string_view, 11> texts = {"no time",
                                                      "no batch size",
                                                      "unknown device",
                                                      "ambiguous device",
                                                      "unknown precision",
                                                      "no peak in this precision",
                                                      "unknown network",
                                                      "picture that does not fit the network",
                                                      "graph of another batch size",
                                                      "unknown optimizer",
                                                      "replayed from a CUDA graph"};
  return texts.at(static_cast<std::size_t>(reason));
}

/// Bytes of a number of most tensors; 0 for an unknown precision.
int element_bytes(Precision precision) {
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

/// The number of a dataset `words 128`; 0 for another one.
std::int64_t text_length(std::string_view dataset) {
  constexpr std::string_view name = "words ";
  return dataset.starts_with(name) ? side_of(dataset) : 0;
}

std::string network_name(std::string_view model, std::string_view dataset) {
  std::string name = canonical_network(model);
  if (name.size() > network_version.size() && name.ends_with(network_version))
    name.resize(name.size() - network_version.size());
  const bool small = is_cifar(dataset) && (name == "resnet18" || name == "resnet34" || name == "resnet50");
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
  int element_bytes = 0;  ///< 0: not known
  Layout layout = Layout::nchw;
  std::int64_t side = 0;  ///< of a picture; words of a text
  double input_bytes = 0;
};
using StepOrReason = std::variant<Step, Unscored>;

/// What a row of a table says of its step.
struct AskedStep {
  std::string model, network;
  std::int64_t batch = 0, side = 0, words = 0;  ///< words 0: as many as is usual
  DeviceKind device = DeviceKind::gpu;
  Precision precision = Precision::fp32;  ///< of the graph
  std::optional<Layout> layout;
  std::string optimizer;
  StepConditions conditions;

  friend auto operator<=>(const AskedStep&, const AskedStep&) = default;
};

std::shared_ptr<const std::vector<StepKernel>> shared_kernels(OpGraph graph, DeviceKind device, Compiler compiler) {
  auto kernels = std::make_shared<std::vector<StepKernel>>(step_kernels(execute(std::move(graph), device, compiler)));
  find_repeats(*kernels);
  return kernels;
}

void set_pictures(Step& step, const AskedStep& asked) {
  step.side = asked.side;
  step.input_bytes = 4.0 * 3.0 * static_cast<double>(asked.batch * asked.side * asked.side);
}

/// The step of a step file `<model>.json`.
StepOrReason captured_step(const AskedStep& asked) {
  const auto file = find_graph(asked.model);
  if (!file) return Unscored::unknown_network;
  Step step;
  try {
    OpGraph graph = file->graph(asked.batch);
    if (asked.layout) graph.set_layout(*asked.layout);
    step.layout = graph.layout();
    if (asked.conditions.phases == Phases::forward) graph = forward_pass(graph);
    step.kernels = shared_kernels(std::move(graph), asked.device, compiler_of(asked.conditions));
  } catch (const InputError&) {  // only the file knows which batch sizes it answers for
    return Unscored::other_batch_size;
  }
  step.element_bytes = element_bytes(file->precision());
  set_pictures(step, asked);
  return step;
}

/// The zoo's step: networks of text have their usual number of words.
StepOrReason zoo_step(const AskedStep& asked) {
  const auto update = enumerator_named<Optimizer::momentum>(asked.optimizer.empty() ? "none" : asked.optimizer);
  Unscored reason = Unscored::unknown_network;
  try {
    Workload workload = Workload::zoo(asked.network, asked.batch);
    reason = Unscored::other_picture;
    const bool pictures = workload.input.size() == 3;
    if (pictures) workload.input = {3, asked.side, asked.side};
    if (!pictures && asked.words > 0) workload.input = {asked.words};
    workload.precision = asked.precision;
    workload.layout = asked.layout.value_or(Layout::nchw);
    if (!update) return Unscored::unknown_optimizer;
    workload.optimizer = *update;
    workload.phases = asked.conditions.phases;
    Step step{shared_kernels(workload.graph(), asked.device, compiler_of(asked.conditions)),
              element_bytes(asked.precision)};
    if (pictures) {
      set_pictures(step, asked);
    } else {
      step.side = workload.input.back();
      step.input_bytes = 8.0 * static_cast<double>(asked.batch * step.side);
    }
    return step;
  } catch (const InputError&) {  // only the network's builder knows which pictures fit it
    return reason;
  }
}

/// The zoo's step, else that of a step file, else that of a recorded network.
StepOrReason step_of(const AskedStep& asked) {
  if (is_recorded(asked.network) && find_graph(asked.model)) return captured_step(asked);
  StepOrReason of_zoo = zoo_step(asked);
  const Unscored* reason = std::get_if<Unscored>(&of_zoo);
  if (reason == nullptr || *reason == Unscored::unknown_optimizer) return of_zoo;
  StepOrReason captured = captured_step(asked);
  const Unscored* other = std::get_if<Unscored>(&captured);
  return other != nullptr && *other == Unscored::unknown_network ? of_zoo : captured;
}

/// Fills in the device and what follows from it. Returns why the row is not scored, if it is not.
/// @param own  gets the device if the built-in catalogue lacks it
std::optional<Unscored> set_device(const DeviceCatalogue& devices, const std::optional<Arithmetic>& arithmetic,
                                   StepRow& row, std::vector<Device>& own) {
  const ResolvedDevice known = devices.resolve(row.gpu);
  if (known.origin == DeviceOrigin::ambiguous) return Unscored::ambiguous_device;
  if (known.origin != DeviceOrigin::row) return Unscored::unknown_device;  // rates of this CPU are not the row's
  if (!arithmetic) return Unscored::unknown_precision;
  const Device& device = *known.device;
  if (arithmetic->rates == Precision::unknown || !device.mem_bw_gbs ||
      !device.matrix_flops(computed_precision(device, arithmetic->rates))) {
    return Unscored::no_peak;
  }
  row.device = step_device(device, arithmetic->rates, arithmetic->arithmetic);
  row.arithmetic = arithmetic_key(arithmetic->rates, row.device, arithmetic->arithmetic);
  row.machine = {row.source, device.name, arithmetic->rates, arithmetic->arithmetic};
  if (canonical_device(row.gpu) != device.name) row.gpu = device.name;
  keep_own(own, device);
  return std::nullopt;
}

void set_conditions(StepRow& row, const StepConditions& conditions) {
  row.phases = conditions.phases;
  row.conditions = words_of(conditions);
  row.device.replays = is_compiled(conditions);
}

/// One step of a row of a runs_agg.csv.
std::variant<StepRow, Unscored> row_of_run(const AggregateRow& run, const DeviceCatalogue& devices,
                                           std::vector<Device>& own) {
  const Workload& workload = run.workload;
  if (!run.avg_time_mean) return Unscored::no_time;
  if (workload.cuda_graph) return Unscored::cuda_graph;
  StepRow row;
  row.source = "runs";
  row.gpu = workload.device;
  row.model = workload.network.family();
  row.precision = std::string(to_string(workload.precision)) + (workload.layout == Layout::nhwc ? "-nhwc" : "");
  row.batch = workload.batch_size;
  row.sec = *run.avg_time_mean / static_cast<double>(run.steps_per_epoch);
  const Arithmetic arithmetic{workload.precision, workload.precision, StepArithmetic::as_graph, {}};
  if (const auto reason = set_device(devices, arithmetic, row, own)) return *reason;
  try {
    row.kernels = shared_kernels(workload.graph(), row.device.kind, compiler_of(workload));
  } catch (const InputError&) {
    return Unscored::unknown_network;
  }
  row.machine.layout = workload.layout;
  set_conditions(row, conditions_of(workload));
  row.network = network_key(row.model, workload.input.back(), conditions_of(workload));
  row.network_family = family_of(row.model);
  return row;
}

void add_to(StepTable& table, std::variant<StepRow, Unscored> scored) {
  if (const Unscored* reason = std::get_if<Unscored>(&scored)) {
    ++table.unscored[std::string(text_of(*reason))];
  } else {
    table.rows.push_back(std::move(std::get<StepRow>(scored)));
  }
}

/// Reads the rows of a table of steps.
class StepReader {
 public:
  StepReader(CsvReader& csv, const DeviceCatalogue& devices, std::vector<Device>& own)
      : csv_(csv),
        devices_(devices),
        own_(own),
        source_(csv.required("source")),
        gpu_(csv.required("gpu")),
        model_(csv.required("model")),
        dataset_(csv.required("dataset")),
        batch_(csv.required("batch")),
        precision_(csv.required("precision")),
        time_(csv.required("ms_per_step")),
        optimizer_(csv.optional("optimizer")) {
    for (const char* name : {"compiled", "software", "loader", "phases"}) conditions_.push_back(csv.optional(name));
  }

  /// The row that `csv` is at. @throws InputError, `file:line: ...`
  std::variant<StepRow, Unscored> row() {
    if (csv_.text(time_).empty()) return Unscored::no_time;
    StepRow row;
    row.sec = csv_.positive(time_) / 1e3;
    row.source = csv_.text(source_);
    row.gpu = csv_.text(gpu_);
    row.model = csv_.text(model_);
    row.precision = csv_.text(precision_);
    if (csv_.text(batch_).empty()) return Unscored::no_batch_size;
    row.batch = std::llround(csv_.positive(batch_));  // 32.0
    if (row.batch == 0) throw_bad_value(csv_.place("batch"), csv_.text(batch_), "a positive integer");
    const auto arithmetic = arithmetic_of(row.precision);
    const StepConditions conditions = this->conditions();
    if (const auto reason = set_device(devices_, arithmetic, row, own_)) return *reason;
    const std::string network = network_name(row.model, csv_.text(dataset_));
    const StepOrReason& found =
        step({row.model, network, row.batch, side_of(csv_.text(dataset_)), text_length(csv_.text(dataset_)),
              row.device.kind, arithmetic->graph, arithmetic->layout, std::string(csv_.text(optimizer_)), conditions});
    if (const Unscored* reason = std::get_if<Unscored>(&found)) return *reason;
    const Step& step = std::get<Step>(found);
    row.kernels = step.kernels;
    if (step.element_bytes != 0)
      row.device.byte_scale *= static_cast<double>(element_bytes(arithmetic->graph)) / step.element_bytes;
    row.input_bytes = step.input_bytes;
    row.machine.layout = arithmetic->layout.value_or(step.layout);
    set_conditions(row, conditions);
    row.network = network_key(network, step.side, conditions);
    row.network_family = family_of(network);
    return row;
  }

 private:
  /// @throws InputError, `file:line: ...`, for a word that none of the columns knows
  [[nodiscard]] StepConditions conditions() const {
    Workload workload;
    for (const CsvColumn& column : conditions_) {
      const std::string_view text = csv_.text(column);
      if (!text.empty()) workload_column(column.name).set(workload, text, csv_.place(column.name));
    }
    return conditions_of(workload);
  }

  const StepOrReason& step(const AskedStep& asked) {
    const auto known = steps_.find(asked);
    return known != steps_.end() ? known->second : steps_.emplace(asked, step_of(asked)).first->second;
  }

  CsvReader& csv_;
  const DeviceCatalogue& devices_;
  std::vector<Device>& own_;
  CsvColumn source_, gpu_, model_, dataset_, batch_, precision_, time_, optimizer_;
  std::vector<CsvColumn> conditions_;
  std::map<AskedStep, StepOrReason> steps_;
};

}  // namespace

ArithmeticKey arithmetic_key(Precision precision, const StepDevice& device, StepArithmetic arithmetic) {
  return {element_bytes(precision), device.conv_matrix_units, arithmetic == StepArithmetic::half};
}

StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic) {
  StepDevice step;
  const Precision asked = std::exchange(precision, computed_precision(device, precision));
  step.emulated_half = precision != asked;
  step.matrix = hardware_of(device, precision);
  step.conv_flops = device.convolution_flops(precision).value_or(step.matrix.flops);
  constexpr double rounding = 1.05;  // of data sheets: a rate above the vector units' is of matrix units
  const double vector = step.matrix.vector_flops * rounding;
  // Consumers' cards state a peak for TF32 that is no higher than that of the vector units.
  const bool tf32 = device.tf32_tflops && (precision == Precision::tf32 || precision == Precision::default_);
  step.matrix_units = step.matrix.flops > vector || (tf32 && precision == Precision::tf32);
  step.conv_matrix_units = step.conv_flops > vector || tf32;
  step.fp64 = precision == Precision::fp64;
  step.kind = device.kind;
  step.chip = chip_of(device);
  const KernelFamily family = step.matrix.family;
  const bool nvidia = family == KernelFamily::volta_turing || family == KernelFamily::ampere_ada;
  step.transposes = nvidia && step.conv_matrix_units && !step.fp64;
  step.winograd = !device.arch.starts_with("Hopper");
  step.host = usual_host(device.arch);
  step.byte_scale = arithmetic == StepArithmetic::half ? 0.5 : arithmetic == StepArithmetic::double_ ? 2 : 1;
  return step;
}

StepTable read_step_table(const std::string& path, const DeviceCatalogue& devices) {
  StepTable table;
  CsvReader csv(path);
  if (csv.optional("avg_time_mean").index) {
    for (const AggregateRow& run : read_aggregate(path)) add_to(table, row_of_run(run, devices, table.own_devices));
    return table;
  }
  StepReader reader(csv, devices, table.own_devices);
  while (csv.next()) add_to(table, reader.row());
  return table;
}

void StepTable::add(StepTable other) {
  std::move(other.rows.begin(), other.rows.end(), std::back_inserter(rows));
  for (const auto& [reason, count] : other.unscored) unscored[reason] += count;
  for (Device& device : other.own_devices) keep_own(own_devices, std::move(device));
}

StepTable read_step_tables(const std::vector<std::string>& paths, const DeviceCatalogue& devices) {
  StepTable all;
  std::set<std::filesystem::path> known;
  for (const std::string& path : paths) {
    std::error_code error;  // a pipe has no such name
    std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
    if (error) file = path;
    if (!known.insert(std::move(file)).second) throw InputError(path + " is named twice; its rows would count twice");
    all.add(read_step_table(path, devices));
  }
  return all;
}

}  // namespace perfpred
