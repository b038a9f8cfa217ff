// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A part of a sweep: all of them together are the sweep, and no two have a workload in common.
struct Shard {
  std::int64_t index =
      0;  ///< from 0, as Slurm's SLURM_ARRAY_TASK_ID of --array=0-39 and Kubernetes' JOB_COMPLETION_INDEX
  std::int64_t count = 1;

  /// Of `3/40`. @throws InputError for what is not i/n with 0 <= i < n
  [[nodiscard]] static Shard parse(std::string_view text);

  [[nodiscard]] std::string name() const;  ///< `3-of-40`

  /// The file of this shard alone: `folder/runs.3-of-40.csv` for `folder/runs.csv`.
  [[nodiscard]] std::string file(const std::string& path) const;

  /// The workloads of this shard, each once, in the order given. Which they are follows from the keys, but for device
  /// and threads, and from the seed: whoever asks for the same sweep gets the same parts, on any machine. Sizes of
  /// shards differ by one at most; neighbours in the sweep, which take about as long, are spread at random.
  [[nodiscard]] std::vector<Workload> of(std::span<const Workload> workloads, std::uint64_t seed) const;
};

/// So many different workloads, but for device and threads.
[[nodiscard]] std::int64_t count_different(std::span<const Workload> workloads);

/// Held by the process that measures a shard. Slurm starts a task again if its node is lost, while the first process
/// may still run there: the second one then waits, and finds the rows of the first one.
class ShardLock {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Waits until nobody else holds it.
  /// @param runs_csv  the shard's file; the lock is a file beside it while it is held
  /// @param say       gets a line before the lock is waited for
  /// @throws InputError if there can be no such file, Error where the file system has no locks
  ShardLock(const std::string& runs_csv, const Say& say);
  ShardLock(const ShardLock&) = delete;
  ShardLock& operator=(const ShardLock&) = delete;
  ~ShardLock();

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace perfpred
