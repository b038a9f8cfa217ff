// SPDX-License-Identifier: Apache-2.0
#include "optime/known_machine.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "statistics/confidence.h"
#include "statistics/moments.h"

namespace perfpred {
namespace {

using MachineItem = std::pair<const MachineKey, Machine>;

/// Whether steps in both precisions run at the same rates: `default` is fp32 on devices without TF32.
bool same_rates(const Device& device, Precision a, Precision b) {
  return a == b || (device.matrix_flops(a) == device.matrix_flops(b) &&
                    device.convolution_flops(a) == device.convolution_flops(b));
}

std::vector<const MachineItem*> machines_of(const StepModel& model, const std::string& name) {
  std::vector<const MachineItem*> machines;
  for (const MachineItem& machine : model.machines) {
    if (machine.first.device == name) machines.push_back(&machine);
  }
  return machines;
}

/// Those at the rates of this precision: in this layout if there are any, else in another.
std::vector<const MachineItem*> comparable(std::vector<const MachineItem*> machines, const Device& device,
                                           Precision precision, Layout layout) {
  std::erase_if(machines, [&](const MachineItem* m) { return !same_rates(device, m->first.precision, precision); });
  const auto in_layout = [&](const MachineItem* machine) { return machine->first.layout == layout; };
  if (std::any_of(machines.begin(), machines.end(), in_layout)) std::erase_if(machines, std::not_fn(in_layout));
  return machines;
}

/// Fills in the means of parameters and effects, and the range of the hosts.
void take_means(const StepModel& model, const std::vector<const MachineItem*>& machines, KnownMachine& known) {
  HostRange hosts{0, HUGE_VAL, -HUGE_VAL};
  double count = 0;
  for (const MachineItem* item : machines) {
    ++count;
    const auto towards = [&](double& value, double other) { value += (other - value) / count; };
    const auto& [key, machine] = *item;
    const StepParameters& parameters = model.parameters_of(key);
    for (const StepParameter& row : step_parameters) towards(known.parameters.*row.value, parameters.*row.value);
    towards(known.effects.compute, machine.effects.compute);
    towards(known.effects.memory, machine.effects.memory);
    hosts.fastest = std::min(hosts.fastest, machine.effects.host);
    hosts.slowest = std::max(hosts.slowest, machine.effects.host);
  }
  hosts.expected = std::clamp(0.0, hosts.fastest, hosts.slowest);
  hosts.fastest = std::min(hosts.fastest, -z90 * host_deviation);
  hosts.slowest = std::max(hosts.slowest, z90 * host_deviation);
  known.hosts = hosts;
}

/// Of a machine of which the probes in some precisions know the host.
std::optional<double> probed_host(const std::vector<const MachineItem*>& machines) {
  Moments hosts;
  for (const MachineItem* machine : machines) {
    if (machine->first.probe) hosts.add(machine->second.effects.host);
  }
  return hosts.n > 0 ? std::optional(hosts.mean()) : std::nullopt;
}

}  // namespace

KnownMachine known_machine(const StepModel& model, const std::string& name, const Device& device, Precision precision,
                           Layout layout) {
  KnownMachine known;
  known.parameters = model.parameters;
  known.in_layout = layout == Layout::nchw;
  if (name.empty()) return known;
  if (const auto probe = model.machines.find(probe_key(name, precision)); probe != model.machines.end()) {
    known.measured = true;
    known.parameters = model.parameters_of(probe->first);
    known.effects = probe->second.effects;
    known.hosts = {known.effects.host, known.effects.host, known.effects.host, true};
    return known;
  }
  const std::vector<const MachineItem*> of_device = machines_of(model, name);
  const std::vector<const MachineItem*> machines = comparable(of_device, device, precision, layout);
  known.measured = !machines.empty();
  if (known.measured) {
    known.in_layout = machines.front()->first.layout == layout;
    take_means(model, machines, known);
  }
  if (const auto host = probed_host(of_device)) {  // relative to the parameters of all machines
    const double effect = *host + host_effect(known.parameters, 1) - host_effect(model.parameters, 1);
    known.hosts = {effect, effect, effect, true};
  }
  known.effects.host = known.hosts.expected;
  return known;
}

}  // namespace perfpred
