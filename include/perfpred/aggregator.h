// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Reasons not to rely on a row of runs_agg.csv.
struct PERFPRED_API AggregateFlags {
  bool unstable = false;  ///< every run was rejected: the values are plain means over all timed runs
  bool disagree = false;  ///< the kept runs are more than 10 % apart
  bool diverged = false;  ///< accuracy of at most 1.2 / classes: the network learnt nothing
  bool oom = false;       ///< nothing was timed and a run was out of memory

  [[nodiscard]] bool any() const { return unstable || disagree || diverged || oom; }
  /// The words of the flags that are set, joined by `+`; empty without flags.
  [[nodiscard]] std::string text() const;
  /// Inverse of text(). @throws InputError if a word is not a flag
  [[nodiscard]] static AggregateFlags parse(std::string_view text);

  friend bool operator==(const AggregateFlags&, const AggregateFlags&) = default;
};

/// One row of runs_agg.csv: all runs of one workload and env together. Standard deviations are those of a sample
/// (n - 1 in the denominator), 0 for one run.
struct AggregateRow {
  Workload workload;
  std::string env;                      ///< the free tag of its runs; runs of different tags are different rows
  std::int64_t params = 0;              ///< trainable parameters
  std::int64_t n = 0;                   ///< number of runs in the means; 0 if no run has a time
  std::int64_t steps_per_epoch = 0;     ///< ceil(train_images / batch_size)
  std::optional<double> avg_time_mean;  ///< seconds per epoch, > 0; empty if and only if n is 0
  std::optional<double> avg_time_std;   ///< seconds; empty as avg_time_mean is
  std::optional<double> thr_mean;       ///< images/s, > 0; empty as avg_time_mean is
  std::optional<double> thr_std;        ///< images/s; empty as avg_time_mean is
  std::optional<double> acc_mean;       ///< fraction; empty if no run knows its accuracy
  std::optional<double> acc_std;        ///< empty as acc_mean is
  std::int64_t n_rejected = 0;          ///< number of rejected runs
  AggregateFlags flags;
  /// Relative standard error of one run's time (root mean square over the averaged runs). A run has its own
  /// epoch_rel_sem, else that of the mean of its timed epochs, from their scatter; empty if no run has either.
  /// Run-to-run variation is not included.
  std::optional<double> epoch_rel_sem;

  friend bool operator==(const AggregateRow&, const AggregateRow&) = default;
};

/// All rows of a runs_agg.csv, in its order. Missing columns get the defaults of read_runs(); n_rejected is then 0 and
/// flags are empty.
/// @throws InputError (`file:line: ...`) for a file that cannot be read, lacks a mandatory column, has no row, holds a
/// row that is not an aggregate, or has the same workload and env twice
[[nodiscard]] PERFPRED_API std::vector<AggregateRow> read_aggregate(const std::string& path);

/// Writes a runs_agg.csv whole or not at all; "/dev/stdout" is allowed. Numbers read back exactly.
/// @throws InputError if no file can be made there, Error if the disk refuses
PERFPRED_API void write_aggregate(const std::string& path, const std::vector<AggregateRow>& rows);

/// A run, or a row of several runs, that was not used.
struct RejectedRun {
  std::string key;  ///< of its workload
  /// Of a run in an Aggregator: an outcome other than ok, or `epochs_disagree`: its longest timed epoch took more than
  /// 1.10 times its shortest.
  std::string reason;
  std::string timestamp_utc = {};           ///< empty for a row
  std::optional<double> avg_time_sec = {};  ///< empty for a row

  friend bool operator==(const RejectedRun&, const RejectedRun&) = default;
};

/// Groups runs by Workload::key() and env into rows of runs_agg.csv. Memory: sums for each group, 8 bytes that identify
/// each run, and the time and timestamp of each rejected run. Aggregators of parts merge to the same rows, to rounding,
/// in any order. A run without a timestamp cannot be recognised: it counts each time that it is added or merged.
class PERFPRED_API Aggregator {
 public:
  /// `robust`: a run counts by its median timed epoch (all but the first; `steps` runs by avg_time_sec), unless its
  /// epochs disagree or its outcome is not ok. `mean`: every ok run counts by its avg_time_sec and images_per_sec.
  /// Either way, a workload whose runs are all rejected gets the plain mean over its timed runs and the flag
  /// `unstable`.
  enum class Label { robust, mean };

  explicit Aggregator(Label label = Label::robust);
  ~Aggregator();
  Aggregator(Aggregator&&) noexcept;
  Aggregator& operator=(Aggregator&&) noexcept;

  /// @throws InputError for a run that read_runs() would not accept; times and throughputs are within 1e-100..1e100,
  /// epoch_rel_sem is at most 1e100
  void add(const Run& run);

  /// Adds all rows of a runs.csv, a regular file in parallel, except runs that an earlier input has: one with the same
  /// key, env, timestamp, host, time and accuracy. A last row that has no line feed and is not a run was cut off by its
  /// writer; it is skipped. If this throws, nothing was added.
  /// @param threads  0: one for each usable CPU
  /// @returns lines that say what was skipped, or that the file holds no run
  /// @throws InputError as read_runs() and add() do
  std::vector<std::string> add_file(const std::string& path, int threads = 0);

  /// Adds the rows of all logs (`*.jsonl`, in subfolders too) in a folder, except runs that an earlier input has.
  /// @returns lines that say what was skipped: logs without a row, runs of earlier inputs
  /// @throws InputError if the folder cannot be read or has no log, or as read_run_log does
  std::vector<std::string> add_logs(const std::string& folder);

  /// Adds all runs of the other, or none if earlier inputs have all of them.
  /// @returns false if earlier inputs have all of them
  /// @throws InputError if the other's label is not the same, or if earlier inputs have only some of its runs
  bool merge(const Aggregator& other);

  [[nodiscard]] Label label() const;
  [[nodiscard]] std::int64_t runs() const;  ///< added so far
  [[nodiscard]] std::int64_t rejected() const;

  /// Rows sorted by network, depth, base_filters, batch_size, key, env.
  /// @throws InputError if runs of one workload differ in their number of parameters
  [[nodiscard]] std::vector<AggregateRow> rows() const;

  /// Writes rejected.csv: key, timestamp_utc, avg_time_sec, reason. @throws as write_aggregate() does
  void write_rejected(const std::string& path) const;

  /// Calls for every rejected run, in the order in which they were added.
  void for_each_rejected(const std::function<void(const RejectedRun&)>& call) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] PERFPRED_API std::string_view to_string(Aggregator::Label label);
[[nodiscard]] PERFPRED_API Aggregator::Label parse_label(std::string_view text);  ///< @throws InputError

}  // namespace perfpred
