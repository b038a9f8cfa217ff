// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <string>

namespace perfpred {

/// The per-iteration CSV: env, device, network, batch_size, iter_idx, iter_time_ms, imgs_per_sec, timestamp, epoch, and
/// what else decides a step's work and time: input, classes, optimizer, precision, layout, threads (of a CPU),
/// accumulate. An iteration is an update, of so many batches.
class IterationLog {
 public:
  struct Row {
    int epoch = 0;
    std::int64_t index = 0, images = 0;
    double sec = 0;
    double ended = 0;  ///< seconds since 1970
  };

  /// @param path      nothing is written where it is empty
  /// @param go_on_at  index of the next iteration: an existing file is continued, without its rows of this and later
  ///                  iterations of the training. Empty: the file is begun anew.
  /// @param env       a tag for the rows
  /// @throws InputError if the file cannot be written, or if the existing file is not such a log
  IterationLog(std::string path, std::optional<std::int64_t> go_on_at, std::string env, Workload workload,
               std::int64_t accumulate);
  ~IterationLog();
  IterationLog(const IterationLog&) = delete;
  IterationLog& operator=(const IterationLog&) = delete;

  void add(const Row& row);
  void flush();  ///< @throws Error if the disk refuses

 private:
  void drop_rows(std::int64_t from) const;

  std::string path_;
  std::string env_;
  Workload workload_;
  std::int64_t accumulate_;
  std::string buffer_;
  int fd_ = -1;
};

}  // namespace perfpred
