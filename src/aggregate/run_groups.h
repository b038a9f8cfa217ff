// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "statistics/moments.h"
#include "text/enum_names.h"

namespace perfpred {

/// Times and throughputs that can be summed: sums of their squares are finite and not 0.
inline constexpr double min_summable = 1e-100, max_summable = 1e100;

/// Why a run is rejected; `epochs_disagree`: see RejectedRun.
enum class Rejection { epochs_disagree, oom, failed, interrupted, untrusted };

[[nodiscard]] inline std::string_view to_string(Rejection reason) {
  return enumerator_name_of<Rejection::untrusted>(reason);
}

/// What is kept of the runs of one workload and env.
struct RunGroup {
  Workload workload;
  std::string env;
  std::uint64_t key_hash = 0;  ///< of key and env
  std::int64_t min_params = 0;
  std::int64_t max_params = 0;
  bool kept = false;  ///< the moments are of kept runs; else of timed runs, all of them rejected
  bool oom = false;   ///< a run was out of memory
  std::int64_t n_rejected = 0;
  Moments time, throughput, accuracy;
  Moments epoch_rel_variance;  ///< square of the relative standard error of a run's time

  /// @returns why the run was rejected, if it was
  /// @throws InputError if a time or a throughput is too large or small to be summed
  std::optional<Rejection> add(const Run& run, Aggregator::Label label);
  void merge(const RunGroup& other);
  void take_params(std::int64_t least, std::int64_t most);  ///< 0: unknown
  void keep();                             ///< forgets the rejected runs that have stood in for kept ones
  [[nodiscard]] AggregateRow row() const;  ///< @throws InputError if its runs differ in parameters
};

/// Groups by key and env. A device whose name differs only in capital letters is the same one, under the name that came
/// first.
class RunGroups {
 public:
  [[nodiscard]] std::size_t index_of(const Workload& workload, const std::string& env);  ///< adds the group if needed

  [[nodiscard]] RunGroup& operator[](std::size_t index) { return groups_[index]; }
  [[nodiscard]] const std::vector<RunGroup>& all() const { return groups_; }

 private:
  std::vector<RunGroup> groups_;
  std::unordered_map<std::string, std::size_t> index_;  // by key with a small device, and env
};

}  // namespace perfpred
