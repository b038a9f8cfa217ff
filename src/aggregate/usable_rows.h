// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <string>
#include <vector>

namespace perfpred {

/// The rows of a runs_agg.csv whose training steps are known. The others, whose network is not known or cannot take its
/// input, are appended to `left_out`, each with a reason that begins with file and line.
/// @throws InputError as read_aggregate(), or the first reason if no row is left
[[nodiscard]] std::vector<AggregateRow> read_usable_rows(const std::string& path, std::vector<RejectedRun>& left_out);

}  // namespace perfpred
