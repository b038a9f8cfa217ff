// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/collector.h>
#include <perfpred/workload.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Of the workloads that the collector has still to measure, `count` that teach a regressor most per second, as
/// suggest() orders them.
/// @param model  file of a regressor whose rows are known; empty: none are
/// @throws InputError as Collector::left(), ModelError for a file that is no regressor
[[nodiscard]] std::vector<Workload> suggested_runs(Collector& collector, std::span<const Workload> workloads,
                                                   const std::string& model, std::size_t count);

}  // namespace perfpred
