// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small problems whose jobs have earliest times and deadlines, and what all orders of a set say of it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "dice.h"
#include "plan/dated.h"

namespace perfpred::testing {

struct DatedInstance {
  AssignmentProblem problem;
  JobWindows windows;
};

enum class Dates { deadlines, earliest, both };

inline DatedInstance dated_instance(std::uint64_t seed, std::size_t devices, Dates dates, std::size_t most_jobs) {
  Dice dice(seed);
  DatedInstance one;
  const std::size_t jobs = 1 + static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(most_jobs)));
  const std::int64_t reach = 3 + dice.below(12), values = 2 + dice.below(20);
  const bool alike = devices > 1 && dice.below(2) == 0;
  for (std::size_t d = 0; d < devices; ++d) {
    one.problem.budgets.push_back(alike && d > 0 ? one.problem.budgets[0] : dice.below(3 * reach + 1));
  }
  one.problem.group.resize(jobs);
  for (std::size_t j = 0; j < jobs; ++j) {
    PlanJob& job = one.problem.jobs.emplace_back(devices);
    std::vector<TimeWindow>& windows = one.windows.emplace_back(devices);
    TimeWindow window;
    if (dates != Dates::deadlines && dice.below(3) != 0) window.earliest = dice.below(2 * reach);
    if (dates != Dates::earliest && dice.below(3) != 0) window.deadline = window.earliest + dice.below(2 * reach);
    for (std::size_t d = 0; d < devices; ++d) {
      windows[d] = window;
      if (alike && d > 0) {
        job[d] = job[0];
      } else if (devices == 1 || dice.below(6) != 0) {
        job[d] = PlanItem{1 + dice.below(reach), static_cast<double>(dice.below(values)) / 4};
      }
    }
  }
  return one;
}

/// When the jobs of a set end at the earliest, in any order; empty if every order breaks a window.
inline std::optional<std::int64_t> first_end(const DatedInstance& one, std::size_t d, unsigned set) {
  std::vector<std::size_t> order;
  for (std::size_t j = 0; j < one.problem.jobs.size(); ++j) {
    if (((set >> j) & 1U) == 0) continue;
    if (!one.problem.jobs[j][d]) return std::nullopt;
    order.push_back(j);
  }
  std::optional<std::int64_t> first;
  do {
    std::int64_t time = 0;
    bool keeps = true;
    for (const std::size_t j : order) {
      const TimeWindow& window = one.windows[j][d];
      time = std::max(time, window.earliest) + one.problem.jobs[j][d]->cost;
      keeps = keeps && time <= window.deadline && time <= one.problem.budgets[d];
    }
    if (keeps) first = std::min(time, first.value_or(time));
  } while (std::next_permutation(order.begin(), order.end()));
  return first;
}

inline double value_of(const DatedInstance& one, std::size_t d, unsigned set) {
  double value = 0;
  for (std::size_t j = 0; j < one.problem.jobs.size(); ++j)
    value += ((set >> j) & 1U) ? one.problem.jobs[j][d]->value : 0;
  return value;
}

}  // namespace perfpred::testing
