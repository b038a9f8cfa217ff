// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "aggregate/run_groups.h"

namespace perfpred {

/// Identifies a run by its workload, timestamp, host, time and accuracy; equal on every machine.
using Fingerprint = std::uint64_t;

/// Runs that are looked for among others: a hash table whose keys are their own hashes.
class RunSet {
 public:
  explicit RunSet(const std::deque<Fingerprint>& fingerprints = {});
  [[nodiscard]] bool contain(Fingerprint run) const;

 private:
  [[nodiscard]] std::size_t place_of(Fingerprint run) const;  ///< of the run, or the free place where it belongs

  std::vector<Fingerprint> table_;  // twice as many places as runs, a power of 2; a free place holds 0
  bool has_zero_ = false;
};

/// The state of an Aggregator: what is known after some of the runs.
struct AggregateState {
  struct Rejected {
    std::size_t group = 0;  ///< index into groups
    Rejection reason = Rejection::epochs_disagree;
    std::optional<double> avg_time_sec;
    std::string timestamp_utc;
  };

  explicit AggregateState(Aggregator::Label l) : label(l) {}

  /// Adds a run of a group, unless it is one of the earlier runs. @throws InputError as RunGroup::add does
  void add(const Run& run, std::size_t group, const RunSet& earlier);
  void merge(const AggregateState& other);

  Aggregator::Label label;
  std::int64_t runs = 0;
  std::int64_t repeated = 0;  ///< runs that were skipped because an earlier input had them
  RunGroups groups;
  std::vector<Rejected> rejected;
  std::deque<Fingerprint> fingerprints;  ///< of the added runs that have a timestamp
};

/// Aggregates a runs.csv: a regular file in pieces by several threads, anything else row by row. Every error names the
/// line. A last row that has no line feed and is not a run was cut off by its writer: it is skipped.
/// @param cut_off  what is wrong with the skipped row; unchanged if no row is skipped
[[nodiscard]] AggregateState aggregate_file(const std::string& path, Aggregator::Label label, int threads,
                                            const RunSet& earlier, std::optional<std::string>& cut_off);

}  // namespace perfpred
