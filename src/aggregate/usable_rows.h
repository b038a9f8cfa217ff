// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <string>
#include <vector>

#include "text/csv.h"

namespace perfpred {

/// read_aggregate() of a table. @param repeats  whether a row may have the workload and env of another
[[nodiscard]] std::vector<AggregateRow> read_aggregate_rows(CsvReader csv, bool repeats);

/// The rows of a runs_agg.csv whose training steps are known. The others, whose network is not known or cannot take its
/// input, are appended to `left_out`, each with a reason that begins with file and line.
/// @throws InputError as read_aggregate(), or the first reason if no row is left
[[nodiscard]] std::vector<AggregateRow> read_usable_rows(const std::string& path, std::vector<RejectedRun>& left_out);

}  // namespace perfpred
