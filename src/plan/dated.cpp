// SPDX-License-Identifier: Apache-2.0
#include "plan/dated.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace perfpred {
namespace {

/// Of a job on a device, within the device's budget.
TimeWindow window_of(const AssignmentProblem& problem, const JobWindows& windows, std::size_t job, std::size_t device) {
  TimeWindow window = windows[job][device];
  window.deadline = std::min(window.deadline, problem.budgets[device]);
  return window;
}

/// From the first earliest time to the last deadline; empty without candidates.
TimeWindow window_of_all(const std::vector<DatedCandidate>& candidates) {
  TimeWindow all{max_cost, 0};
  for (const DatedCandidate& one : candidates) {
    all.earliest = std::min(all.earliest, one.window.earliest);
    all.deadline = std::max(all.deadline, one.window.deadline);
  }
  all.earliest = std::min(all.earliest, all.deadline);
  return all;
}

/// Where jobs can be, each within its device's budget: the problem without the places that no schedule has.
AssignmentProblem within_windows(AssignmentProblem problem, const JobWindows& windows) {
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
      auto& item = problem.jobs[j][d];
      if (item && !window_of(problem, windows, j, d).holds(item->cost)) item.reset();
    }
  }
  return problem;
}

class DatedSolver {
 public:
  DatedSolver(const AssignmentProblem& problem, const JobWindows& windows, const Limits& limits,
              const PlanEffort& effort)
      : problem_(within_windows(problem, windows)),
        whole_(problem_),
        limits_(limits),
        effort_(effort),
        jobs_(problem.jobs.size()),
        devices_(problem.budgets.size()),
        price_(jobs_, 0) {
    const bool any_must =
        std::any_of(whole_.group.begin(), whole_.group.end(), [](const auto& group) { return group.has_value(); });
    best_ = {JobDevices(jobs_), any_must ? -1 : 0};
    for (std::size_t d = 0; d < devices_; ++d) {
      std::vector<DatedCandidate>& there = on_.emplace_back();
      for (std::size_t j = 0; j < jobs_; ++j) {
        if (whole_.jobs[j][d])
          there.push_back({*whole_.jobs[j][d], window_of(problem, windows, j, d), whole_.group[j].has_value()});
      }
      room_.emplace_back(there);
      const TimeWindow all = window_of_all(there);
      span_.push_back(all.deadline - all.earliest);
    }
    at_.assign(jobs_, std::vector<const DatedCandidate*>(devices_));
    for (std::size_t d = 0; d < devices_; ++d) {
      for (const DatedCandidate& one : on_[d]) at_[one.item.job][d] = &one;
    }
  }

  Assignment solve() {
    const Assignment relaxed = assign(without_windows(), limits_, effort_);
    if (relaxed.status == PlanStatus::infeasible) return relaxed;
    bound_ = relaxed.optimal() ? profit_of(relaxed.device) : whole_.profit_of_all();
    if (relaxed.found()) keep_if_possible(relaxed.device);
    if (!is_closed()) close_gap();
    Assignment answer = to_assignment(whole_, best_, best_.profit < 0 ? bound_ : std::max(bound_, best_.profit));
    if (answer.found() && !answer.optimal() && relaxed.upper_bound < answer.upper_bound) {
      answer.upper_bound = std::max(relaxed.upper_bound, answer.value);
    }
    return answer;
  }

 private:
  [[nodiscard]] bool is_closed() const { return best_.profit >= 0 && best_.profit >= bound_; }
  [[nodiscard]] bool must(std::size_t job) const { return whole_.group[job].has_value(); }

  /// The knapsack, or the assignment, of which the budget is the time from the first begin to the last end.
  [[nodiscard]] AssignmentProblem without_windows() const {
    AssignmentProblem relaxed = problem_;
    relaxed.budgets = span_;
    return relaxed;
  }

  [[nodiscard]] Int128 profit_of(const JobDevices& device) const {
    Int128 profit = 0;
    for (std::size_t j = 0; j < jobs_; ++j) profit += device[j] ? at_[j][*device[j]]->item.profit : 0;
    return profit;
  }

  [[nodiscard]] static WindowedJob windowed(const DatedCandidate& one) {
    return {one.item.job, one.item.cost, one.window};
  }
  [[nodiscard]] std::vector<WindowedJob> set_on(const JobDevices& device, std::size_t d) const {
    std::vector<WindowedJob> set;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (device[j] == d) set.push_back(windowed(*at_[j][d]));
    }
    return set;
  }

  /// For a set whose order is known to exist.
  void keep(const JobDevices& device) {
    const Int128 profit = profit_of(device);
    if (profit <= best_.profit) return;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (must(j) && !device[j]) return;
    }
    best_ = {device, profit};
  }

  void keep_if_possible(const JobDevices& device) {
    for (std::size_t d = 0; d < devices_; ++d) {
      if (!sequence(set_on(device, d), sequence_nodes).found()) return;
    }
    keep(device);
  }

  void close_gap() {
    improve(inserted(order(0)));
    if (devices_ == 1 && by_dynamic_programming()) return;
    set_prices();
    restart();
    constexpr std::size_t max_jobs = 64;  // with more, no search ends
    if (!is_closed() && !limits_.expired() && decidable() <= max_jobs) search();
  }

  [[nodiscard]] std::size_t decidable() { return order(0).size(); }

  /// On one device: exact if windows are agreeable. Else without the earliest times, and without the deadlines, they
  /// are, and bound the value.
  /// @returns whether that is all
  bool by_dynamic_programming() {
    const auto agreeable = [](const std::vector<DatedCandidate>& candidates) {
      std::vector<WindowedJob> sorted;
      for (const DatedCandidate& one : candidates) sorted.push_back(windowed(one));
      sort_by_deadline(sorted);
      return are_agreeable(sorted);
    };
    if (agreeable(on_[0])) {
      if (const auto chosen = solve_agreeable(on_[0], best_.profit, limits_)) {
        bound_ = chosen->profit;
        take(*chosen);
        return true;
      }
      return false;
    }
    const TimeWindow all = window_of_all(on_[0]);
    for (const bool keeps_deadlines : {true, false}) {
      std::vector<DatedCandidate> wider = on_[0];
      for (DatedCandidate& one : wider)
        (keeps_deadlines ? one.window.earliest : one.window.deadline) = keeps_deadlines ? all.earliest : all.deadline;
      const auto chosen = solve_agreeable(wider, best_.profit, limits_);
      if (!chosen) continue;
      bound_ = std::min(bound_, chosen->profit);
      take(*chosen);
      if (is_closed()) return true;
    }
    return false;
  }

  /// Jobs of the first device, if there is an order of them.
  void take(const Chosen& chosen) {
    JobDevices device(jobs_);
    for (const std::size_t job : chosen.jobs) device[job] = 0;
    if (!chosen.jobs.empty()) keep_if_possible(device);
  }

  /// Jobs by falling profit per second where it is the highest, those of every plan first.
  /// @param noise  of the profits
  [[nodiscard]] std::vector<std::size_t> order(double noise) {
    std::vector<std::pair<double, std::size_t>> ranked;
    std::uniform_real_distribution<double> uniform(1 - noise, 1 + noise);
    for (std::size_t j = 0; j < jobs_; ++j) {
      double rank = -1;
      for (const DatedCandidate* one : at_[j]) {
        if (one == nullptr || (one->item.profit <= 0 && !must(j))) continue;
        rank = std::max(rank, static_cast<double>(one->item.profit) / static_cast<double>(one->item.cost));
      }
      if (rank >= 0) ranked.emplace_back(must(j) ? HUGE_VAL : rank * uniform(random_), j);
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::size_t> jobs;
    for (const auto& [rank, job] : ranked) jobs.push_back(job);
    return jobs;
  }

  /// Gives each job, in this order, to the device where it is worth the most by its price among those that can take it.
  [[nodiscard]] JobDevices inserted(const std::vector<std::size_t>& order) {
    JobDevices device(jobs_);
    std::vector<std::vector<WindowedJob>> sets(devices_);
    for (const std::size_t job : order) insert(job, device, sets);
    return device;
  }

  bool insert(std::size_t job, JobDevices& device, std::vector<std::vector<WindowedJob>>& sets) {
    std::vector<std::size_t> places;
    for (std::size_t d = 0; d < devices_; ++d) {
      if (at_[job][d] != nullptr) places.push_back(d);
    }
    std::shuffle(places.begin(), places.end(), random_);
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return better_ratio(at_[job][a]->item, at_[job][b]->item); });
    for (const std::size_t d : places) {
      sets[d].push_back(windowed(*at_[job][d]));
      if (sequence(sets[d], 0).found()) {
        device[job] = d;
        return true;
      }
      sets[d].pop_back();
    }
    return false;
  }

  /// Exchanges one job of the plan for a more valuable one outside, while that is possible, fills the plan again, and
  /// keeps it.
  void improve(JobDevices device) {
    bool better = true;
    while (better && !limits_.expired()) {
      better = false;
      for (std::size_t j = 0; j < jobs_; ++j) better = (!device[j] && exchange(j, device)) || better;
      std::vector<std::vector<WindowedJob>> sets;
      for (std::size_t d = 0; d < devices_; ++d) sets.push_back(set_on(device, d));
      for (const std::size_t j : order(0)) {
        if (!device[j]) better = insert(j, device, sets) || better;
      }
    }
    keep(device);
  }

  bool exchange(std::size_t job, JobDevices& device) const {
    for (std::size_t d = 0; d < devices_; ++d) {
      if (at_[job][d] == nullptr) continue;
      std::vector<WindowedJob> set = set_on(device, d);
      std::int64_t spare = span_[d];
      for (const WindowedJob& one : set) spare -= one.cost;
      const DatedCandidate& in = *at_[job][d];
      for (WindowedJob& other : set) {
        const bool gains = at_[other.job][d]->item.profit < in.item.profit && !must(other.job);
        if (!gains || in.item.cost - other.cost > spare) continue;
        const WindowedJob out = std::exchange(other, windowed(in));
        if (sequence(set, 0).found()) {
          device[out.job].reset();
          device[job] = d;
          return true;
        }
        other = out;
      }
    }
    return false;
  }

  void restart() {
    // Each takes some twenty times as long as one without windows, and the longer the more jobs there are.
    constexpr double usual_jobs = 50;
    const double share = std::min(1.0, usual_jobs / static_cast<double>(jobs_)) / 20;
    const auto restarts = static_cast<int>(effort_.restarts * share);
    constexpr double noise = 0.3;
    for (int i = 0; i < restarts && !is_closed() && !limits_.expired(); ++i) improve(inserted(order(noise)));
  }

  [[nodiscard]] Candidate priced(const DatedCandidate& one) const {
    Candidate item = one.item;
    item.profit -= price_[item.job];
    return item;
  }

  /// What jobs in parts bring at most on a device by priced profits: by falling profit per second, each takes the time
  /// that the windows leave (a polymatroid: greedy is optimal).
  /// @param use   called with each job and the share of it
  template <class Use>
  Int128 most_on(std::size_t d, WindowRoom room, std::size_t depth, const Use& use) {
    Int128 sum = 0;
    for (const DatedCandidate* one : by_ratio_[d]) {
      if (position_[one->item.job] < depth) continue;
      const Candidate item = priced(*one);
      if (item.profit <= 0) continue;
      const WindowRoom::Place place = room.place_of(one->window);
      const std::int64_t sec = std::min(item.cost, room.room(place));
      work_ += static_cast<std::int64_t>(room.size());
      if (sec == 0) continue;
      room.take(place, sec);
      sum += sec == item.cost ? item.profit : share_of(item, sec) + 1;
      use(item.job, static_cast<double>(sec) / static_cast<double>(item.cost));
    }
    return sum;
  }

  void sort_by_ratio() {
    by_ratio_.assign(devices_, {});
    for (std::size_t d = 0; d < devices_; ++d) {
      for (const DatedCandidate& one : on_[d]) by_ratio_[d].push_back(&one);
      std::stable_sort(by_ratio_[d].begin(), by_ratio_[d].end(), [&](const DatedCandidate* a, const DatedCandidate* b) {
        const Candidate x = priced(*a), y = priced(*b);
        if (x.profit <= 0 || y.profit <= 0) return x.profit > y.profit;
        return better_ratio(x, y);
      });
    }
  }

  /// A subgradient step: prices of jobs placed more than once rise. @returns whether there was one to take
  bool reprice(const std::vector<double>& uses, Int128 bound, double pace) {
    double norm = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
      if (uses[j] > 1 || price_[j] > 0) norm += (uses[j] - 1) * (uses[j] - 1);
    }
    if (norm == 0) return false;
    const double length = pace * static_cast<double>(bound - std::max<Int128>(0, best_.profit)) / norm;
    for (std::size_t j = 0; j < jobs_; ++j) {
      price_[j] = std::max<Int128>(0, price_[j] + static_cast<Int128>(length * (uses[j] - 1)));
    }
    return true;
  }

  /// Prices of the jobs for being placed once, by subgradient steps on the bound of jobs in parts.
  void set_prices() {
    position_.assign(jobs_, 0);
    auto best_price = price_;
    double pace = 1;
    int stale = 0;
    const int rounds = devices_ == 1 ? 1 : effort_.rounds / 5;
    Int128 least = -1;
    for (int round = 0; round < rounds && !is_closed() && (round == 0 || !limits_.expired()); ++round) {
      sort_by_ratio();
      std::vector<double> uses(jobs_);
      Int128 bound = 0;
      for (const Int128 price : price_) bound += price;
      for (std::size_t d = 0; d < devices_; ++d) {
        bound += most_on(d, room_[d], 0, [&](std::size_t job, double share) { uses[job] += share; });
      }
      if (least < 0 || bound < least) {
        least = bound;
        best_price = price_;
        stale = 0;
      } else if (++stale >= 5) {
        pace /= 2;
        stale = 0;
      }
      if (!reprice(uses, bound, pace)) break;
    }
    price_ = std::move(best_price);
    if (least >= 0) bound_ = std::min(bound_, least);
    sort_by_ratio();
  }

  /// Depth first over the places of jobs, those of every plan first, then by falling value per second.
  void search() {
    decisions_ = order(0);
    for (std::size_t i = 0; i < decisions_.size(); ++i) position_[decisions_[i]] = i + 1;
    current_.assign(devices_, {});
    device_.assign(jobs_, std::nullopt);
    twin_.assign(devices_, std::nullopt);
    for (std::size_t d = 1; d < devices_; ++d) {
      for (std::size_t e = 0; e < d && !twin_[d]; ++e) {
        if (are_alike(d, e)) twin_[d] = e;
      }
    }
    constexpr std::int64_t work_of_node = 100;  // readings of the tables: 3 million nodes take some seconds
    most_work_ = work_ + effort_.nodes * work_of_node;
    descend(0, 0);
    if (!stopped_) bound_ = best_.profit;
  }

  [[nodiscard]] bool are_alike(std::size_t d, std::size_t e) const {
    for (std::size_t j = 0; j < jobs_; ++j) {
      const DatedCandidate *a = at_[j][d], *b = at_[j][e];
      if ((a == nullptr) != (b == nullptr)) return false;
      if (a != nullptr && (a->item != b->item || a->window.earliest != b->window.earliest ||
                           a->window.deadline != b->window.deadline)) {
        return false;
      }
    }
    return true;
  }

  void descend(std::size_t depth, Int128 profit) {
    if (stopped_) return;
    if (work_ > most_work_ || (++nodes_ % 256 == 0 && limits_.expired())) {
      stopped_ = true;
      return;
    }
    if (profit > best_.profit) keep(device_);
    if (depth == decisions_.size() || !is_promising(depth, profit)) return;
    const std::size_t job = decisions_[depth];
    for (std::size_t d = 0; d < devices_; ++d) {
      const bool has_empty_twin = twin_[d] && current_[d].empty() && current_[*twin_[d]].empty();
      if (at_[job][d] != nullptr && !has_empty_twin) descend_with(job, d, depth, profit);
    }
    if (!must(job)) descend(depth + 1, profit);
  }

  /// Where the device has room for the job.
  void descend_with(std::size_t job, std::size_t d, std::size_t depth, Int128 profit) {
    const DatedCandidate& one = *at_[job][d];
    const WindowRoom::Place place = room_[d].place_of(one.window);
    if (room_[d].room(place) < one.item.cost) return;
    current_[d].push_back(windowed(one));
    work_ += static_cast<std::int64_t>(8 * current_[d].size());
    const Sequence::Status status = sequence(current_[d], sequence_nodes).status;
    if (status == Sequence::Status::found) {
      room_[d].take(place, one.item.cost);
      device_[job] = d;
      descend(depth + 1, profit + one.item.profit);
      device_[job].reset();
      room_[d].take(place, -one.item.cost);
    }
    stopped_ = stopped_ || status == Sequence::Status::unknown;
    current_[d].pop_back();
  }

  [[nodiscard]] bool is_promising(std::size_t depth, Int128 profit) {
    if (best_.profit < 0) return true;
    Int128 bound = profit;
    for (std::size_t i = depth; i < decisions_.size(); ++i) bound += price_[decisions_[i]];
    for (std::size_t d = 0; d < devices_ && bound <= best_.profit; ++d) {
      bound += most_on(d, room_[d], depth + 1, [](std::size_t, double) {});
    }
    return bound > best_.profit;
  }

  AssignmentProblem problem_;
  WholeProblem whole_;
  const Limits& limits_;
  PlanEffort effort_;
  std::size_t jobs_, devices_;
  std::vector<std::vector<DatedCandidate>> on_;         // of each device
  std::vector<std::vector<const DatedCandidate*>> at_;  // of each job on each device
  std::vector<WindowRoom> room_;
  std::vector<std::int64_t> span_;  // of each device, from the first begin to the last end
  std::vector<Int128> price_;
  std::vector<std::vector<const DatedCandidate*>> by_ratio_;  // of each device, by priced profits
  std::vector<std::size_t> position_;                         // of each job, when it is decided, from 1; 0: never
  std::vector<std::size_t> decisions_;
  std::vector<std::vector<WindowedJob>> current_;
  JobDevices device_;
  std::vector<std::optional<std::size_t>> twin_;  // an earlier device that is alike
  Places best_;
  Int128 bound_ = 0;
  std::int64_t work_ = 0, most_work_ = 0, nodes_ = 0;
  bool stopped_ = false;
  std::mt19937_64 random_{1};
};

}  // namespace

std::vector<WindowedJob> jobs_on(const AssignmentProblem& problem, const JobWindows& windows, const JobDevices& device,
                                 std::size_t on) {
  std::vector<WindowedJob> jobs;
  for (std::size_t j = 0; j < device.size(); ++j) {
    if (device[j] != on) continue;
    jobs.push_back({j, problem.jobs[j][on]->cost, window_of(problem, windows, j, on)});
  }
  return jobs;
}

Assignment assign_dated(const AssignmentProblem& problem, const JobWindows& windows, const Limits& limits,
                        const PlanEffort& effort) {
  Assignment found = DatedSolver(problem, windows, limits, effort).solve();
  sum_again(problem, found);
  for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
    if (!sequence(jobs_on(problem, windows, found.device, d), sequence_nodes).found()) {
      throw Error("the planner failed: the plan that it found has no order that keeps its times");
    }
  }
  return found;
}

}  // namespace perfpred
