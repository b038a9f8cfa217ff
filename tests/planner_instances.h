// SPDX-License-Identifier: Apache-2.0
#pragma once
// The instances of tests/data/planner_figures.csv. A family and a seed make the same instance here and in
// scripts/planner_figures.py, which computes the figures: numbers are drawn in the same order, in integers.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/assignment.h"
#include "plan/chance.h"

namespace perfpred::testing {

/// SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::int64_t below(std::int64_t limit) {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<std::int64_t>((z ^ (z >> 31U)) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t state_;
};

struct PlannerInstance {
  AssignmentProblem problem;
  std::vector<ChanceTimes> times = {};  ///< of each device, where times are uncertain
};

/// cost times 1 to 1.02, in units of 2^-20.
inline std::int64_t near(SplitMix& random, std::int64_t cost) { return cost * ((1 << 20) + random.below(20972)); }

inline std::int64_t cost_on(const AssignmentProblem& problem, std::size_t device) {
  std::int64_t total = 0;
  for (const PlanJob& job : problem.jobs) total += job[device] ? job[device]->cost : 0;
  return total;
}

struct WholeItem {
  std::int64_t cost, value;
};

/// The form of an item: of a family, or drawn for instances of at most 20 items.
enum ItemForm : std::int64_t { uncorrelated, near_ratio, equal_ratio, few_kinds, weak, strong, huge, large };

inline ItemForm form_of(std::string_view family) {
  constexpr std::string_view names[] = {"uncorrelated", "near_ratio", "equal_ratio", "few_kinds",
                                        "weak",         "strong",     "huge",        "large"};
  std::int64_t form = 0;
  while (names[form] != family) ++form;
  return static_cast<ItemForm>(form);
}

inline WholeItem one_item(SplitMix& random, ItemForm form, std::int64_t reach, const std::vector<WholeItem>& kinds) {
  const std::int64_t cost = 1 + random.below(reach);
  constexpr std::int64_t large_value = std::int64_t{1} << 52U;
  switch (form) {
    case near_ratio:
      return {cost, near(random, cost)};
    case equal_ratio:
      return {cost, 7 * cost};
    case few_kinds:
      return kinds[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(kinds.size())))];
    case weak:
      return {cost, 1 + cost + random.below(1 + reach / 5)};
    case strong:
      return {cost, cost + reach / 10};
    case large:
      return {cost, large_value + random.below(large_value)};
    case huge: {
      const std::int64_t huge_cost = 1 + random.below(std::int64_t{1} << 58U);
      return {huge_cost, (large_value + random.below(large_value)) * 1024};
    }
    case uncorrelated:
      break;
  }
  return {cost, 1 + random.below(reach)};
}

inline PlannerInstance one_device(std::string_view family, SplitMix& random) {
  const bool small = family == "small";
  const auto n = small ? 1 + random.below(20) : 100 + random.below(family == "large" ? 101 : 901);
  std::int64_t reach = 100;
  for (auto i = random.below(family == "near_ratio" ? 5 : 3); i > 0; --i) reach *= 10;
  const ItemForm form = small ? static_cast<ItemForm>(random.below(7)) : form_of(family);
  std::vector<WholeItem> kinds(static_cast<std::size_t>(2 + random.below(4)));
  for (WholeItem& kind : kinds) {
    kind.cost = 1 + random.below(reach);
    kind.value = kind.cost + random.below(1 + kind.cost / 10);
  }
  PlannerInstance instance;
  for (std::int64_t i = 0; i < n; ++i) {
    const WholeItem item = one_item(random, form, reach, kinds);
    instance.problem.jobs.push_back({PlanItem{item.cost, static_cast<double>(item.value)}});
  }
  instance.problem.group.resize(instance.problem.jobs.size());
  const Int128 total = cost_on(instance.problem, 0);
  instance.problem.budgets = {static_cast<std::int64_t>(total * (5 + random.below(90)) / 100)};
  return instance;
}

inline PlannerInstance several_devices(std::string_view family, SplitMix& random) {
  const bool small = family.ends_with("_small");
  const bool cover = family.starts_with("cover");
  const bool alike = family.starts_with("alike");
  const auto devices = static_cast<std::size_t>((cover ? 1 : 2) + random.below(small ? 2 : 3));
  constexpr std::int64_t most[] = {10, 8, 6};
  const std::int64_t n = small ? 1 + random.below(most[devices - 1]) : 20 + random.below(61);
  const bool same_value = random.below(2) == 0;
  const std::int64_t groups = 1 + random.below(4);
  std::vector<std::int64_t> speed(devices);
  for (std::int64_t& one : speed) one = 100 + random.below(300);
  PlannerInstance instance;
  AssignmentProblem& problem = instance.problem;
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t base = 10 + random.below(1000);
    const std::int64_t worth = near(random, base);
    PlanJob& job = problem.jobs.emplace_back(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      if (alike) {
        job[d] = PlanItem{base, static_cast<double>(worth)};
      } else if (random.below(8) != 0) {
        const std::int64_t cost = 1 + base * speed[d] * (80 + random.below(41)) / 10000;
        job[d] = PlanItem{cost, static_cast<double>(same_value ? worth : worth + random.below(1 << 20))};
      }
    }
    std::optional<std::size_t>& group = problem.group.emplace_back();
    if (cover && random.below(5) != 0) group = static_cast<std::size_t>(random.below(groups));
  }
  for (std::size_t d = 0; d < devices; ++d) {
    const std::int64_t share = 20 + random.below(100);
    problem.budgets.push_back(
        alike && d > 0 ? problem.budgets[0] : cost_on(problem, d) * share / (100 * static_cast<std::int64_t>(devices)));
  }
  return instance;
}

inline PlannerInstance chance_instance(SplitMix& random) {
  PlannerInstance instance;
  const std::int64_t devices = 1 + random.below(2);
  const std::int64_t n = 1 + random.below(devices == 1 ? 10 : 7);
  constexpr std::int64_t quantiles[] = {0, 52, 128, 164, 233};
  const double z = static_cast<double>(quantiles[random.below(5)]) / 100;
  const std::int64_t fixed = 5 * random.below(2);
  for (std::int64_t j = 0; j < n; ++j) {
    const PlanItem item{1, static_cast<double>(1 + random.below(1000))};
    instance.problem.jobs.emplace_back(static_cast<std::size_t>(devices), item);
  }
  instance.problem.group.resize(instance.problem.jobs.size());
  for (std::int64_t d = 0; d < devices; ++d) {
    ChanceTimes times{Eigen::VectorXd(n), Eigen::VectorXd::Constant(n, static_cast<double>(fixed)), {}, z};
    Eigen::VectorXd common(n);
    Eigen::VectorXd own(n);
    std::int64_t total = 0;
    for (Eigen::Index j = 0; j < n; ++j) {
      const std::int64_t mean = 10 + random.below(190);
      total += mean + fixed;
      times.mean[j] = static_cast<double>(mean);
      common[j] = static_cast<double>(random.below(1 + mean / 5));
      own[j] = static_cast<double>(1 + random.below(1 + mean / 5));
    }
    times.covariance = common * common.transpose();
    times.covariance.diagonal() += own.cwiseAbs2();
    instance.times.push_back(std::move(times));
    instance.problem.budgets.push_back(total * (20 + random.below(61)) / (100 * devices));
  }
  return instance;
}

inline PlannerInstance planner_instance(const std::string& family, std::uint64_t seed) {
  SplitMix random(seed);
  if (family == "chance") return chance_instance(random);
  const std::string_view kind = std::string_view(family).substr(0, family.find('_'));
  if (kind == "alike" || kind == "unlike" || kind == "cover") return several_devices(family, random);
  return one_device(family, random);
}

}  // namespace perfpred::testing
