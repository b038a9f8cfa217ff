// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

namespace perfpred {

/// A model file of format 5, which had the key of a workload wherever format 6 has its place in a table, as one of
/// format 6. @throws ModelError naming the member that is missing or wrong
[[nodiscard]] nlohmann::json from_format_5(nlohmann::json json);

}  // namespace perfpred
