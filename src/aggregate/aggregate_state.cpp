// SPDX-License-Identifier: Apache-2.0
#include "aggregate/aggregate_state.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "text/hash.h"

namespace perfpred {
namespace {

Fingerprint fingerprint_of(const Run& run, const RunGroup& group) {
  Fingerprint print = fnv1a(run.host, fnv1a(run.timestamp_utc, group.key_hash));
  for (const auto& figure : {run.avg_time_sec, run.test_acc}) {
    const double value = figure.value_or(-1);
    print = (print ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;  // an odd number of random bits
    print ^= print >> 32U;
  }
  return print;
}

}  // namespace

RunSet::RunSet(const std::deque<Fingerprint>& fingerprints) : table_(std::bit_ceil(2 * fingerprints.size() + 1)) {
  for (const Fingerprint run : fingerprints) {
    has_zero_ = has_zero_ || run == 0;
    table_[place_of(run)] = run;
  }
}

bool RunSet::contain(Fingerprint run) const { return run == 0 ? has_zero_ : table_[place_of(run)] == run; }

std::size_t RunSet::place_of(Fingerprint run) const {
  std::size_t place = run & (table_.size() - 1);
  while (table_[place] != 0 && table_[place] != run) place = (place + 1) & (table_.size() - 1);
  return place;
}

void AggregateState::add(const Run& run, std::size_t group, const RunSet& earlier) {
  const bool identified = !run.timestamp_utc.empty();
  const Fingerprint print = identified ? fingerprint_of(run, groups[group]) : 0;
  if (identified && earlier.contain(print)) {
    ++repeated;
    return;
  }
  const auto reason = groups[group].add(run, label);
  ++runs;
  if (reason) rejected.push_back({group, *reason, run.avg_time_sec, run.timestamp_utc});
  if (identified) fingerprints.push_back(print);
}

void AggregateState::merge(const AggregateState& other) {
  runs += other.runs;
  repeated += other.repeated;
  std::vector<std::size_t> index;
  for (const RunGroup& group : other.groups.all()) {
    index.push_back(groups.index_of(group.workload, group.env));
    groups[index.back()].merge(group);
  }
  for (Rejected entry : other.rejected) {
    entry.group = index[entry.group];
    rejected.push_back(std::move(entry));
  }
  fingerprints.insert(fingerprints.end(), other.fingerprints.begin(), other.fingerprints.end());
}

}  // namespace perfpred
