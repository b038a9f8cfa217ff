// SPDX-License-Identifier: Apache-2.0
#include "plan/partial_plans.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace perfpred {

std::uint32_t PlanSteps::add(std::uint32_t before, std::size_t job) {
  steps_.push_back({before, static_cast<std::uint32_t>(job)});
  return static_cast<std::uint32_t>(steps_.size() - 1);
}

std::vector<std::size_t> PlanSteps::jobs_of(std::uint32_t last) const {
  std::vector<std::size_t> jobs;
  for (std::uint32_t at = last; at != none; at = steps_[at].before) jobs.push_back(steps_[at].job);
  return jobs;
}

std::vector<PartialPlan> undominated(const std::vector<PartialPlan>& a, const std::vector<PartialPlan>& b) {
  std::vector<PartialPlan> all;
  all.reserve(a.size() + b.size());
  std::merge(
      a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
      [](const PartialPlan& x, const PartialPlan& y) { return x.sec != y.sec ? x.sec < y.sec : x.profit > y.profit; });
  std::vector<PartialPlan> kept;
  for (const PartialPlan& plan : all) {
    if (kept.empty() || plan.profit > kept.back().profit) kept.push_back(plan);
  }
  return kept;
}

LaterJobs::LaterJobs(std::vector<Candidate> jobs) : jobs_(std::move(jobs)), costs_{0}, profits_{0} {
  std::sort(jobs_.begin(), jobs_.end(), better_ratio);
  for (const Candidate& job : jobs_) {
    costs_.push_back(costs_.back() + job.cost);
    profits_.push_back(profits_.back() + job.profit);
  }
}

Int128 LaterJobs::most_in(Int128 room) const {
  const auto whole =
      static_cast<std::size_t>(std::upper_bound(costs_.begin(), costs_.end(), room) - costs_.begin() - 1);
  Int128 most = profits_[whole];
  if (whole < jobs_.size()) most += share_of(jobs_[whole], static_cast<std::int64_t>(room - costs_[whole]));
  return most;
}

}  // namespace perfpred
