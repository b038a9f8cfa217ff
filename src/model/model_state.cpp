// SPDX-License-Identifier: Apache-2.0
#include "model/model_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/parse.h"

namespace perfpred {
namespace {

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
  return {a.device == b.device && a.threads == b.threads, a.precision == b.precision,
          a.optimizer == b.optimizer && a.optimizer_impl == b.optimizer_impl,
          a.layout == b.layout && a.cuda_graph == b.cuda_graph && a.attention == b.attention};
}

}  // namespace

bool same_group(const Workload& a, const Workload& b) {
  const auto agree = agreement(a, b);
  return std::all_of(agree.begin(), agree.end(), [](bool one) { return one; });
}

std::string group_text(const Workload& workload) {
  const std::string threads = workload.threads ? fmt::format(", {} threads", *workload.threads) : "";
  return fmt::format("the group of device \"{}\"{}, {}, {}{}, {}{}{}", shown(workload.device), threads,
                     to_string(workload.precision), to_string(workload.optimizer),
                     workload.optimizer_impl == OptimizerImpl::foreach ? " (foreach)" : "", to_string(workload.layout),
                     workload.cuda_graph ? ", CUDA graph" : "",
                     workload.attention == Attention::eager ? ", eager attention" : "");
}

void Range::add(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

void Group::cover(const Workload& workload) {
  networks.insert(workload.network);
  if (workload.depth) depth.add(*workload.depth);
  if (workload.base_filters) base_filters.add(*workload.base_filters);
  batch_size.add(static_cast<double>(workload.batch_size));
  sample.add(sample_size(workload));
}

DomainViolation Group::reason(const Workload& workload) const {
  const auto agree = agreement(workload, example);
  const auto differs = std::find(agree.begin(), agree.end(), false);
  if (differs != agree.end()) return group_reasons[static_cast<std::size_t>(differs - agree.begin())];
  if (networks.find(workload.network) == networks.end()) return DomainViolation::other_network;
  if (workload.depth && !depth.contains(*workload.depth)) return DomainViolation::depth_out_of_range;
  if (workload.base_filters && !base_filters.contains(*workload.base_filters))
    return DomainViolation::width_out_of_range;
  if (!batch_size.contains(static_cast<double>(workload.batch_size))) return DomainViolation::batch_out_of_range;
  if (!sample.contains(sample_size(workload))) return DomainViolation::size_out_of_range;
  return DomainViolation::none;
}

bool Group::says_nothing_of(const Workload& workload, DomainViolation reason) const {
  const bool foreign = reason == DomainViolation::other_network ||
                       std::find(group_reasons.begin(), group_reasons.end(), reason) != group_reasons.end();
  return foreign || (workload.depth && depth.is_one_other_than(*workload.depth)) ||
         (workload.base_filters && base_filters.is_one_other_than(*workload.base_filters)) ||
         batch_size.is_one_other_than(static_cast<double>(workload.batch_size)) ||
         sample.is_one_other_than(sample_size(workload));
}

const Group& ModelState::group_of(const Workload& workload) const {
  return *std::max_element(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
    return agreement(a.example, workload) < agreement(b.example, workload);
  });
}

Prediction ModelState::finish(const Group& group, const Workload& workload, Quantiles quantiles) const {
  const DomainViolation reason = group.reason(workload);
  if (group.says_nothing_of(workload, reason)) {
    quantiles.p05 = std::min(quantiles.p05, quantiles.p50 * std::exp(-foreign_half_width));
    quantiles.p95 = std::max(quantiles.p95, quantiles.p50 * std::exp(foreign_half_width));
  }
  return {quantiles, reason, model_id, training_set_id};
}

}  // namespace perfpred
