// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <nlohmann/json.hpp>

#include <span>
#include <vector>

namespace perfpred {

/// A workload from the member that has its key. @throws ModelError naming the member
[[nodiscard]] Workload json_workload(const nlohmann::json& object, const char* name);

/// Many workloads as a table of values: `same`, an object of the fields that they share; `fields`, the names of those
/// in which they differ; `rows`, a list of their texts for each.
[[nodiscard]] nlohmann::json workloads_json(std::span<const Workload> workloads);

/// @throws ModelError naming the member that is missing or wrong
[[nodiscard]] std::vector<Workload> read_workloads(const nlohmann::json& table);

}  // namespace perfpred
