#include "plan_solver.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <map>
#include <random>

#include "exact_values.h"

namespace perfpred {
namespace {

using knapsack::Int128;
using knapsack::Limits;

constexpr std::int64_t most_cost = std::numeric_limits<std::int64_t>::max();

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) { return a > most_cost - b ? most_cost : a + b; }

/// One job on one device, in whole units.
struct WholeItem {
  std::int64_t cost;
  Int128 profit;
  friend bool operator==(const WholeItem&, const WholeItem&) = default;
};

/// The problem in exact arithmetic, without what can never be chosen.
struct WholeProblem {
  explicit WholeProblem(const AssignmentProblem& problem) : budgets(problem.budgets), group(problem.group) {
    for (const PlanJob& job : problem.jobs) {
      for (const auto& item : job) {
        if (item && item->value > 0) unit.add(item->value);
      }
    }
    if (unit.sum_bits() > 118) {
      throw InputError("values of magnitudes as different as these can be planned for one device and their sum only");
    }
    group.resize(problem.jobs.size());
    jobs.reserve(problem.jobs.size());
    for (const PlanJob& job : problem.jobs) {
      auto& row = jobs.emplace_back(job.size());
      for (std::size_t d = 0; d < job.size(); ++d) {
        if (!job[d] || job[d]->cost > budgets[d]) continue;
        row[d] = WholeItem{job[d]->cost, job[d]->value > 0 ? unit.whole<Int128>(job[d]->value) : 0};
      }
    }
  }

  knapsack::ValueUnit unit;
  std::vector<std::vector<std::optional<WholeItem>>> jobs;
  std::vector<std::int64_t> budgets;
  std::vector<std::optional<std::size_t>> group;
};

/// Places of all jobs with their total profit.
struct Places {
  std::vector<std::optional<std::size_t>> device;
  Int128 profit = 0;
};

struct Chosen {
  std::vector<std::size_t> jobs;
  Int128 profit = 0;
  Int128 bound = 0;
};

struct Candidate {
  std::size_t job;
  std::int64_t cost;
  Int128 profit;
};

bool better_ratio(const Candidate& a, const Candidate& b) {
  return knapsack::compare_ratios(a.profit, a.cost, b.profit, b.cost) > 0;
}

Chosen knapsack_of(const std::vector<Candidate>& candidates, std::int64_t budget, const Limits& limits) {
  knapsack::Problem<Int128> problem;
  problem.capacity = budget;
  Chosen all;
  Int128 cost = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.cost > budget || candidate.profit <= 0) continue;
    problem.items.push_back({0, candidate.profit, candidate.cost, static_cast<std::uint32_t>(candidate.job)});
    cost += candidate.cost;
    all.profit += candidate.profit;
    all.jobs.push_back(candidate.job);
  }
  if (cost <= budget) {
    all.bound = all.profit;
    return all;
  }
  knapsack::Incumbent<Int128> incumbent;
  Chosen chosen;
  chosen.bound = knapsack::solve(std::move(problem), incumbent, limits);
  chosen.profit = incumbent.profit;
  chosen.jobs.assign(incumbent.chosen.begin(), incumbent.chosen.end());
  return chosen;
}

Assignment finish(const WholeProblem& problem, const Places& places, Int128 bound) {
  Assignment assignment;
  assignment.device = places.device;
  assignment.value = problem.unit.value(places.profit);
  assignment.optimal = bound <= places.profit;
  assignment.upper_bound = assignment.optimal ? assignment.value : problem.unit.value(bound, true);
  return assignment;
}

// ---- one device, sum --------------------------------------------------------------------------------------------

Assignment assign_to_one(const AssignmentProblem& problem, const PlanLimits& limits) {
  std::vector<PlanItem> items;
  std::vector<std::size_t> job_of;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (!problem.jobs[j][0]) continue;
    items.push_back(*problem.jobs[j][0]);
    job_of.push_back(j);
  }
  const Plan plan = KnapsackPlanner(problem.budgets[0], limits).plan(items);
  Assignment assignment;
  assignment.device.resize(problem.jobs.size());
  for (const std::size_t index : plan.chosen) assignment.device[job_of[index]] = 0;
  assignment.value = plan.value;
  assignment.upper_bound = plan.upper_bound;
  assignment.optimal = plan.optimal;
  return assignment;
}

// ---- one device, a job of each group ------------------------------------------------------------------------------

/// Dynamic programming, group after group: partial plans that hold a job of each group so far and that no other beats
/// in both cost and profit. Dantzig's bound over the later groups prunes.
class CoverSolver {
 public:
  CoverSolver(const WholeProblem& problem, const Limits& limits) : problem_(problem), limits_(limits) {
    std::map<std::size_t, std::size_t> place;
    groups_.emplace_back();  // of the jobs that cover nothing
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      std::size_t index = 0;
      if (problem.group[j]) {
        index = place.emplace(*problem.group[j], groups_.size()).first->second;
        if (index == groups_.size()) groups_.emplace_back();
      }
      const auto& item = problem.jobs[j][0];
      if (item) groups_[index].push_back({j, item->cost, item->profit});
    }
    required_.assign(groups_.size() + 1, 0);
    for (std::size_t g = groups_.size(); g-- > 1;) {
      std::int64_t least = most_cost;
      for (const Candidate& candidate : groups_[g]) least = std::min(least, candidate.cost);
      required_[g] = saturated_sum(required_[g + 1], least);
    }
  }

  /// The budget holds a job of each group.
  Assignment solve() {
    const std::int64_t budget = problem_.budgets[0];
    start_greedily(budget);
    const Int128 relaxed = knapsack_of(all(0), budget, limits_).bound;
    if (relaxed <= best_.profit) return finish(problem_, best_, relaxed);
    std::vector<State> states = {{0, 0, none}};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      states = after_group(states, g, budget);
      if (gave_up_) return finish(problem_, best_, relaxed);
    }
    for (const State& state : states) {
      if (state.profit <= best_.profit) continue;
      best_.profit = state.profit;
      best_.device.assign(problem_.jobs.size(), std::nullopt);
      for (std::uint32_t at = state.last; at != none; at = steps_[at].before) best_.device[steps_[at].job] = 0;
    }
    return finish(problem_, best_, best_.profit);
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct State {
    std::int64_t cost;
    Int128 profit;
    std::uint32_t last;
  };
  struct Step {
    std::uint32_t before;
    std::uint32_t job;
  };

  [[nodiscard]] std::vector<Candidate> all(std::size_t first_group) const {
    std::vector<Candidate> candidates;
    for (std::size_t g = first_group; g < groups_.size(); ++g) {
      candidates.insert(candidates.end(), groups_[g].begin(), groups_[g].end());
    }
    return candidates;
  }

  /// The cheapest job of each group, then the best of the rest.
  void start_greedily(std::int64_t budget) {
    best_.device.assign(problem_.jobs.size(), std::nullopt);
    std::int64_t room = budget;
    for (std::size_t g = 1; g < groups_.size(); ++g) {
      const Candidate& cheapest = *std::min_element(
          groups_[g].begin(), groups_[g].end(), [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
      best_.device[cheapest.job] = 0;
      best_.profit += cheapest.profit;
      room -= cheapest.cost;
    }
    std::vector<Candidate> rest = all(0);
    std::erase_if(rest, [&](const Candidate& candidate) { return best_.device[candidate.job].has_value(); });
    const Chosen more = knapsack_of(rest, room, limits_);
    best_.profit += more.profit;
    for (const std::size_t job : more.jobs) best_.device[job] = 0;
  }

  std::vector<State> after_group(const std::vector<State>& before, std::size_t g, std::int64_t budget) {
    // The jobs that come later, best ratio first, with running sums: Dantzig's bound of any room by bisection.
    std::vector<Candidate> later = all(g + 1);
    std::sort(later.begin(), later.end(), better_ratio);
    std::vector<Int128> costs = {0};
    std::vector<Int128> profits = {0};
    for (const Candidate& candidate : later) {
      costs.push_back(costs.back() + candidate.cost);
      profits.push_back(profits.back() + candidate.profit);
    }
    const auto hopeless = [&](const State& state) {
      const std::int64_t room = budget - state.cost;
      if (room < required_[g + 1]) return true;
      const auto full =
          static_cast<std::size_t>(std::upper_bound(costs.begin(), costs.end(), Int128{room}) - costs.begin() - 1);
      Int128 bound = state.profit + profits[full];
      if (full < later.size()) {
        // A part of the profit, in long double with room for its rounding; profits are whole, so the bound is, too.
        const auto part = static_cast<long double>(room - costs[full]) / static_cast<long double>(later[full].cost);
        bound += static_cast<Int128>(static_cast<long double>(later[full].profit) * part * (1 + 1e-15L));
      }
      return bound <= best_.profit;
    };
    std::vector<State> with = g == 0 ? before : std::vector<State>();
    std::vector<State> fresh;
    std::vector<State> merged;
    for (const Candidate& candidate : groups_[g]) {
      const auto extend = [&](const std::vector<State>& from) {
        std::vector<State> extended;
        for (const State& state : from) {
          if (state.cost > budget - candidate.cost) break;
          const State next{state.cost + candidate.cost, state.profit + candidate.profit, state.last};
          if (budget - next.cost < required_[g + 1]) break;
          steps_.push_back({state.last, static_cast<std::uint32_t>(candidate.job)});
          extended.push_back({next.cost, next.profit, static_cast<std::uint32_t>(steps_.size() - 1)});
        }
        return extended;
      };
      fresh = extend(with);
      with = undominated(with, fresh);
      if (g > 0) {
        // The first of its group.
        fresh = extend(before);
        with = undominated(with, fresh);
      }
      constexpr std::size_t most_steps = 40'000'000;
      if (steps_.size() > most_steps || limits_.expired()) {
        gave_up_ = true;
        return with;
      }
    }
    std::erase_if(with, hopeless);
    return with;
  }

  static std::vector<State> undominated(const std::vector<State>& a, const std::vector<State>& b) {
    std::vector<State> merged;
    merged.reserve(a.size() + b.size());
    std::size_t i = 0;
    std::size_t k = 0;
    while (i < a.size() || k < b.size()) {
      const bool first =
          k == b.size() ||
          (i < a.size() && (a[i].cost != b[k].cost ? a[i].cost < b[k].cost : a[i].profit >= b[k].profit));
      const State& state = first ? a[i++] : b[k++];
      if (merged.empty() || state.profit > merged.back().profit) merged.push_back(state);
    }
    return merged;
  }

  const WholeProblem& problem_;
  const Limits& limits_;
  std::vector<std::vector<Candidate>> groups_;
  std::vector<std::int64_t> required_;
  std::vector<Step> steps_;
  Places best_;
  bool gave_up_ = false;
};

// ---- several devices ----------------------------------------------------------------------------------------------

/// Multiple knapsacks: alike devices (S. Martello, P. Toth, Knapsack Problems, ch. 6; D. Pisinger, An exact algorithm
/// for large multiple knapsack problems, EJOR 114, 1999) or the generalized assignment problem (ch. 7).
class SeveralSolver {
 public:
  SeveralSolver(const WholeProblem& problem, const Limits& limits, std::int64_t most_nodes)
      : problem_(problem),
        limits_(limits),
        most_nodes_(most_nodes),
        devices_(problem.budgets.size()),
        alike_(are_alike()) {
    best_.device.assign(problem.jobs.size(), std::nullopt);
  }

  Assignment solve() {
    bound_ = alike_ ? summed_budget_bound() : lagrangian_bound();
    if (best_.profit < bound_) improve_from(std::vector<std::optional<std::size_t>>(problem_.jobs.size()));
    if (best_.profit < bound_) branch_and_bound();
    return finish(problem_, best_, bound_);
  }

 private:
  [[nodiscard]] bool are_alike() const {
    for (std::size_t d = 1; d < devices_; ++d) {
      if (problem_.budgets[d] != problem_.budgets[0]) return false;
      for (const auto& job : problem_.jobs) {
        if (job[d] != job[0]) return false;
      }
    }
    return true;
  }

  void keep(const std::vector<std::optional<std::size_t>>& device) {
    Int128 profit = 0;
    for (std::size_t j = 0; j < device.size(); ++j) {
      if (device[j]) profit += problem_.jobs[j][*device[j]]->profit;
    }
    if (profit <= best_.profit) return;
    best_.device = device;
    best_.profit = profit;
  }

  /// One knapsack with all budgets together; then its jobs are packed, fullest device first, in several orders.
  Int128 summed_budget_bound() {
    std::int64_t budget = 0;
    for (const std::int64_t one : problem_.budgets) budget = saturated_sum(budget, one);
    std::vector<Candidate> candidates;
    for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
      if (problem_.jobs[j][0]) candidates.push_back({j, problem_.jobs[j][0]->cost, problem_.jobs[j][0]->profit});
    }
    const Chosen chosen = knapsack_of(candidates, budget, limits_);
    std::mt19937_64 random(1);
    constexpr int orders = 12;
    for (int order = 0; order < orders && best_.profit < chosen.bound && !limits_.expired(); ++order) {
      std::vector<std::size_t> jobs = chosen.jobs;
      std::sort(jobs.begin(), jobs.end(),
                [&](std::size_t a, std::size_t b) { return problem_.jobs[a][0]->cost > problem_.jobs[b][0]->cost; });
      if (order > 0) shuffle_lightly(jobs, random);
      pack(jobs, order % 2 == 0);
    }
    return chosen.bound;
  }

  static void shuffle_lightly(std::vector<std::size_t>& jobs, std::mt19937_64& random) {
    for (std::size_t i = 0; i + 1 < jobs.size(); ++i)
      std::swap(jobs[i], jobs[i + random() % std::min<std::size_t>(8, jobs.size() - i)]);
  }

  /// Longest job first onto the emptiest device, or device after device filled as far as it goes.
  void pack(const std::vector<std::size_t>& jobs, bool fill) {
    std::vector<std::optional<std::size_t>> device(problem_.jobs.size());
    if (fill) {
      std::vector<Candidate> open;
      for (const std::size_t job : jobs)
        open.push_back({job, problem_.jobs[job][0]->cost, problem_.jobs[job][0]->cost});
      for (std::size_t d = 0; d < devices_; ++d) {
        for (const std::size_t job : knapsack_of(open, problem_.budgets[d], limits_).jobs) device[job] = d;
        std::erase_if(open, [&](const Candidate& candidate) { return device[candidate.job].has_value(); });
      }
    } else {
      std::vector<std::int64_t> room = problem_.budgets;
      for (const std::size_t job : jobs) {
        const auto emptiest = std::max_element(room.begin(), room.end());
        if (*emptiest < problem_.jobs[job][0]->cost) continue;
        *emptiest -= problem_.jobs[job][0]->cost;
        device[job] = static_cast<std::size_t>(emptiest - room.begin());
      }
    }
    improve_from(std::move(device));
  }

  /// Solves one device at a time, over its own jobs, the free ones, and at their loss those of the others, until no
  /// device gains.
  void improve_from(std::vector<std::optional<std::size_t>> device) {
    bool better = true;
    while (better && !limits_.expired()) {
      better = false;
      for (std::size_t d = 0; d < devices_; ++d) {
        std::vector<Candidate> candidates;
        Int128 before = 0;
        for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
          const auto& item = problem_.jobs[j][d];
          if (!item) continue;
          if (device[j] == d) before += item->profit;
          const Int128 elsewhere = device[j] && *device[j] != d ? problem_.jobs[j][*device[j]]->profit : 0;
          candidates.push_back({j, item->cost, item->profit - elsewhere});
        }
        const Chosen chosen = knapsack_of(candidates, problem_.budgets[d], limits_);
        if (chosen.profit <= before) continue;
        better = true;
        for (auto& place : device) {
          if (place == d) place.reset();
        }
        for (const std::size_t job : chosen.jobs) device[job] = d;
      }
    }
    keep(device);
  }

  /// max over each device alone of profits less a price for each job, plus the prices: a bound for any prices >= 0.
  /// Subgradient steps lower it; each round's choices, freed of jobs chosen twice, start a plan.
  Int128 lagrangian_bound() {
    std::vector<Int128> price(problem_.jobs.size(), 0);
    Int128 bound = 0;
    Int128 least = -1;
    constexpr int rounds = 200;
    double pace = 1;
    int stale = 0;
    for (int round = 0; round < rounds && !limits_.expired(); ++round) {
      bound = 0;
      for (const Int128& one : price) bound += one;
      std::vector<int> uses(problem_.jobs.size(), 0);
      std::vector<std::optional<std::size_t>> device(problem_.jobs.size());
      for (std::size_t d = 0; d < devices_; ++d) {
        std::vector<Candidate> candidates;
        for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
          const auto& item = problem_.jobs[j][d];
          if (item) candidates.push_back({j, item->cost, item->profit - price[j]});
        }
        const Chosen chosen = knapsack_of(candidates, problem_.budgets[d], limits_);
        bound += chosen.bound;
        for (const std::size_t job : chosen.jobs) {
          ++uses[job];
          if (!device[job] || problem_.jobs[job][d]->profit > problem_.jobs[job][*device[job]]->profit) device[job] = d;
        }
      }
      if (least < 0 || bound < least) {
        least = bound;
        price_ = price;
        stale = 0;
      } else if (++stale >= 10) {
        pace /= 2;
        stale = 0;
      }
      if (round % 8 == 0) improve_from(device);
      if (least <= best_.profit) break;
      double norm = 0;
      for (std::size_t j = 0; j < price.size(); ++j) {
        const int excess = uses[j] - 1;
        if (excess > 0 || price[j] > 0) norm += static_cast<double>(excess) * excess;
      }
      if (norm == 0) break;
      const double length = pace * static_cast<double>(bound - best_.profit) / norm;
      for (std::size_t j = 0; j < price.size(); ++j) {
        price[j] = std::max<Int128>(0, price[j] + static_cast<Int128>(length * (uses[j] - 1)));
      }
    }
    if (least < 0) price_.assign(problem_.jobs.size(), 0);
    return least < 0 ? sum_of_devices() : least;
  }

  [[nodiscard]] Int128 sum_of_devices() const {
    Int128 sum = 0;
    for (const auto& job : problem_.jobs) {
      Int128 most = 0;
      for (const auto& item : job) most = std::max(most, item ? item->profit : 0);
      sum += most;
    }
    return sum;
  }

  /// Depth first over the jobs, best ratio first. Alike devices: Dantzig's bound over the summed room. Others: that of
  /// each device by profits less the prices, plus the prices. Ends early, without a proof, when the tree is too large.
  void branch_and_bound() {
    for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
      Candidate easiest{j, most_cost, 0};
      for (const auto& item : problem_.jobs[j]) {
        if (!item || item->profit == 0) continue;
        easiest.cost = std::min(easiest.cost, item->cost);
        easiest.profit = std::max(easiest.profit, item->profit);
      }
      if (easiest.profit > 0) order_.push_back(easiest);
    }
    std::sort(order_.begin(), order_.end(), better_ratio);
    constexpr std::size_t most_jobs = 500;
    if (order_.size() > most_jobs) return;
    current_.assign(problem_.jobs.size(), std::nullopt);
    if (!alike_) set_prices();
    descend(0, problem_.budgets, 0);
    if (nodes_ < most_nodes_) bound_ = best_.profit;
  }

  void set_prices() {
    price_from_.assign(order_.size() + 1, 0);
    priced_.assign(devices_, {});
    for (std::size_t place = order_.size(); place-- > 0;) {
      const std::size_t job = order_[place].job;
      price_from_[place] = price_from_[place + 1] + price_[job];
      for (std::size_t d = 0; d < devices_; ++d) {
        const auto& item = problem_.jobs[job][d];
        if (item && item->profit > price_[job]) priced_[d].push_back({place, item->cost, item->profit - price_[job]});
      }
    }
    for (std::vector<Candidate>& items : priced_) std::sort(items.begin(), items.end(), better_ratio);
  }

  /// What the jobs from this place of the order on may add at most.
  [[nodiscard]] Int128 most_from(std::size_t depth, const std::vector<std::int64_t>& room) const {
    if (alike_) {
      Int128 left = 0;
      for (const std::int64_t one : room) left += one;
      return relaxed(order_.begin() + static_cast<std::ptrdiff_t>(depth), order_.end(), left, 0);
    }
    Int128 most = price_from_[depth];
    for (std::size_t d = 0; d < devices_; ++d) most += relaxed(priced_[d].begin(), priced_[d].end(), room[d], depth);
    return most;
  }

  /// Dantzig's bound over items in order of their ratios, those of a job before `least` left out.
  [[nodiscard]] static Int128 relaxed(std::vector<Candidate>::const_iterator item,
                                      std::vector<Candidate>::const_iterator end, Int128 room, std::size_t least) {
    Int128 sum = 0;
    for (; item != end; ++item) {
      if (item->job < least) continue;
      if (item->cost > room) {
        // A part of the profit, in long double with room for its rounding; profits are whole, so the bound is, too.
        const long double part = static_cast<long double>(room) / static_cast<long double>(item->cost);
        return sum + static_cast<Int128>(static_cast<long double>(item->profit) * part * (1 + 1e-15L));
      }
      room -= item->cost;
      sum += item->profit;
    }
    return sum;
  }

  void descend(std::size_t depth, std::vector<std::int64_t> room, Int128 profit) {
    if (profit > best_.profit) {
      best_.profit = profit;
      best_.device = current_;
    }
    if (depth == order_.size() || best_.profit >= bound_) return;
    if (++nodes_ >= most_nodes_) return;
    if (nodes_ % 4096 == 0 && limits_.expired()) {
      nodes_ = most_nodes_;
      return;
    }
    if (profit + most_from(depth, room) <= best_.profit) return;
    const std::size_t job = order_[depth].job;
    for (std::size_t d = 0; d < devices_; ++d) {
      const auto& item = problem_.jobs[job][d];
      if (!item || item->cost > room[d]) continue;
      // Alike devices with equal room are one choice.
      if (alike_ && std::find(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(d), room[d]) !=
                        room.begin() + static_cast<std::ptrdiff_t>(d)) {
        continue;
      }
      room[d] -= item->cost;
      current_[job] = d;
      descend(depth + 1, room, profit + item->profit);
      current_[job].reset();
      room[d] += item->cost;
    }
    descend(depth + 1, std::move(room), profit);
  }

  const WholeProblem& problem_;
  const Limits& limits_;
  std::int64_t most_nodes_;
  std::size_t devices_;
  bool alike_;
  Places best_;
  Int128 bound_ = 0;
  std::vector<Int128> price_;  // of each job, where the Lagrangian bound was least
  std::vector<Candidate> order_;
  std::vector<Int128> price_from_;              // of the jobs from a place of the order on
  std::vector<std::vector<Candidate>> priced_;  // by device: profit less price, the place in the order as job
  std::vector<std::optional<std::size_t>> current_;
  std::int64_t nodes_ = 0;
};

}  // namespace

std::int64_t least_cover(const AssignmentProblem& problem) {
  std::map<std::size_t, std::int64_t> least;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    if (!problem.group[j]) continue;
    for (const auto& item : problem.jobs[j]) {
      if (!item) continue;
      const auto [place, is_new] = least.emplace(*problem.group[j], item->cost);
      if (!is_new) place->second = std::min(place->second, item->cost);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [group, cost] : least) sum = saturated_sum(sum, cost);
  return sum;
}

Assignment assign(const AssignmentProblem& problem, const PlanLimits& given, std::int64_t most_nodes) {
  const bool covers =
      std::any_of(problem.group.begin(), problem.group.end(), [](const auto& group) { return group.has_value(); });
  if (problem.budgets.size() == 1 && !covers) return assign_to_one(problem, given);
  const Limits limits = Limits::from(given);
  const WholeProblem whole(problem);
  return covers ? CoverSolver(whole, limits).solve() : SeveralSolver(whole, limits, most_nodes).solve();
}

}  // namespace perfpred
