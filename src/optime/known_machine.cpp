// SPDX-License-Identifier: Apache-2.0
#include "optime/known_machine.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "statistics/confidence.h"
#include "statistics/moments.h"

namespace perfpred {
namespace {

using MachineItem = std::pair<const MachineKey, Machine>;

std::vector<const MachineItem*> machines_of(const StepModel& model, const std::string& name) {
  std::vector<const MachineItem*> machines;
  for (const MachineItem& machine : model.machines) {
    if (!name.empty() && machine.first.device == name) machines.push_back(&machine);
  }
  return machines;
}

/// Whether steps in both run at the same rates. All tensors in half precision are nearest to mixed precision.
bool same_rates(const ArithmeticKey& a, const ArithmeticKey& b) {
  return a.element_bytes == b.element_bytes && a.matrix_units == b.matrix_units;
}

/// Those for which it holds, if it does for any; else all.
template <class Predicate>
void prefer(std::vector<const MachineItem*>& machines, Predicate holds) {
  if (std::any_of(machines.begin(), machines.end(), holds)) std::erase_if(machines, std::not_fn(holds));
}

void prefer_alike(std::vector<const MachineItem*>& machines, const ArithmeticKey& arithmetic, Layout layout) {
  prefer(machines, [&](const MachineItem* m) { return m->second.arithmetic.pure_half == arithmetic.pure_half; });
  prefer(machines, [&](const MachineItem* machine) { return machine->first.layout == layout; });
}

/// Those that a device was measured as, but for probes: in this arithmetic, and in this layout if there are any.
std::vector<const MachineItem*> measured_as(std::vector<const MachineItem*> machines, const ArithmeticKey& arithmetic,
                                            Layout layout) {
  std::erase_if(machines, [&](const MachineItem* machine) {
    return machine->first.probe || !same_rates(machine->second.arithmetic, arithmetic);
  });
  prefer_alike(machines, arithmetic, layout);
  return machines;
}

/// Those with the device's chip but for probes, which are of one card; where there are none, those of the generations
/// next to it, before and after. In this arithmetic, and in this layout if there are any.
std::vector<const MachineItem*> machines_like(const StepModel& model, const Chip& chip, const ArithmeticKey& arithmetic,
                                              Layout layout) {
  const std::optional<int> own = generation(chip.arch);
  std::vector<const MachineItem*> machines;
  int before = -1, after = std::numeric_limits<int>::max();
  for (const MachineItem& machine : model.machines) {
    const Chip& other = machine.second.chip;
    const std::optional<int> of_other = generation(other.arch);
    const bool comparable = own && of_other && other.data_centre == chip.data_centre;
    if (machine.first.probe || (!comparable && other != chip) || !same_rates(machine.second.arithmetic, arithmetic))
      continue;
    machines.push_back(&machine);
    if (comparable && *of_other <= *own) before = std::max(before, *of_other);
    if (comparable && *of_other >= *own) after = std::min(after, *of_other);
  }
  prefer(machines, [&](const MachineItem* machine) { return machine->second.chip == chip; });
  prefer(machines, [&](const MachineItem* machine) {
    const int of_other = generation(machine->second.chip.arch).value_or(-1);
    return of_other == before || of_other == after;
  });
  prefer_alike(machines, arithmetic, layout);
  return machines;
}

/// Fills in the means of parameters and of effects.
/// @param chip  of the device that is asked for: machines with another one say nothing of its parameters
void take_means(const StepModel& model, const std::vector<const MachineItem*>& machines, const Chip& chip,
                KnownMachine& known) {
  std::map<std::string, double> rows_of;  // a device that was measured often counts once
  for (const MachineItem* item : machines) ++rows_of[item->first.device];
  double count = 0;
  for (const MachineItem* item : machines) {
    const double weight = 1 / rows_of[item->first.device];
    count += weight;
    const auto towards = [&](double& value, double other) { value += weight * (other - value) / count; };
    const auto& [key, machine] = *item;
    const StepParameters& parameters = machine.chip == chip ? model.parameters_of(key) : model.parameters;
    for (const StepParameter& row : step_parameters) towards(known.parameters.*row.value, parameters.*row.value);
    towards(known.effects.compute, machine.effects.compute);
    towards(known.effects.memory, machine.effects.memory);
  }
  constexpr double unshown = 1;  // as if one more device had shown none (docs/notes/optime.md, Chips)
  if (known.measured) return;
  for (double* effect : {&known.effects.compute, &known.effects.memory}) *effect *= count / (count + unshown);
}

/// The hosts of machines in any precision: a host does not compute.
/// @param parameters  that the effects are to be relative to
template <class Predicate>
HostRange hosts_of(const StepModel& model, const StepParameters& parameters, Predicate counts) {
  HostRange hosts{0, HUGE_VAL, -HUGE_VAL};
  for (const MachineItem& machine : model.machines) {
    if (machine.first.probe || !counts(machine)) continue;
    const double effect = machine.second.effects.host + model.parameters_of(machine.first).host - parameters.host;
    hosts.fastest = std::min(hosts.fastest, effect);
    hosts.slowest = std::max(hosts.slowest, effect);
  }
  hosts.expected = std::clamp(0.0, hosts.fastest, hosts.slowest);
  hosts.fastest = std::min(hosts.fastest, -z90 * host_deviation);
  hosts.slowest = std::max(hosts.slowest, z90 * host_deviation);
  return hosts;
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

KnownMachine known_machine(const StepModel& model, const MachineKey& asked, const Chip& chip,
                           const ArithmeticKey& arithmetic) {
  KnownMachine known;
  known.parameters = model.parameters;
  known.in_layout = asked.layout == Layout::nchw;
  const std::vector<const MachineItem*> of_device = machines_of(model, asked.device);
  if (const auto probe = model.machines.find(probe_key(asked.device, asked.precision));
      !of_device.empty() && probe != model.machines.end()) {
    known.measured = true;
    known.parameters = model.parameters_of(probe->first);
    known.effects = probe->second.effects;
    known.hosts = {known.effects.host, known.effects.host, known.effects.host, true};
    return known;
  }
  std::vector<const MachineItem*> machines = measured_as(of_device, arithmetic, asked.layout);
  known.measured = !machines.empty();
  if (!known.measured) machines = machines_like(model, chip, arithmetic, asked.layout);
  if (!machines.empty()) {
    known.in_layout = machines.front()->first.layout == asked.layout;
    take_means(model, machines, chip, known);
    known.hosts = hosts_of(model, known.parameters, [&](const MachineItem& machine) {
      return known.measured ? machine.first.device == asked.device
                            : machine.second.chip == machines.front()->second.chip;
    });
  }
  if (const auto host = probed_host(of_device)) {  // relative to the parameters of all machines
    const double effect = *host + model.parameters.host - known.parameters.host;
    known.hosts = {effect, effect, effect, true};
  }
  known.effects.host = known.hosts.expected;
  return known;
}

}  // namespace perfpred
