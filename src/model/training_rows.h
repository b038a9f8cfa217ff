// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstdint>
#include <span>
#include <vector>

namespace perfpred {

/// The rows that have a time, sorted by key. Rows of one key, for instance of different `env`, are pooled;
/// one of one device has no cluster.
/// @throws InputError as check_figures(), or for a row whose workload is invalid or on several devices
[[nodiscard]] std::vector<AggregateRow> training_rows(std::span<const AggregateRow> rows);

/// Pools the runs of two rows of one key.
void pool(AggregateRow& row, const AggregateRow& other);

/// Identifies a set of rows, in whatever order: the sum of a hash of each.
[[nodiscard]] std::uint64_t set_id(std::span<const AggregateRow> rows);

}  // namespace perfpred
