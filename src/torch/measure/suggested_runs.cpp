// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/suggested_runs.h"

#include <perfpred/suggestion.h>
#include <perfpred/time_regressor.h>

#include <utility>

namespace perfpred {

std::vector<Workload> suggested_runs(Collector& collector, std::span<const Workload> workloads,
                                     const std::string& model, std::size_t count) {
  const std::vector<Workload> left = collector.left(workloads);
  const auto known = model.empty() ? std::vector<AggregateRow>{} : TimeRegressor::load(model).fitted_rows();
  std::vector<Workload> chosen;
  for (Suggestion& next : suggest(known, left, count)) chosen.push_back(std::move(next.workload));
  return chosen;
}

}  // namespace perfpred
