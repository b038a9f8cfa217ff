// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/assignment.h"

namespace perfpred {

/// When a job may run on a device: it begins not before `earliest` and ends by `deadline`, in seconds from where the
/// device is free.
struct TimeWindow {
  std::int64_t earliest = 0;         ///< >= 0
  std::int64_t deadline = max_cost;  ///< a job that cannot end by it does not run on the device

  [[nodiscard]] bool holds(std::int64_t cost) const { return earliest <= deadline && cost <= deadline - earliest; }
};

/// A job of a set that one device runs, one job after another.
struct WindowedJob {
  std::size_t job;
  std::int64_t cost;  ///< > 0
  TimeWindow window;
};

struct StartedJob {
  std::size_t job;
  std::int64_t start;
};

/// An order in which every job keeps its window.
struct Sequence {
  enum class Status { found, impossible, unknown };  ///< `unknown`: the search stopped
  Status status = Status::unknown;
  std::vector<StartedJob> starts = {};  ///< by start, if one was found

  [[nodiscard]] bool found() const { return status == Status::found; }
};

/// Whether jobs that are sorted by deadline, then by earliest, are sorted by earliest, too. The earliest deadline first
/// is then an order that keeps all windows, if any order does.
[[nodiscard]] bool are_agreeable(std::span<const WindowedJob> sorted);

/// Sorts jobs by deadline, then by earliest, then by number.
void sort_by_deadline(std::vector<WindowedJob>& jobs);

/// An order of all jobs: of those that may begin, the one with the earliest deadline (L. Schrage, 1971). Where windows
/// are not agreeable and this breaks one, an interval with more work than time proves that there is none; else a depth
/// first search over the orders in which no job could end before the next one begins.
/// @param max_nodes  of that search, which takes at most 64 jobs; 0: none
[[nodiscard]] Sequence sequence(std::vector<WindowedJob> jobs, std::int64_t max_nodes);

}  // namespace perfpred
