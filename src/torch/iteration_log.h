#pragma once
#include <cstdint>
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

  /// @param path    nothing is written where it is empty
  /// @param append  to a file that is there, instead of beginning it anew
  /// @throws InputError if the file cannot be written
  IterationLog(std::string path, bool append, Names names);
  ~IterationLog();
  IterationLog(const IterationLog&) = delete;
  IterationLog& operator=(const IterationLog&) = delete;

  void add(const Row& row);
  void flush();  ///< @throws Error if the disk refuses

 private:
  std::string path_;
  Names names_;
  std::string buffer_;
  int fd_ = -1;
};

}  // namespace perfpred
