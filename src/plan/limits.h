// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <stop_token>

namespace perfpred {

/// PlanLimits from the moment that a search starts.
class Limits {
 public:
  using Clock = std::chrono::steady_clock;

  Limits() = default;

  /// @throws InputError if the time is negative or not a number
  explicit Limits(const PlanLimits& given) : memory_bytes(given.memory_bytes), stop_(given.stop) {
    if (!(given.time_sec >= 0)) throw InputError(fmt::format("time limit {} is not a number >= 0", given.time_sec));
    constexpr double forever_sec = 1e9;
    if (given.time_sec >= forever_sec) return;
    deadline_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(given.time_sec));
  }

  [[nodiscard]] bool expired() const { return stop_.stop_requested() || Clock::now() >= deadline_; }

  /// What is left; infinite without a limit.
  [[nodiscard]] double remaining_sec() const {
    if (deadline_ == Clock::time_point::max()) return std::numeric_limits<double>::infinity();
    return std::max(0.0, std::chrono::duration<double>(deadline_ - Clock::now()).count());
  }

  std::size_t memory_bytes = PlanLimits().memory_bytes;

 private:
  Clock::time_point deadline_ = Clock::time_point::max();
  std::stop_token stop_;
};

}  // namespace perfpred
