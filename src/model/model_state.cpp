// SPDX-License-Identifier: Apache-2.0
#include "model/model_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "statistics/estimate.h"
#include "text/hash.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// Half width of the 90 % interval of log time of a network without rows, where the group's model answers: of runs of
/// 16 other networks on the same CPU, a model of one family's rows was within a factor of 4 for 91 %
/// (docs/notes/accuracy.md, Networks without rows).
const double other_network_half_width = std::log(4.0);

double sample_size(const Workload& workload) {
  double size = 1;
  for (const std::int64_t length : workload.input) size *= static_cast<double>(length);
  return size;
}

/// Properties that rows of one group share, most important to the time first.
constexpr std::array group_reasons = {DomainViolation::other_device, DomainViolation::other_precision,
                                      DomainViolation::other_optimizer, DomainViolation::other_layout};

/// Which of these properties two workloads share, in the same order, so that such lists compare by closeness.
std::array<bool, group_reasons.size()> agreement(const Workload& a, const Workload& b) {
  std::array<bool, group_reasons.size()> agree;
  agree.fill(true);
  for (const WorkloadColumn& column : workload_columns()) {
    const auto* property = std::find(group_reasons.begin(), group_reasons.end(), column.how);
    if (property == group_reasons.end() || column.equal(a, b)) continue;
    agree.at(static_cast<std::size_t>(property - group_reasons.begin())) = false;
  }
  return agree;
}

/// Whether no row of the group is of the workload's network, device, precision ...
bool is_of_other_rows(DomainViolation reason) {
  return reason == DomainViolation::other_network ||
         std::find(group_reasons.begin(), group_reasons.end(), reason) != group_reasons.end();
}

}  // namespace

ModelState without_runs(std::shared_ptr<const OpTimeModel> model, std::string_view text) {
  ModelState state;
  state.ops = std::make_shared<const OpRegression>(std::make_shared<const OpPrior>(std::move(model)));
  state.model_id = fnv1a(text);
  return state;
}

DeviceKind kind_on(const Workload& example, const DeviceCatalogue& devices) {
  return devices.resolve(example.device).kind(example.threads.has_value());
}

bool same_group(const Workload& a, const Workload& b) {
  const auto agree = agreement(a, b);
  return std::all_of(agree.begin(), agree.end(), [](bool one) { return one; });
}

std::string group_text(const Workload& workload) {
  std::string text = "the group of";
  for (const DomainViolation property : group_reasons) {
    for (const WorkloadColumn& column : workload_columns()) {
      const std::string value = column.get(workload);
      if (column.how != property || value.empty() || value == "0" || value == column.usual) continue;
      if (column.name == "device") {
        text += fmt::format(" device \"{}\"", shown(value));
      } else if (column.is_text && !column.usual) {
        text += ", " + value;
      } else {
        text += fmt::format(", {} {}", value, column.name);
      }
    }
  }
  return text;
}

void Range::add(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

void Group::cover(const Workload& workload, bool modelled) {
  NetworkRows& rows = networks[std::string(workload.network.family())];
  rows.modelled = modelled;
  if (const auto depth = workload.depth()) rows.depth.add(*depth);
  if (const auto base_filters = workload.base_filters()) rows.base_filters.add(*base_filters);
  rows.batch_size.add(static_cast<double>(workload.batch_size));
  rows.sample.add(sample_size(workload));
}

bool Group::models(const Workload& workload) const {
  const auto rows = networks.find(workload.network.family());
  return rows != networks.end() && rows->second.modelled;
}

DomainViolation Group::reason(const Workload& workload) const {
  const auto agree = agreement(workload, example);
  const auto differs = std::find(agree.begin(), agree.end(), false);
  if (differs != agree.end()) return group_reasons[static_cast<std::size_t>(differs - agree.begin())];
  const auto network = networks.find(workload.network.family());
  if (network == networks.end()) return DomainViolation::other_network;
  const NetworkRows& rows = network->second;
  const auto depth = workload.depth(), base_filters = workload.base_filters();
  if (depth && !rows.depth.contains(*depth)) return DomainViolation::depth_out_of_range;
  if (base_filters && !rows.base_filters.contains(*base_filters)) return DomainViolation::width_out_of_range;
  if (!rows.batch_size.contains(static_cast<double>(workload.batch_size))) return DomainViolation::batch_out_of_range;
  if (!rows.sample.contains(sample_size(workload))) return DomainViolation::size_out_of_range;
  return DomainViolation::none;
}

double Group::least_half_width(const Workload& workload, DomainViolation reason) const {
  if (reason == DomainViolation::none) return 0;
  const auto network = networks.find(workload.network.family());
  if (network == networks.end()) return other_network_half_width;
  const NetworkRows& rows = network->second;
  const auto depth = workload.depth(), base_filters = workload.base_filters();
  const bool foreign = is_of_other_rows(reason) || (depth && rows.depth.is_one_other_than(*depth)) ||
                       (base_filters && rows.base_filters.is_one_other_than(*base_filters)) ||
                       rows.batch_size.is_one_other_than(static_cast<double>(workload.batch_size)) ||
                       rows.sample.is_one_other_than(sample_size(workload));
  return foreign ? foreign_half_width : 0;
}

const Group* ModelState::closest(const Workload& workload, bool with_model) const {
  const Group* best = nullptr;
  for (const Group& group : groups) {
    if (with_model && !group.model) continue;
    if (best == nullptr || agreement(best->example, workload) < agreement(group.example, workload)) best = &group;
  }
  return best;
}

std::optional<Route> ModelState::own_route(const Workload& workload) const {
  const Group* group = closest(workload, false);
  if (group == nullptr || !group->models(workload)) return std::nullopt;
  const DomainViolation reason = group->reason(workload);
  return group->least_half_width(workload, reason) == 0 ? std::optional(Route{group, reason}) : std::nullopt;
}

Route ModelState::route(const Workload& workload, const ResolvedDevice& device) const {
  if (const auto own = own_route(workload)) return *own;
  const Group* group = closest(workload, false);
  const DomainViolation reason = group != nullptr ? group->reason(workload) : DomainViolation::none;
  if (knows_rates(workload, device)) return {nullptr, reason};
  if (group == nullptr) {
    const bool unknown = workload.precision == Precision::unknown;
    return {nullptr, unknown ? DomainViolation::other_precision : DomainViolation::other_device};
  }
  const Group* modelled = closest(workload, true);
  if (modelled == nullptr) return {nullptr, reason};
  if (modelled->example.device != workload.device && device.origin == DeviceOrigin::row) check_device(workload, device);
  return {modelled, modelled->reason(workload)};
}

JobEstimate ModelState::finish(const Route& route, const Workload& workload, Estimate estimate) const {
  DomainViolation reason = route.reason;
  const bool is_of_others = is_of_other_rows(reason);
  if (route.group != nullptr) {
    estimate.widths.widen_to(route.group->least_half_width(workload, reason));
    if (is_of_others)
      estimate.rests_on = reason == DomainViolation::other_device ? Provenance::other_family : Provenance::probe;
  } else if (!groups.empty() && !is_of_others) {
    estimate.rests_on = Provenance::runs;
  } else if (estimate.rests_on == Provenance::bytes) {
    reason = DomainViolation::unknown_op;
  } else if (estimate.rests_on == Provenance::probe) {
    reason = estimate.in_layout ? DomainViolation::none : DomainViolation::other_layout;
  } else if (groups.empty()) {
    reason = DomainViolation::other_device;
  }
  return {std::move(estimate), reason, model_id, training_set_id};
}

}  // namespace perfpred
