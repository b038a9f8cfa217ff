// SPDX-License-Identifier: Apache-2.0
#include "tools/model_workloads.h"

#include <perfpred/device.h>

#include <algorithm>
#include <optional>
#include <set>

#include "catalogue/device_table.h"

namespace perfpred {

std::vector<Workload> base_workloads(const TimeRegressor& model) {
  std::vector<Workload> bases = {model.example()};
  const std::vector<AggregateRow> rows = model.fitted_rows();
  if (rows.empty()) {
    bases.front().network = "";
    bases.front().depth = bases.front().base_filters = std::nullopt;
  }
  for (const AggregateRow& row : rows) {
    const auto same = [&](const Workload& base) { return base.network == row.workload.network; };
    if (std::any_of(bases.begin(), bases.end(), same)) continue;
    bases.push_back(row.workload.trained_like(bases.front()));
    bases.back().batch_size = bases.front().batch_size;
  }
  for (const AggregateRow& row : rows) {
    const auto same = [&](const Workload& base) { return base.device == row.workload.device; };
    if (std::none_of(bases.begin(), bases.end(), same)) bases.push_back(row.workload);
  }
  return bases;
}

std::vector<Workload> without_sizes(std::vector<Workload> bases) {
  for (Workload& base : bases) {
    base.depth = base.base_filters = std::nullopt;
    base.batch_size = 0;
  }
  return bases;
}

std::string device_name(const TimeRegressor& model, const std::string& asked) {
  std::set<std::string> measured;
  for (const AggregateRow& row : model.fitted_rows()) measured.insert(row.workload.device);
  const auto known = find_device(model.devices(), asked, measured);
  return known ? *known : model.devices().full_name(asked);
}

}  // namespace perfpred
