// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "tools/chart.h"

namespace perfpred {

/// The runs of a plan over time, a line for each device: a Gantt chart, with the end of each budget.
/// @param path  the JSON of perfpred-plan
/// @throws InputError, `file: ...`, for a file that cannot be read or is no plan
[[nodiscard]] Chart plan_chart(const std::string& path);

}  // namespace perfpred
