#pragma once
#include <cstdint>
#include <string>

namespace perfpred {

/// The per-iteration CSV: env, device, network, batch_size, iter_idx, iter_time_ms, imgs_per_sec, timestamp.
class IterationLog {
 public:
  struct Names {
    std::string env, device, network;
  };

  /// @param path    nothing is written where it is empty
  /// @param append  to a file that is there, instead of beginning it anew
  /// @throws InputError if the file cannot be written
  IterationLog(std::string path, bool append, Names names);
  ~IterationLog();
  IterationLog(const IterationLog&) = delete;
  IterationLog& operator=(const IterationLog&) = delete;

  void row(std::int64_t index, std::int64_t batch_size, double sec);
  void flush();  ///< @throws Error if the disk refuses

 private:
  std::string path_;
  Names names_;
  std::string buffer_;
  int fd_ = -1;
};

}  // namespace perfpred
