// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "catalogue/device_table.h"
#include "optime/op_model_state.h"
#include "optime/probe.h"
#include "statistics/confidence.h"
#include "statistics/moments.h"
#include "step/op_rules.h"
#include "text/enum_names.h"
#include "text/files.h"

namespace perfpred {

struct OpTimeModel::Impl {
  OpModelState state;
};

namespace {

/// Files call devices by many names; the catalogue's are what predictions are asked for.
void use_catalogue_names(OpModelState& state) {
  for (auto& model : state.kernels.classes) {
    if (!model) continue;
    std::map<std::string, KnownDevice> devices;
    for (auto& [name, device] : model->devices) {
      const auto [listed, is_new] = devices.emplace(canonical_device(name), std::move(device));
      if (is_new) continue;
      state.notes.push_back(fmt::format("{}: rows of {} are of {}, which has rows by another name; these count",
                                        formula(model->kind).name, name, listed->first));
    }
    model->devices = std::move(devices);
  }
}

/// The measured class that an operator of a step is a call of; nothing for others.
std::optional<Kernel> measured_class(const OpGraph& step, const StepKernel& part, bool half, bool matrix_units) {
  const Op& op = step.ops()[part.op];
  const bool of_rnn = op.kind == OpKind::rnn || op.kind == OpKind::rnn_backward;
  if (part.group == StepGroup::product && (step.outputs(op).size() == 1 || of_rnn)) {
    Kernel kernel;
    kernel.kind = half ? KernelClass::gemm_bf16 : part.batch > 1 ? KernelClass::bmm : KernelClass::linear;
    if (!half && matrix_units) return std::nullopt;  // the classes in single precision were measured without TF32
    kernel.batch = part.batch;
    kernel.m = part.rows;
    kernel.n = part.width;
    kernel.k = part.depth;
    kernel.element_bytes = half ? 2 : 4;
    return kernel;
  }
  const bool softmax = op.kind == OpKind::softmax, norm = op.kind == OpKind::layer_norm;
  if (!softmax && !norm) return std::nullopt;
  const Shape& shape = step.shape(step.outputs(op)[0]);
  if (shape.rank() == 0 || shape.numel() == 0) return std::nullopt;
  Kernel kernel;
  kernel.kind = softmax ? KernelClass::softmax : KernelClass::layernorm;
  kernel.n = static_cast<double>(shape.back());
  kernel.m = static_cast<double>(shape.numel()) / kernel.n;
  kernel.element_bytes = static_cast<double>(size_of(op.type));
  return kernel;
}

/// What is known of a device in a precision: from its probe, else the mean over its machines, except for the host.
struct KnownMachine {
  bool measured = false;  ///< whether steps or a probe in this precision say something of the device
  bool in_layout = true;  ///< whether these had the layout that is asked for; a probe's and single operators have nchw
  StepParameters parameters{};
  MachineEffects effects;
  /// Effects of the hosts that it may have. A probe knows its host, in any precision. Without one, all usual hosts are
  /// possible, and those that the device was measured with. Of these, the one closest to the usual host is expected.
  double fastest_host = HUGE_VAL, slowest_host = -HUGE_VAL;

  void has_host(double effect) { effects.host = fastest_host = slowest_host = effect; }
};

/// @param name  that the device was measured by; empty if it was not
/// @param layout  of images; what was measured in another counts where nothing was in this one
KnownMachine known_machine(const StepModel& model, const std::string& name, const Device& device, Precision precision,
                           Layout layout) {
  KnownMachine known;
  known.parameters = model.parameters;
  known.in_layout = layout == Layout::nchw;
  if (name.empty()) return known;
  const std::string probe = probe_machine(name, precision);
  if (model.machines.count(probe) != 0) {
    known.measured = true;
    known.parameters = model.parameters_of(probe);
    known.effects = model.effects_of(probe);
    known.has_host(known.effects.host);
    return known;
  }
  const auto same_rates = [&](Precision other) {  // `default` is fp32 on devices without TF32
    return other == precision || (device.matrix_flops(other) == device.matrix_flops(precision) &&
                                  device.convolution_flops(other) == device.convolution_flops(precision));
  };
  Moments probed_hosts;
  std::vector<std::string> machines;
  bool in_layout = false;  // whether any of these was measured in it
  for (const auto& [machine, effects] : model.machines) {
    const std::size_t first = machine.find('|'), last = machine.rfind('|');
    if (first == std::string::npos || last <= first) continue;
    if (canonical_device(machine.substr(first + 1, last - first - 1)) != name) continue;
    const auto measured = step_precision(machine.substr(last + 1));
    if (!measured) continue;
    if (machine == probe_machine(name, *measured)) probed_hosts.add(effects.host);
    if (!same_rates(*measured)) continue;
    const bool fits = step_layout(machine) == layout;
    if (in_layout && !fits) continue;
    if (fits && !in_layout) machines.clear();
    in_layout = fits;
    machines.push_back(machine);
  }
  double count = 0;
  for (const std::string& machine : machines) {
    ++count;
    const auto towards = [&](double& value, double other) { value += (other - value) / count; };
    const MachineEffects effects = model.effects_of(machine);
    const StepParameters& parameters = model.parameters_of(machine);
    for (std::size_t i = 0; i < step_parameters; ++i) towards(known.parameters[i], parameters[i]);
    towards(known.effects.compute, effects.compute);
    towards(known.effects.memory, effects.memory);
    known.fastest_host = std::min(known.fastest_host, effects.host);
    known.slowest_host = std::max(known.slowest_host, effects.host);
  }
  known.measured = count > 0;
  if (known.measured) known.in_layout = in_layout;
  if (probed_hosts.n > 0) {  // relative to the parameters of all machines
    known.has_host(probed_hosts.mean() + host_effect(known.parameters, 1) - host_effect(model.parameters, 1));
  } else if (known.measured) {
    known.effects.host = std::clamp(0.0, known.fastest_host, known.slowest_host);
    known.fastest_host = std::min(known.fastest_host, -z90 * host_deviation);
    known.slowest_host = std::max(known.slowest_host, z90 * host_deviation);
  }
  return known;
}

/// How far a machine's effects may be from what is expected of it, standard deviations: of one that was not measured,
/// and of others. docs/notes/optime.md says how they were chosen.
constexpr MachineEffects unknown_deviation = {0.5, 0.4, 0.3}, known_deviation = {0.05, 0.05, 0.1};

/// The device of this name with the rates that its effects were learned for; null if they are not known.
const Device* learned_device(const OpModelState& state, const std::string& name) {
  const auto& kept = state.measured.devices;
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const Device& d) { return d.name == name; });
  if (found != kept.end()) return &*found;
  const ResolvedDevice listed = built_in_devices().resolve(name);
  return listed.origin == DeviceOrigin::row ? listed.device : nullptr;
}

/// All that formulas read of a device. In a user's row it may differ from that of the device of the same name.
auto rates_of(const Device& device, Precision asked) {
  const Precision precision = computed_precision(device, asked);
  return std::tuple(precision, device.kind, std::string_view(device.arch), device.matrix_flops(precision),
                    device.convolution_flops(precision), device.vector_flops(precision), device.mem_bw_gbs,
                    device.l2_mb, device.sms, device.boost_mhz, device.tdp_w);
}

/// @throws InputError for counts that a caller gave an operator and that none has
void check_counts(const OpGraph& step) {
  const auto fits = [](double count) { return count >= 0 && count <= max_counted; };
  for (const Op& op : step.ops()) {
    const auto read = static_cast<double>(op.bytes_read), written = static_cast<double>(op.bytes_written);
    if (fits(op.flops) && fits(read) && fits(written)) continue;
    throw InputError(fmt::format("operator \"{}\": {} FLOPs, {} bytes read, {} bytes written: not between 0 and {}",
                                 step.name(op), op.flops, read, written, max_counted));
  }
}

/// The rates of convolutions and normalisations are of NVIDIA's devices.
bool knows_family(KernelFamily family) { return family != KernelFamily::none && family != KernelFamily::cdna; }

}  // namespace

void scale(StepTime& time, double factor) {
  for (double* sec : {&time.sec.p05, &time.sec.p50, &time.sec.p95, &time.device_sec, &time.host_sec}) *sec *= factor;
  for (TimeTerm& term : time.costliest) term.sec *= factor;
}

std::string_view to_string(Provenance provenance) { return enumerator_name_of<Provenance::bytes>(provenance); }

OpTimeModel OpTimeModel::fit(const std::string& ops_dir, const std::vector<std::string>& steps,
                             const std::string& layers, const DeviceCatalogue& devices) {
  auto impl = std::make_unique<Impl>();
  OpModelState& state = impl->state;
  if (ops_dir.empty() && layers.empty())
    throw InputError("an op model is fitted on operators or layers; none are given");
  if (!ops_dir.empty()) {
    const OpFolder folder = read_op_folder(ops_dir);
    state.kernels = KernelModels::fit(pointers_to(folder.rows), folder.gpus);
    state.notes = folder.skipped;
  }
  for (const auto& model : state.kernels.classes) {
    if (!model) continue;
    for (const std::string& device : model->set_aside) {
      state.notes.push_back(
          fmt::format("{}: rows of {} are set aside: far slower than its family", formula(model->kind).name, device));
    }
  }
  use_catalogue_names(state);
  if (!steps.empty()) {
    const StepTable table = read_step_tables(steps, devices);
    state.steps = StepModel::fit(pointers_to(table.rows));
    state.measured.devices = table.own_devices;
    for (const auto& [reason, count] : table.unscored) {
      state.notes.push_back(fmt::format("{}: {} rows left out: {}", fmt::join(steps, ", "), count, reason));
    }
  }
  if (!layers.empty()) {
    const std::vector<Device> of_steps = std::move(state.measured.devices);
    state.measured = fit_layers(layers, state.steps.parameters, devices);
    for (const Device& device : of_steps) keep_own(state.measured.devices, device);
    state.notes.insert(state.notes.end(), state.measured.notes.begin(), state.measured.notes.end());
  }
  return OpTimeModel(std::move(impl));
}

const OpModelState& OpModelAccess::state(const OpTimeModel& model) { return model.impl_->state; }

OpTimeModel OpModelAccess::model(OpModelState state) {
  auto impl = std::make_unique<OpTimeModel::Impl>();
  impl->state = std::move(state);
  return OpTimeModel(std::move(impl));
}

const OpTimeModel& OpTimeModel::standard() {
  static const OpTimeModel model = OpModelAccess::model(load_op_model({}));
  return model;
}

OpTimeModel OpTimeModel::load(const std::string& path) {
  if (path.empty()) throw InputError("the path of an op model is empty");
  return OpModelAccess::model(load_op_model(path));
}

void OpTimeModel::save(const std::string& path) const { write_file(path, to_json(impl_->state).dump() + "\n"); }

StepTime OpTimeModel::predict(const OpGraph& step, const Device& device, Precision precision, bool cuda_graph) const {
  return OpModelAccess::predict(*this, execute(step, device.kind), device, precision, cuda_graph, {}, nullptr);
}

StepTime OpModelAccess::predict(const OpTimeModel& model, const ExecutedStep& executed, const Device& device,
                                Precision precision, bool cuda_graph, const std::string& network,
                                MachineEffects* slopes) {
  const OpGraph& step = executed.graph();
  const OpModelState& state = model.impl_->state;
  const Device* learned = learned_device(state, device.name);
  StepDevice on = step_device(device, precision, StepArithmetic::as_graph);
  if (learned != nullptr && rates_of(device, precision) != rates_of(*learned, precision)) on.matrix.name.clear();
  const auto layers = state.measured.rates.find(rates_key(on.matrix.name, precision));
  const LayerRates* own = layers == state.measured.rates.end() ? nullptr : &layers->second;
  check_counts(step);
  const std::vector<StepKernel> kernels = step_kernels(executed);
  const KnownMachine known = known_machine(state.steps, on.matrix.name, device, precision, step.layout());
  const bool hosts_differ = known.slowest_host > known.fastest_host;
  const auto with_host = [&](double host) {
    const MachineEffects& effects = known.effects;
    return StepFormula(known.parameters, on, {effects.compute, effects.memory, cuda_graph ? std::log(1e-9) : host});
  };
  const Provenance by_steps = known.measured                   ? Provenance::probe
                              : knows_family(on.matrix.family) ? Provenance::family
                                                               : Provenance::other_family;
  const bool half = precision == Precision::bf16 || precision == Precision::fp16;
  // What is known of the network was learned of the formula on NVIDIA's devices; it says nothing of others' times.
  const bool formula_times = own == nullptr && knows_family(on.matrix.family);
  const KnownNetwork of_network = state.steps.known(formula_times ? network : std::string(),
                                                    arithmetic_key(precision, on, StepArithmetic::as_graph));
  const double step_width = std::hypot(of_network.width, known.measured ? 0 : state.steps.machine_width) *
                            (by_steps == Provenance::other_family ? 1.5 : 1);

  std::vector<double> seconds;
  const StepFormula formula = with_host(known.effects.host);
  if (own != nullptr) {
    own->kernel_seconds(kernels, on, seconds);
  } else {
    for (const StepKernel& kernel : kernels) {
      seconds.push_back(formula.seconds(kernel));
      // Efficiencies may exceed 1: the cards that they were learned on do not all sustain their peak.
      const bool product = is_conv_or_matmul(kernel.kind) && !kernel.three_by_three;
      if (known.measured || !product) continue;
      const double peak = is_convolution(kernel.kind) ? on.conv_flops : on.matrix.flops;
      seconds.back() = std::max(seconds.back(), kernel.flops / peak);
    }
  }
  std::vector<Provenance> rests_on(kernels.size(), by_steps);
  StepTime time;
  time.in_layout = known.in_layout;
  double shared = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    double width = step_width;
    if (kernels[i].group == StepGroup::unknown) {
      rests_on[i] = Provenance::bytes;
      width = std::log(5.0);  // an operator may move its bytes several times, or compute on them
    } else if (own != nullptr && own->knows(kernels[i].group)) {
      rests_on[i] = Provenance::probe;
      width = own->groups.at(kernels[i].group).width;
    } else if (on.matrix.family != KernelFamily::none && !on.fp64) {
      const auto kernel = measured_class(step, kernels[i], half, on.matrix_units);
      const KernelModel* of_class = kernel ? state.kernels.of(kernel->kind) : nullptr;
      if (of_class != nullptr) {
        const KernelEstimate estimate = of_class->predict(*kernel, on.matrix, false);
        seconds[i] = std::exp(estimate.log_sec);
        rests_on[i] = estimate.provenance;
        width = estimate.half_width();
      }
    }
    time.device_sec += seconds[i];
    shared += seconds[i] * width;
  }
  StepClocks clocks = formula.clocks(kernels, seconds);
  // A CPU dispatches what it computes: the layers' times hold both.
  const bool one_clock = own != nullptr && device.kind == DeviceKind::cpu;
  if (one_clock) clocks = {clocks.device_sec, clocks.device_sec, 0};
  const double total = clocks.total_sec;
  if (slopes != nullptr) {
    MachineEffects deviation = known.measured || own != nullptr ? known_deviation : unknown_deviation;
    deviation.host = known.fastest_host == known.slowest_host ? known_deviation.host : unknown_deviation.host;
    const MachineEffects by = formula.slopes(kernels, seconds);
    *slopes = {by.compute * deviation.compute, by.memory * deviation.memory, one_clock ? 0 : by.host * deviation.host};
  }
  time.host_sec = clocks.host_sec;
  // Errors of one device's kernels go together; the host's are a factor of two.
  const double on_device = std::min(1.0, time.device_sec / total);
  double host_width = (1 - on_device) * std::log(2.0);
  if (hosts_differ && !one_clock) {
    const auto log_with = [&](double host) {
      return std::log(with_host(host).clocks(kernels, seconds).total_sec / total);
    };
    host_width = std::max({host_width, log_with(known.slowest_host), -log_with(known.fastest_host)});
  }
  const double width = std::hypot(time.device_sec > 0 ? on_device * shared / time.device_sec : 0, host_width, 0.08);
  time.sec = {total * std::exp(-width), total, total * std::exp(width)};

  std::vector<std::size_t> order(kernels.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] > seconds[b]; });
  time.provenance = by_steps;
  double covered = 0;
  for (const std::size_t i : order) {
    const std::string_view name = step.name(step.ops()[kernels[i].op]);
    auto term = std::find_if(time.costliest.begin(), time.costliest.end(),
                             [&](const TimeTerm& other) { return other.op == name; });
    if (term == time.costliest.end()) term = time.costliest.insert(term, TimeTerm{std::string(name)});
    term->sec += seconds[i];
    if (covered == 0) time.provenance = rests_on[i];
    if (covered < 0.9 * time.device_sec) time.provenance = std::max(time.provenance, rests_on[i]);
    covered += seconds[i];
  }
  std::sort(time.costliest.begin(), time.costliest.end(),
            [](const TimeTerm& a, const TimeTerm& b) { return a.sec > b.sec; });
  constexpr std::size_t shown_ops = 10;
  if (time.costliest.size() > shown_ops) time.costliest.resize(shown_ops);
  scale(time, std::exp(of_network.log_factor));
  return time;
}

std::span<const Device> OpTimeModel::devices() const& { return impl_->state.measured.devices; }

std::vector<std::string> OpTimeModel::notes() const { return impl_->state.notes; }

OpTimeModel::OpTimeModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpTimeModel::OpTimeModel(OpTimeModel&&) noexcept = default;
OpTimeModel& OpTimeModel::operator=(OpTimeModel&&) noexcept = default;
OpTimeModel::~OpTimeModel() = default;

}  // namespace perfpred
