// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// A rejected run; the workload by its place among the groups.
struct RejectedEntry {
  std::uint64_t group = 0;
  Rejection reason = Rejection::epochs_disagree;
  std::optional<double> avg_time_sec;
  std::string_view timestamp_utc;
};

/// Rejected runs in order. A short list is in memory, a long one in a temporary file without a name.
class RejectedList {
 public:
  void add(const RejectedEntry& entry);  ///< @throws Error if the temporary file cannot be written
  void for_each(const std::function<void(const RejectedEntry&)>& call) const;  ///< @throws Error if it cannot be read
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::int64_t size_ = 0;
  std::string buffer_;  // entries one after the other, behind those in the file
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace perfpred
