// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace perfpred {

/// The per-iteration CSV: env, device, network, batch_size, iter_idx, iter_time_ms, imgs_per_sec, timestamp, epoch.
class IterationLog {
 public:
  struct Names {
    std::string env, device, network;
    std::int64_t batch_size = 0;  ///< of a full batch
  };

  struct Row {
    int epoch = 0;
    std::int64_t index = 0, images = 0;
    double sec = 0;
    double ended = 0;  ///< seconds since 1970
  };

  /// @param path      nothing is written where it is empty
  /// @param go_on_at  index of the first iteration to come: a file that is there is gone on with, without the rows that
  ///                  it has of this and later iterations of the training. Nothing: it is begun anew.
  /// @throws InputError if the file cannot be written, or if what is there is no such log
  IterationLog(std::string path, std::optional<std::int64_t> go_on_at, Names names);
  ~IterationLog();
  IterationLog(const IterationLog&) = delete;
  IterationLog& operator=(const IterationLog&) = delete;

  void add(const Row& row);
  void flush();  ///< @throws Error if the disk refuses

 private:
  void drop_rows(std::int64_t from) const;

  std::string path_;
  Names names_;
  std::string buffer_;
  int fd_ = -1;
};

}  // namespace perfpred
