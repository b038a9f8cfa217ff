// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <nlohmann/json.hpp>

namespace perfpred {

/// A workload that a model file names by its key. @throws ModelError naming the field
[[nodiscard]] Workload json_workload(const nlohmann::json& object, const char* name);

}  // namespace perfpred
