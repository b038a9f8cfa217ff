// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace perfpred {

/// What a service has done since its start, as Prometheus reads it. Any thread may count.
class Metrics {
 public:
  /// A request that was answered. @param route  a path of the service; of other paths one word for all
  void answered(std::string_view route, int status, double sec);

  /// A finished run whose time the model had predicted. @param outside  its 90 % interval
  void observed(const std::string& model, bool outside);

  /// A model's file was replaced. @param good  false: the new one is no model, the old one stays
  void reloaded(const std::string& model, bool good);

  /// Connections that are open, and that were refused because there were too many.
  std::atomic<std::int64_t> connections = 0, refused_connections = 0;

  /// Text format 0.0.4 of Prometheus.
  [[nodiscard]] std::string text() const;

 private:
  /// Upper ends of the histogram's buckets, in seconds.
  static constexpr std::array<double, 13> bounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};
  struct Seconds {
    std::array<std::uint64_t, bounds.size()> buckets{};  // each with those below
    std::uint64_t count = 0;
    double sum = 0;
  };
  struct Runs {
    std::uint64_t observed = 0, outside = 0;
  };
  struct Reloads {
    std::uint64_t good = 0, failed = 0;
  };

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::map<std::string, Seconds> seconds_;  // by route
  std::map<std::string, Runs> runs_;        // by model
  std::map<std::string, Reloads> reloads_;  // by model
};

}  // namespace perfpred
