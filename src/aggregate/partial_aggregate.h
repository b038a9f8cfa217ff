// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "aggregate/rejected_list.h"
#include "aggregate/run_groups.h"

namespace perfpred {

/// What is known after some of the runs: the state of an Aggregator.
struct PartialAggregate {
  explicit PartialAggregate(Aggregator::Label l) : label(l) {}

  void add(const Run& run);  ///< @throws InputError as RunGroup::add does
  void merge(const PartialAggregate& other);

  Aggregator::Label label;
  std::int64_t runs = 0;
  RunGroups groups;
  RejectedList rejected;  ///< `group` is an index into groups
};

/// Aggregates a runs.csv: a regular file in pieces by several threads, anything else row by row. Every error is the one
/// that RunReader would give, with its line.
[[nodiscard]] PartialAggregate aggregate_file(const std::string& path, Aggregator::Label label, int threads);

/// JSON of a partial aggregate, through an AtomicFile, and back.
void write_partial_json(const std::string& path, const PartialAggregate& partial);
[[nodiscard]] PartialAggregate read_partial_json(const std::string& path);

}  // namespace perfpred
