// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/assignment.h"
#include "plan/knapsack.h"
#include "plan/limits.h"
#include "plan/sequence.h"

namespace perfpred {

/// A job that may run on a device, in whole units, with its window there.
struct DatedCandidate {
  Candidate item;
  TimeWindow window;  ///< holds the cost
  bool must = false;  ///< whether every plan has the job
};

/// What the windows of one device hold: of every interval from an earliest time to a deadline, the time that is left
/// when jobs whose windows lie in it have taken theirs. If every interval holds its jobs, they could run in parts; that
/// is a relaxation. Many different times are made coarser, to wider windows.
class WindowRoom {
 public:
  explicit WindowRoom(std::span<const DatedCandidate> candidates);

  /// A window's place in the table.
  struct Place {
    std::size_t earliest, deadline;
  };
  [[nodiscard]] Place place_of(const TimeWindow& window) const;

  /// The most time that a job with this window can take beside what was taken.
  [[nodiscard]] std::int64_t room(const Place& place) const;
  /// Takes time, or gives it back if it is negative.
  void take(const Place& place, std::int64_t sec);

  [[nodiscard]] std::size_t size() const { return left_.size(); }  ///< of the table

 private:
  std::vector<std::int64_t> earliest_, deadline_;  // ascending
  std::vector<std::int64_t> left_;                 // a row for each earliest time
};

/// The knapsack with windows on one device, exact if they are agreeable: dynamic programming over jobs by deadline (E.
/// L. Lawler, J. M. Moore, Manag. Sci. 16, 1969), with partial plans that no other one beats in end and profit, and
/// Dantzig's bound on the jobs to come.
/// @param candidates  agreeable
/// @param least       profit of a plan that is known; only better ones are looked for. -1: every one is
/// @returns empty if the limits stopped it; else the best plan above `least`, or no jobs and `least` as profit
[[nodiscard]] std::optional<Chosen> solve_agreeable(std::span<const DatedCandidate> candidates, Int128 least,
                                                    const Limits& limits);

/// Windows of each job on each device.
using JobWindows = std::vector<std::vector<TimeWindow>>;

/// assign() where every job keeps its window on its device, and ends within the budget. Jobs that have a group are in
/// every plan. One device and agreeable windows: exact. Else the problem without windows, and jobs in parts that keep
/// them, bound the value; greedy insertion in noisy orders finds plans; a depth first search closes the gap of few
/// jobs. Optimal means proved.
/// @param windows  in seconds from where each device is free, as its budget
[[nodiscard]] Assignment assign_dated(const AssignmentProblem& problem, const JobWindows& windows, const Limits& limits,
                                      const PlanEffort& effort = thorough);

/// The jobs of an assignment that are on a device, with their windows there, of which the budget is the last end.
[[nodiscard]] std::vector<WindowedJob> jobs_on(const AssignmentProblem& problem, const JobWindows& windows,
                                               const JobDevices& device, std::size_t on);

/// Of the search for an order of one set of jobs.
inline constexpr std::int64_t sequence_nodes = 20'000;

}  // namespace perfpred
