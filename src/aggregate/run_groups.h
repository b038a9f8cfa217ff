// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "statistics/moments.h"

namespace perfpred {

/// What aggregation needs of a run besides its workload and env. `epoch_times` may be reordered.
struct RunFigures {
  Timing timing = Timing::epochs;
  Outcome outcome = Outcome::ok;
  std::int64_t params = 0;
  std::span<double> epoch_times;
  std::optional<double> avg_time_sec, images_per_sec, test_acc, epoch_rel_sem;
};

/// All that is kept of the runs of one workload and env.
struct RunGroup {
  Workload workload;
  std::string env;
  std::int64_t least_params = 0;
  std::int64_t most_params = 0;
  bool kept = false;  ///< the moments are of kept runs; else of timed runs that were all rejected
  bool oom = false;   ///< a run was out of memory
  std::int64_t n_rejected = 0;
  Moments time, throughput, accuracy;
  Moments epoch_rel_variance;  ///< of kept runs: relative variance of their time

  /// @returns why the run was rejected, if it was
  /// @throws InputError if a time or a throughput is too large or small to be summed
  std::optional<Rejection> add(const RunFigures& run, Aggregator::Label label);
  void merge(const RunGroup& other);
  [[nodiscard]] AggregateRow row() const;  ///< @throws InputError if its runs differ in parameters
};

/// Groups by key and env.
class RunGroups {
 public:
  [[nodiscard]] std::size_t index_of(const Workload& workload,
                                     const std::string& env);  ///< adds a group if there is none
  void merge(const RunGroup& group);

  [[nodiscard]] RunGroup& operator[](std::size_t index) { return groups_[index]; }
  [[nodiscard]] const std::vector<RunGroup>& all() const { return groups_; }

 private:
  std::vector<RunGroup> groups_;
  std::unordered_map<std::string, std::size_t> index_;  // by key and env
};

}  // namespace perfpred
