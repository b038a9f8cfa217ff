// SPDX-License-Identifier: Apache-2.0
#include "optime/step_prediction.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "optime/device_order.h"
#include "optime/interval_widths.h"
#include "optime/known_machine.h"
#include "statistics/confidence.h"
#include "step/op_rules.h"

namespace perfpred {
namespace {

/// Half width of the 90 % interval of log time of an operator whose work is not known: it may move its bytes several
/// times, or compute on them. A factor of five, taken.
const double unknown_operator_half_width = std::log(5.0);
/// Share of the device's time whose worst provenance is the step's (docs/predict.md, Read the answer).
constexpr double provenance_share = 0.9;
constexpr std::size_t shown_ops = 10;

/// How far a machine's effects may be from what is expected of it, standard deviations: of one that was not measured,
/// and of others (docs/notes/optime.md, Runs that correct the op model).
constexpr MachineEffects unknown_deviation = {0.5, 0.4, 0.3}, known_deviation = {0.05, 0.05, 0.1};

/// @throws InputError for a step that is too large, or counts that a caller gave an operator and that none has
void check_counts(const OpGraph& step) {
  const auto fits = [](double count) { return count >= 0 && count <= max_counted; };
  for (const Op& op : step.ops()) {
    const auto read = static_cast<double>(op.bytes_read), written = static_cast<double>(op.bytes_written);
    if (fits(op.flops) && fits(read) && fits(written)) continue;
    const bool too_large = std::max({op.flops, read, written}) > max_counted;
    throw InputError(fmt::format(
        "{}operator \"{}\" has {:.3g} FLOPs, {:.3g} bytes read, {:.3g} bytes written, which are "
        "not between 0 and {}",
        too_large ? "the step is too large: its " : "", step.name(op), op.flops, read, written, max_counted));
  }
}

/// The rates of convolutions and normalisations are of NVIDIA's devices.
bool knows_family(KernelFamily family) { return family != KernelFamily::none && family != KernelFamily::cdna; }

/// What a device's kernels are timed by in one precision.
struct Rates {
  Precision precision = Precision::fp32;
  const Device* device = nullptr;
  StepDevice on;
  KnownMachine machine;
  const LayerRates* layers = nullptr;                ///< learned from layers of the device; null: none were measured
  Provenance provenance = Provenance::other_family;  ///< of the formula's times
  double width = 0;                                  ///< half width of the 90 % interval of their logarithms
  double log_factor = 0;                             ///< of the network's steps beside the formula

  /// A CPU dispatches what it computes: times of its layers hold both.
  [[nodiscard]] bool one_clock() const { return layers != nullptr && on.kind == DeviceKind::cpu; }
  [[nodiscard]] StepFormula formula(double host_effect) const {
    return {machine.parameters, on, {machine.effects.compute, machine.effects.memory, host_effect}};
  }
};

/// Of the images, where most of what is multiplied are convolutions; to other steps it is nothing.
Layout layout_of(const OpGraph& step) {
  double convolved = 0, all = 0;
  for (const Op& op : step.ops()) {
    if (!is_conv_or_matmul(op.kind)) continue;
    all += op.flops;
    if (is_convolution(op.kind)) convolved += op.flops;
  }
  return convolved > all / 2 ? step.layout() : Layout::nchw;
}

/// @param device  that is asked for, or the same with more of its limits
StepDevice device_of(const LearnedModel& model, const StepQuestion& asked, const Device& device, Precision precision) {
  StepDevice on = step_device(device, precision, StepArithmetic::as_graph);
  on.replays = asked.cuda_graph || is_compiled(asked.conditions);
  if (!model.devices.hold_for(asked.device, asked.precision)) on.matrix.name.clear();
  return on;
}

Rates rates_for(const LearnedModel& model, const StepQuestion& asked, Precision precision) {
  const OpModelState& state = model.state;
  Rates rates;
  rates.precision = precision;
  rates.device = &asked.device;
  rates.on = device_of(model, asked, asked.device, precision);
  const std::string name = rates.on.matrix.name;
  if (const auto found = state.measured.rates.find({name, precision}); found != state.measured.rates.end())
    rates.layers = &found->second;
  rates.machine =
      known_machine(state.steps, {{}, name, precision, StepArithmetic::as_graph, layout_of(asked.step.graph())},
                    rates.on.chip, arithmetic_key(precision, rates.on, StepArithmetic::as_graph));
  if (!rates.machine.measured) rates.on = device_of(model, asked, with_power_limit(asked.device, precision), precision);
  const bool family = knows_family(rates.on.matrix.family);
  rates.provenance = rates.machine.measured ? Provenance::probe
                     : family               ? Provenance::family
                                            : Provenance::other_family;
  // What is known of the network was learned of the formula on NVIDIA's devices; it says nothing of others' times.
  const KnownNetwork network =
      state.steps.known(rates.layers == nullptr && family ? asked.network : NetworkKey{},
                        arithmetic_key(precision, rates.on, StepArithmetic::as_graph), asked.conditions.phases);
  rates.log_factor = network.log_factor + state.steps.of_conditions(words_of(asked.conditions));
  rates.width =
      std::hypot(network.width, rates.machine.measured ? state.steps.source_width : state.steps.machine_width) *
      (rates.provenance == Provenance::other_family ? other_family_factor : 1);
  return rates;
}

/// Of each kernel.
struct KernelTimes {
  std::vector<double> sec;
  std::vector<double> width;  ///< half width of the 90 % interval of log time
  std::vector<Provenance> rests_on;
};

/// Efficiencies may exceed 1: the cards that they were learned on do not all sustain their peak. A product on
/// matrix units, or on a device that was not measured, takes at least its time at the peak, and so does an operator
/// whose FLOPs only a rule tells.
double least_seconds(const StepKernel& kernel, const Rates& rates) {
  if (kernel.kind == OpKind::custom) return kernel.flops / rates.on.matrix.vector_flops;
  const bool convolves = is_convolution(kernel.kind);
  const bool on_units = convolves ? rates.on.conv_matrix_units : rates.on.matrix_units;
  if ((rates.machine.measured && !on_units) || !is_conv_or_matmul(kernel.kind) || kernel.three_by_three) return 0;
  return kernel.flops / (convolves ? rates.on.conv_flops : rates.on.matrix.flops);
}

std::vector<double> formula_seconds(const Rates& rates, const StepFormula& formula,
                                    std::span<const StepKernel> kernels) {
  if (rates.layers != nullptr) return rates.layers->kernel_seconds(kernels, rates.on);
  std::vector<double> seconds;
  seconds.reserve(kernels.size());
  for (const StepKernel& kernel : kernels) {
    const bool is_first = kernel.same_as == seconds.size();
    seconds.push_back(is_first ? std::max(formula.seconds(kernel), least_seconds(kernel, rates))
                               : seconds[kernel.same_as]);
  }
  return seconds;
}

/// The precision in which a kernel computes: of a product that of its own operands.
Precision precision_of(const StepKernel& kernel, Precision asked) {
  return is_conv_or_matmul(kernel.kind) ? product_precision(kernel.type, asked) : asked;
}

/// A product as a call of a measured class; nothing where the class was measured in another arithmetic.
std::optional<Kernel> measured_product(const StepKernel& part, const Rates& rates) {
  const bool half = is_half(rates.precision);
  if (!half && rates.on.matrix_units) return std::nullopt;  // classes in single precision were measured without TF32
  Kernel kernel;
  kernel.kind = half ? KernelClass::gemm_bf16 : part.batch > 1 ? KernelClass::bmm : KernelClass::linear;
  kernel.batch = part.batch;
  kernel.m = part.rows;
  kernel.n = part.width;
  kernel.k = part.depth;
  kernel.element_bytes = half ? 2 : 4;
  return kernel;
}

/// The call of a measured class that a kernel of a step is; nothing for others.
std::optional<Kernel> measured_class(const OpGraph& step, const StepKernel& part, const Rates& rates) {
  const Op& op = step.ops()[part.op];
  const bool of_rnn = op.kind == OpKind::rnn || op.kind == OpKind::rnn_backward;
  if (part.group == StepGroup::product && (step.outputs(op).size() == 1 || of_rnn))
    return measured_product(part, rates);
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

/// Devices with rows in a class beside one without: those that it is at least as good as, and the reverse.
struct Neighbours {
  std::vector<Hardware> worse, better;
};

Neighbours neighbours_in(const KernelModel& model, const LearnedDevices& devices, const Device& device,
                         Precision precision) {
  Neighbours neighbours;
  if (model.devices.count(device.name) != 0) return neighbours;
  for (const auto& [name, known] : model.devices) {
    const Device* other = devices.find(name);
    if (other == nullptr || !other->matrix_flops(precision)) continue;
    if (is_at_least(device, *other)) neighbours.worse.push_back(hardware_of(*other, precision));
    if (is_at_least(*other, device)) neighbours.better.push_back(hardware_of(*other, precision));
  }
  return neighbours;
}

/// A sum of many terms takes no longer than its halves one after the other.
/// @param sec  of the whole sum
double seconds_in_parts(const KernelModel& model, const Kernel& kernel, const Hardware& on, double sec) {
  constexpr double long_sum = 8192;  // docs/notes/optime.md, What was worth how much
  if (kernel.kind == KernelClass::softmax || kernel.kind == KernelClass::layernorm) return sec;
  Kernel part = kernel;
  for (double parts = 2; part.k > long_sum; parts *= 2) {
    part.k /= 2;
    sec = std::min(sec, parts * std::exp(model.predict(part, on, false).log_sec));
  }
  return sec;
}

/// A device without rows is expected to be no slower than a worse one with rows, and no faster than a better one.
/// @param log_sec  that the model says of the kernel on the device itself
double seconds_of_class(const KernelModel& model, const Kernel& kernel, const Hardware& on, double log_sec,
                        const Neighbours& neighbours) {
  const auto seconds_on = [&](const Hardware& other) {
    return seconds_in_parts(model, kernel, other, std::exp(model.predict(kernel, other, false).log_sec));
  };
  double sec = seconds_in_parts(model, kernel, on, std::exp(log_sec));
  for (const Hardware& worse : neighbours.worse) sec = std::min(sec, seconds_on(worse));
  for (const Hardware& better : neighbours.better) sec = std::max(sec, seconds_on(better));
  return sec;
}

KernelTimes kernel_times(const LearnedModel& model, const OpGraph& step, const Rates& rates, const StepFormula& formula,
                         std::span<const StepKernel> kernels) {
  KernelTimes times{formula_seconds(rates, formula, kernels), std::vector(kernels.size(), rates.width),
                    std::vector(kernels.size(), rates.provenance)};
  std::map<KernelClass, Neighbours> neighbours_by_class;
  std::map<Kernel, std::pair<KernelEstimate, double>> known;  // with the seconds; networks repeat their blocks
  const bool has_classes = rates.on.matrix.family != KernelFamily::none && !rates.on.fp64;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    // What a rule counts is taken to move its bytes as elementwise operators do.
    const StepGroup group = kernels[i].kind == OpKind::custom ? StepGroup::elementwise : kernels[i].group;
    if (group == StepGroup::unknown) {
      times.rests_on[i] = Provenance::bytes;
      times.width[i] = unknown_operator_half_width;
    } else if (rates.layers != nullptr && rates.layers->knows(group)) {
      times.rests_on[i] = Provenance::probe;
      times.width[i] = rates.layers->groups.at(group).width;
    } else if (has_classes) {
      const auto kernel = measured_class(step, kernels[i], rates);
      const KernelModel* of_class = kernel ? model.state.kernels.of(kernel->kind) : nullptr;
      if (of_class == nullptr) continue;
      const auto [found, is_new] = known.try_emplace(*kernel);
      auto& [estimate, sec] = found->second;
      if (is_new) {
        const auto [neighbours, is_first] = neighbours_by_class.try_emplace(kernel->kind);
        if (is_first) neighbours->second = neighbours_in(*of_class, model.devices, *rates.device, rates.precision);
        estimate = of_class->predict(*kernel, rates.on.matrix, false);
        sec = seconds_of_class(*of_class, *kernel, rates.on.matrix, estimate.log_sec, neighbours->second);
      }
      times.sec[i] = sec;
      if (is_half(rates.precision) && kernels[i].group == StepGroup::product && !kernels[i].aligned)
        times.sec[i] *= std::exp(rates.machine.parameters.misaligned);
      times.rests_on[i] = estimate.provenance;
      times.width[i] = estimate.half_width();
    }
  }
  return times;
}

/// Times again the products of operands in another type than the step's own, one by one: they are few.
void time_others(const LearnedModel& model, const StepQuestion& asked, std::span<const StepKernel> kernels,
                 KernelTimes& times) {
  std::map<Precision, Rates> others;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Precision own = precision_of(kernels[i], asked.precision);
    if (own == asked.precision) continue;
    auto known = others.find(own);
    if (known == others.end()) known = others.emplace(own, rates_for(model, asked, own)).first;
    const Rates& rates = known->second;
    StepKernel kernel = kernels[i];
    kernel.same_as = 0;
    const KernelTimes alone = kernel_times(model, asked.step.graph(), rates, rates.formula(rates.machine.effects.host),
                                           std::span(&kernel, 1));
    times.sec[i] = alone.sec[0];
    times.width[i] = alone.width[0];
    times.rests_on[i] = alone.rests_on[0];
  }
}

/// Of a step with several batches: each further one takes as long as the slower clock.
StepClocks clocks_of(const OpGraph& step, const Rates& rates, const StepFormula& formula,
                     const std::vector<StepKernel>& kernels, const KernelTimes& times) {
  StepClocks clocks = formula.clocks(kernels, times.sec);
  if (step.repeats() > 1) {
    const auto update = static_cast<std::size_t>(
        std::find_if(kernels.begin(), kernels.end(),
                     [&](const StepKernel& kernel) { return step.ops()[kernel.op].phase == Phase::optimizer; }) -
        kernels.begin());
    const StepClocks batch =
        formula.clocks(std::span(kernels).first(update), std::span<const double>(times.sec).first(update));
    const auto more = static_cast<double>(step.repeats() - 1);
    clocks.device_sec += more * batch.device_sec;
    clocks.host_sec += more * batch.host_sec;
    clocks.total_sec += more * std::max(batch.device_sec, batch.host_sec);
  }
  return rates.one_clock() ? StepClocks{clocks.device_sec, clocks.device_sec, 0} : clocks;
}

/// A step on one device.
struct TimedStep {
  Rates rates;
  KernelTimes times;
  StepClocks clocks;
};

/// Of the step's log time. Errors of one device's kernels go together; the host's are a factor of two, or what the
/// hosts that the device may have differ by.
Widths widths_of(const OpGraph& step, const TimedStep& timed, const std::vector<StepKernel>& kernels) {
  const Rates& rates = timed.rates;
  const KernelTimes& times = timed.times;
  const StepClocks& clocks = timed.clocks;
  const double total = clocks.total_sec, on_device = std::min(1.0, clocks.device_sec / total);
  double host_width = (1 - on_device) * unknown_half_width;
  const HostRange& hosts = rates.machine.hosts;
  if (hosts.slowest > hosts.fastest && !rates.one_clock()) {
    const auto log_with = [&](double host) {
      return std::log(clocks_of(step, rates, rates.formula(host), kernels, times).total_sec / total);
    };
    host_width = std::max({host_width, log_with(hosts.slowest), -log_with(hosts.fastest)});
  }
  const double of_kernels = std::inner_product(times.sec.begin(), times.sec.end(), times.width.begin(), 0.0);
  const double kernels_sec = std::accumulate(times.sec.begin(), times.sec.end(), 0.0);
  return {.model = std::hypot(kernels_sec > 0 ? on_device * of_kernels / kernels_sec : 0, label_noise),
          .host = host_width};
}

/// The worst provenance among the kernels that take most of the time.
Provenance provenance_of(const Rates& rates, const StepClocks& clocks, const KernelTimes& times,
                         const std::vector<std::size_t>& longest_first) {
  if (longest_first.empty()) return rates.provenance;
  Provenance worst = times.rests_on[longest_first.front()];
  double covered = 0;
  for (const std::size_t i : longest_first) {
    if (covered >= provenance_share * clocks.device_sec) break;
    worst = std::max(worst, times.rests_on[i]);
    covered += times.sec[i];
  }
  return worst;
}

/// The wait for the host, the operators that take longest, the longest first, and the others.
std::vector<TimeTerm> parts_of(const OpGraph& step, const std::vector<StepKernel>& kernels, const TimedStep& timed,
                               const std::vector<std::size_t>& longest_first) {
  const auto& [rates, times, clocks] = timed;
  std::vector<TimeTerm> terms;
  for (const std::size_t i : longest_first) {
    const std::string_view name = step.name(step.ops()[kernels[i].op]);
    auto term = std::find_if(terms.begin(), terms.end(), [&](const TimeTerm& other) { return other.op == name; });
    if (term == terms.end()) term = terms.insert(term, TimeTerm{std::string(name)});
    term->sec += times.sec[i] * static_cast<double>(step.times(step.ops()[kernels[i].op]));
  }
  std::sort(terms.begin(), terms.end(), [](const TimeTerm& a, const TimeTerm& b) { return a.sec > b.sec; });
  if (terms.size() > shown_ops) terms.resize(shown_ops);
  const double waiting = clocks.total_sec - clocks.device_sec;
  if (waiting > 0) terms.insert(terms.begin(), {std::string(host_part), waiting});
  double rest = clocks.total_sec;
  for (const TimeTerm& term : terms) rest -= term.sec;
  constexpr double rounding = 1e-9;
  if (rest > rounding * clocks.total_sec) terms.push_back({std::string(other_part), rest});
  return terms;
}

MachineEffects slopes_of(const Rates& rates, const StepFormula& formula, const std::vector<StepKernel>& kernels,
                         const KernelTimes& times) {
  const MachineEffects by = formula.slopes(kernels, times.sec);
  const MachineEffects& device =
      rates.machine.measured || rates.layers != nullptr ? known_deviation : unknown_deviation;
  const double host = rates.machine.hosts.probed ? known_deviation.host : unknown_deviation.host;
  return {by.compute * device.compute, by.memory * device.memory, rates.one_clock() ? 0 : by.host * host};
}

/// @param log_host  logarithm of the seconds in which the host dispatches an operator; empty: as expected of the device
TimedStep timed(const LearnedModel& model, const StepQuestion& asked, const std::vector<StepKernel>& kernels,
                std::optional<double> log_host) {
  TimedStep step{rates_for(model, asked, asked.precision), {}, {}};
  KnownMachine& machine = step.rates.machine;
  if (log_host) machine.effects.host = host_effect(machine.parameters, step.rates.on, *log_host);
  const StepFormula formula = step.rates.formula(machine.effects.host);
  step.times = kernel_times(model, asked.step.graph(), step.rates, formula, kernels);
  time_others(model, asked, kernels, step.times);
  step.clocks = clocks_of(asked.step.graph(), step.rates, formula, kernels, step.times);
  return step;
}

/// Seconds of the step, no slower and no faster than measured devices of the architecture say, all with its host.
double in_order(const LearnedModel& model, const StepQuestion& asked, const std::vector<StepKernel>& kernels,
                const TimedStep& step) {
  const KnownMachine& own = step.rates.machine;
  const double sec = step.clocks.total_sec;
  if (asked.device.kind != DeviceKind::gpu || step.rates.layers != nullptr || own.hosts.probed) return sec;
  std::set<const Device*> others;
  for (const auto& [key, machine] : model.state.steps.machines) {
    if (key.probe || machine.chip.arch != asked.device.arch) continue;
    const Device* measured = model.devices.find(key.device);
    if (measured != nullptr && measured->name != asked.device.name) others.insert(measured);
  }
  return ordered_seconds(asked.device, sec, own.measured, others, [&](const Device& other) -> std::optional<double> {
    if (!other.matrix_flops(computed_precision(other, asked.precision))) return std::nullopt;
    const StepQuestion question{asked.step, other, asked.precision, asked.cuda_graph, asked.conditions, asked.network};
    const TimedStep there = timed(model, question, kernels, log_host(own.parameters, step.rates.on, own.effects.host));
    return there.rates.machine.measured ? std::optional(there.clocks.total_sec) : std::nullopt;
  });
}

/// The longest first.
std::vector<std::size_t> by_length(const KernelTimes& times) {
  std::vector<std::size_t> order(times.sec.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times.sec[a] > times.sec[b]; });
  return order;
}

/// Some kernels of a step, one after the other.
struct KernelPart {
  TimedStep timed;
  std::vector<StepKernel> kernels;
};

template <class Wanted>
KernelPart part_of(const OpGraph& step, const KernelPart& whole, const Wanted& wanted) {
  KernelPart part{{whole.timed.rates, {}, {}}, {}};
  KernelTimes& times = part.timed.times;
  for (std::size_t i = 0; i < whole.kernels.size(); ++i) {
    if (!wanted(whole.kernels[i].op)) continue;
    part.kernels.push_back(whole.kernels[i]);
    times.sec.push_back(whole.timed.times.sec[i]);
    times.width.push_back(whole.timed.times.width[i]);
    times.rests_on.push_back(whole.timed.times.rests_on[i]);
  }
  const Rates& rates = part.timed.rates;
  part.timed.clocks = clocks_of(step, rates, rates.formula(rates.machine.effects.host), part.kernels, times);
  return part;
}

/// Without the fixed time of a step. @returns nothing if there are no kernels
std::optional<Quantiles> seconds_of(const OpGraph& step, const KernelPart& part) {
  if (part.kernels.empty()) return std::nullopt;
  const Rates& rates = part.timed.rates;
  const double fixed = rates.one_clock() ? 0 : rates.formula(rates.machine.effects.host).clocks({}, {}).total_sec;
  const double sec = std::max(0.0, part.timed.clocks.total_sec - fixed);
  const Estimate estimate{std::log(sec), widths_of(step, part.timed, part.kernels)};
  return estimate.quantiles();
}

/// All kernels of a step. @throws InputError as check_counts()
KernelPart whole_step(const LearnedModel& model, const StepQuestion& asked) {
  check_counts(asked.step.graph());
  std::vector<StepKernel> kernels = step_kernels(asked.step);
  find_repeats(kernels);
  TimedStep here = timed(model, asked, kernels, std::nullopt);
  return {std::move(here), std::move(kernels)};
}

}  // namespace

StepAnswer predict_step(const LearnedModel& model, const StepQuestion& asked) {
  const OpGraph& step = asked.step.graph();
  KernelPart whole = whole_step(model, asked);
  const TimedStep& here = whole.timed;
  const std::vector<StepKernel>& kernels = whole.kernels;
  const auto& [rates, times, clocks] = here;
  const std::vector<std::size_t> longest_first = by_length(times);
  StepAnswer answer;
  answer.time = {std::log(clocks.total_sec), widths_of(step, here, kernels),
                 provenance_of(rates, clocks, times, longest_first), rates.machine.in_layout,
                 parts_of(step, kernels, here, longest_first)};
  const double factor = std::exp(rates.log_factor) * in_order(model, asked, kernels, here) / clocks.total_sec;
  answer.time.scale(std::log(factor));
  answer.clocks = {factor * clocks.total_sec, factor * clocks.device_sec, factor * clocks.host_sec};
  answer.slopes = slopes_of(rates, rates.formula(rates.machine.effects.host), kernels, times);
  answer.kernels = std::move(whole.kernels);
  return answer;
}

std::vector<TimedKernel> timed_kernels(const LearnedModel& model, const StepQuestion& asked) {
  const auto [here, kernels] = whole_step(model, asked);
  const Rates& rates = here.rates;
  std::vector<double> host(kernels.size(), 0);  // of a CPU, which dispatches what it computes
  if (!rates.one_clock()) host = rates.formula(rates.machine.effects.host).host_seconds(kernels);
  std::vector<TimedKernel> timed;
  timed.reserve(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    timed.push_back({kernels[i].op, here.times.sec[i], host[i], kernels[i].flops, kernels[i].bytes});
  return timed;
}

LayerTime predict_own_kernels(const LearnedModel& model, const LayerStep& layer, const StepQuestion& asked) {
  const OpGraph& step = asked.step.graph();
  const KernelPart whole = whole_step(model, asked);
  const KernelPart own = part_of(step, whole, [&](std::size_t op) { return layer.own[op]; });
  const auto of_phase = [&](Phase phase) {
    return seconds_of(step, part_of(step, own, [&](std::size_t op) { return step.ops()[op].phase == phase; }));
  };
  LayerTime time;
  time.forward = of_phase(Phase::forward);
  time.backward = of_phase(Phase::backward);
  time.optimizer = of_phase(Phase::optimizer);
  time.step = seconds_of(step, own).value_or(Quantiles{});
  time.provenance = provenance_of(own.timed.rates, own.timed.clocks, own.timed.times, by_length(own.timed.times));
  return time;
}

}  // namespace perfpred
