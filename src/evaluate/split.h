// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Rows to fit on, to choose a model by, and to test it with.
struct Split {
  std::vector<AggregateRow> train, val, test;
};

/// Drawn by the seed; the fractions are of all workloads, rounded; rows of one workload stay together. @throws
/// InputError if a fraction is not in [0, 1) or nothing is left to fit on
[[nodiscard]] Split split_rows(std::span<const AggregateRow> rows, double test_fraction, double val_fraction,
                               std::uint64_t seed);

/// From a table `key, split` or `depth, base_filters, batch_size, split`; rows that it does not name are left out.
/// @throws InputError for a split that is not train, val or test, for a row named twice, or if no row is for training
[[nodiscard]] Split read_split(const std::string& path, std::span<const AggregateRow> rows);

}  // namespace perfpred
