#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// What is to be known about a row of runs_agg.csv before it is relied on.
struct PERFPRED_API AggregateFlags {
  bool unstable = false;  ///< every run was rejected: the figures are plain means over all timed runs
  bool disagree = false;  ///< the kept runs are more than 10 % apart
  bool diverged = false;  ///< accuracy of at most 1.2 / classes: nothing was learnt
  bool oom = false;       ///< nothing was timed and a run was out of memory

  [[nodiscard]] bool any() const { return unstable || disagree || diverged || oom; }
  /// The words of those that are set, joined by `+`; empty if none is.
  [[nodiscard]] std::string text() const;
  /// Inverse of text(). @throws InputError naming a word that is no flag
  [[nodiscard]] static AggregateFlags parse(std::string_view text);

  friend bool operator==(const AggregateFlags&, const AggregateFlags&) = default;
};

/// One row of runs_agg.csv: what all runs of one workload say together. Standard deviations are those of a sample
/// (n - 1 in the denominator), 0 for one run.
struct AggregateRow {
  Workload workload;
  std::int64_t params = 0;              ///< trainable parameters
  std::int64_t n = 0;                   ///< runs behind the figures; 0 if nothing was timed
  std::int64_t steps_per_epoch = 0;     ///< ceil(train_images / batch_size)
  std::optional<double> avg_time_mean;  ///< seconds per epoch, > 0; empty if and only if n is 0
  std::optional<double> avg_time_std;   ///< seconds; empty as avg_time_mean is
  std::optional<double> thr_mean;       ///< images/s, > 0; empty as avg_time_mean is
  std::optional<double> thr_std;        ///< images/s; empty as avg_time_mean is
  std::optional<double> acc_mean;       ///< fraction; empty if no run knows its accuracy
  std::optional<double> acc_std;        ///< empty as acc_mean is
  std::int64_t n_rejected = 0;          ///< runs that the label left out
  AggregateFlags flags;
  /// Relative standard error of one run's mean epoch by the scatter of its timed epochs, as the root mean square over
  /// the runs that are kept; empty if none of them timed two. What differs from run to run is not in it.
  std::optional<double> epoch_rel_sem;

  friend bool operator==(const AggregateRow&, const AggregateRow&) = default;
};

/// All rows of a runs_agg.csv, in its order. Columns that are missing have the values that a missing column of runs.csv
/// has; n_rejected 0, no flags.
/// @throws InputError, `file:line: ...`, for a file that cannot be read, lacks a mandatory column, has no row, holds a
/// row that is not an aggregate, or has the same workload twice
[[nodiscard]] PERFPRED_API std::vector<AggregateRow> read_aggregate(const std::string& path);

/// Writes a runs_agg.csv whole or not at all; "/dev/stdout" is allowed. Numbers read back exactly.
/// @throws InputError if no file can be made there, Error if the disk refuses
PERFPRED_API void write_aggregate(const std::string& path, const std::vector<AggregateRow>& rows);

}  // namespace perfpred
