// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>
#include <perfpred/workload.h>

#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Of the fields that nobody stated those that a prediction rests on (Answer::assumed).
[[nodiscard]] std::vector<std::string> assumed_fields(const Workload& workload,
                                                      const std::vector<std::string>& unstated, Provenance provenance);

/// What was taken for one of them.
[[nodiscard]] std::string assumed_value(const Workload& workload, std::string_view field);

}  // namespace perfpred
