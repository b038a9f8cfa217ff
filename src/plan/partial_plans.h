// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/knapsack.h"

namespace perfpred {

/// A plan of some of the jobs of a dynamic program.
struct PartialPlan {
  std::int64_t sec;  ///< that its jobs take, or when the last one ends
  Int128 profit;
  std::uint32_t last;  ///< of PlanSteps
};

/// The jobs that partial plans were made of, one after another; plans share their first ones.
class PlanSteps {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// @returns the step that puts a job behind the plan whose last step is `before`
  std::uint32_t add(std::uint32_t before, std::size_t job);
  [[nodiscard]] std::vector<std::size_t> jobs_of(std::uint32_t last) const;

  /// Whether so many more can be numbered.
  [[nodiscard]] bool has_room_for(std::size_t more) const { return steps_.size() + more < none; }
  /// An upper bound on the bytes in use while so many are added: a vector that grows is copied.
  [[nodiscard]] std::size_t memory_with(std::size_t more) const { return 3 * (steps_.size() + more) * sizeof(Step); }

 private:
  struct Step {
    std::uint32_t before, job;
  };
  std::vector<Step> steps_;
};

/// Of two lists, each by seconds, the plans that no other one beats in seconds and profit, by seconds.
[[nodiscard]] std::vector<PartialPlan> undominated(const std::vector<PartialPlan>& a,
                                                   const std::vector<PartialPlan>& b);

/// What jobs can bring beside a partial plan: Dantzig's bound.
class LaterJobs {
 public:
  explicit LaterJobs(std::vector<Candidate> jobs);

  /// @param room  seconds, >= 0
  [[nodiscard]] Int128 most_in(Int128 room) const;

 private:
  std::vector<Candidate> jobs_;          // by falling profit per second
  std::vector<Int128> costs_, profits_;  // of the first so many
};

}  // namespace perfpred
