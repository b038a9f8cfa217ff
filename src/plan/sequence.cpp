// SPDX-License-Identifier: Apache-2.0
#include "plan/sequence.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace perfpred {
namespace {

/// Positions of jobs that may begin; the one with the earliest deadline first.
class ReleasedJobs {
 public:
  void add(std::size_t position) { open_.push(position); }
  [[nodiscard]] bool empty() const { return open_.empty(); }
  std::size_t next() {
    const std::size_t position = open_.top();
    open_.pop();
    return position;
  }

 private:
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> open_;
};

std::vector<std::size_t> positions_by_earliest(std::span<const WindowedJob> sorted) {
  std::vector<std::size_t> order(sorted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sorted[a].window.earliest < sorted[b].window.earliest; });
  return order;
}

/// The earliest deadline first, whether all deadlines are kept or not. @returns whether they are
bool earliest_deadline_first(std::span<const WindowedJob> sorted, std::vector<StartedJob>& starts) {
  const std::vector<std::size_t> by_earliest = positions_by_earliest(sorted);
  ReleasedJobs open;
  std::int64_t time = 0;
  std::size_t next = 0;
  starts.clear();
  while (starts.size() < sorted.size()) {
    if (open.empty()) time = std::max(time, sorted[by_earliest[next]].window.earliest);
    while (next < by_earliest.size() && sorted[by_earliest[next]].window.earliest <= time)
      open.add(by_earliest[next++]);
    const WindowedJob& job = sorted[open.next()];
    starts.push_back({job.job, time});
    if (time > job.window.deadline - job.cost) return false;
    time += job.cost;
  }
  return true;
}

/// Depth first over the orders of a set whose windows are not agreeable.
class SequenceSearch {
 public:
  SequenceSearch(std::span<const WindowedJob> sorted, std::int64_t max_nodes)
      : jobs_(sorted), by_earliest_(positions_by_earliest(sorted)), nodes_(max_nodes) {}

  Sequence solve() {
    Sequence answer;
    const std::uint64_t all = jobs_.size() == max_jobs ? ~std::uint64_t{0} : (std::uint64_t{1} << jobs_.size()) - 1;
    if (!could_end(all, 0)) {
      answer.status = Sequence::Status::impossible;
    } else if (descend(all, 0)) {
      answer = {Sequence::Status::found, starts_};
    } else if (nodes_ > 0) {
      answer.status = Sequence::Status::impossible;
    }
    return answer;
  }

  static constexpr std::size_t max_jobs = 64;  // bits of a set

 private:
  static bool holds(std::uint64_t set, std::size_t position) { return ((set >> position) & 1U) != 0; }

  /// Whether the jobs could keep their deadlines if each could be interrupted: the earliest deadline first again.
  [[nodiscard]] bool could_end(std::uint64_t left, std::int64_t time) const {
    std::priority_queue<std::pair<std::size_t, std::int64_t>, std::vector<std::pair<std::size_t, std::int64_t>>,
                        std::greater<>>
        open;  // position, what is left of it
    std::size_t next = 0;
    const auto skip = [&] {
      while (next < by_earliest_.size() && !holds(left, by_earliest_[next])) ++next;
    };
    for (skip(); next < by_earliest_.size() || !open.empty();) {
      if (open.empty()) time = std::max(time, jobs_[by_earliest_[next]].window.earliest);
      for (; next < by_earliest_.size() && jobs_[by_earliest_[next]].window.earliest <= time; skip()) {
        open.emplace(by_earliest_[next], jobs_[by_earliest_[next]].cost);
        ++next;
      }
      auto [position, rest] = open.top();
      open.pop();
      const std::int64_t until = next < by_earliest_.size() ? jobs_[by_earliest_[next]].window.earliest : max_cost;
      const std::int64_t run = std::min(rest, until - time);
      time += run;
      if (run < rest) {
        open.emplace(position, rest - run);
      } else if (time > jobs_[position].window.deadline) {
        return false;
      }
    }
    return true;
  }

  bool descend(std::uint64_t left, std::int64_t time) {
    if (left == 0) return true;
    if (--nodes_ <= 0) return false;
    const auto [known, is_new] = tried_.try_emplace(left, time);
    if (!is_new && known->second <= time) return false;
    known->second = time;
    if (!could_end(left, time)) return false;
    std::int64_t first_end = max_cost;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (holds(left, i))
        first_end = std::min(first_end, saturated_sum(std::max(time, jobs_[i].window.earliest), jobs_[i].cost));
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const WindowedJob& job = jobs_[i];
      if (!holds(left, i) || job.window.earliest >= first_end) continue;  // another one can end before it begins
      const std::int64_t start = std::max(time, job.window.earliest);
      if (start > job.window.deadline - job.cost) continue;
      starts_.push_back({job.job, start});
      if (descend(left & ~(std::uint64_t{1} << i), start + job.cost)) return true;
      starts_.pop_back();
    }
    return false;
  }

  std::span<const WindowedJob> jobs_;
  std::vector<std::size_t> by_earliest_;
  std::int64_t nodes_;
  std::vector<StartedJob> starts_;
  std::unordered_map<std::uint64_t, std::int64_t> tried_;  // sets, and the earliest time from which they failed
};

}  // namespace

bool are_agreeable(std::span<const WindowedJob> sorted) {
  return std::is_sorted(sorted.begin(), sorted.end(), [](const WindowedJob& a, const WindowedJob& b) {
    return a.window.earliest < b.window.earliest;
  });
}

void sort_by_deadline(std::vector<WindowedJob>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const WindowedJob& a, const WindowedJob& b) {
    return std::tie(a.window.deadline, a.window.earliest, a.job) <
           std::tie(b.window.deadline, b.window.earliest, b.job);
  });
}

Sequence sequence(std::vector<WindowedJob> jobs, std::int64_t max_nodes) {
  sort_by_deadline(jobs);
  Sequence answer;
  for (const WindowedJob& job : jobs) {
    if (!job.window.holds(job.cost)) return {Sequence::Status::impossible, {}};
  }
  if (earliest_deadline_first(jobs, answer.starts)) {
    answer.status = Sequence::Status::found;
    return answer;
  }
  if (are_agreeable(jobs)) return {Sequence::Status::impossible, {}};
  if (max_nodes == 0 || jobs.size() > SequenceSearch::max_jobs) return {};
  return SequenceSearch(jobs, max_nodes).solve();
}

}  // namespace perfpred
