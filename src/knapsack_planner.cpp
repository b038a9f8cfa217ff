#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "knapsack_solver.h"

namespace perfpred {
namespace {

using knapsack::bit_width;
using knapsack::Int128;
using knapsack::Uint128;
using std::chrono::steady_clock;

/// A positive finite double as odd * 2^exponent.
struct Binary {
  std::int64_t odd;
  int exponent;
  [[nodiscard]] int top() const { return exponent + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(odd))); }
};

Binary to_binary(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto biased = static_cast<int>(bits >> 52U);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52U) - 1);
  int exponent = -1074;
  if (biased != 0) {
    mantissa |= std::uint64_t{1} << 52U;
    exponent = biased - 1075;
  }
  const int zeros = std::countr_zero(mantissa);
  return {static_cast<std::int64_t>(mantissa >> static_cast<unsigned>(zeros)), exponent + zeros};
}

/// What turns the caller's numbers into whole ones: value = profit * profit_unit * 2^exponent, cost = weight * cost_unit.
struct Units {
  std::int64_t profit = 0;
  int exponent = 0;
  std::int64_t cost = 0;
  int profit_bits = 0;        // of the sum of all profits, at most
  Int128 total_cost = 0;      // of the candidates
  std::size_t candidates = 0;  // worth more than 0 and within the budget
};

bool is_candidate(const PlanItem& item, std::int64_t budget) { return item.value > 0 && item.cost <= budget; }

Units measure(std::span<const PlanItem> items, std::int64_t budget) {
  Units units;
  int lowest = std::numeric_limits<int>::max();
  int highest = std::numeric_limits<int>::min();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    if (item.cost <= 0) throw InputError(fmt::format("item {}: cost {} is not positive", i, item.cost));
    if (!(item.value >= 0) || std::isinf(item.value))
      throw InputError(fmt::format("item {}: value {} is not a number >= 0", i, item.value));
    if (!is_candidate(item, budget)) continue;
    const Binary value = to_binary(item.value);
    lowest = std::min(lowest, value.exponent);
    highest = std::max(highest, value.top());
    // The least exponent belongs to an odd profit, so the greatest common divisor is that of the odd parts.
    if (units.profit != 1) units.profit = std::gcd(units.profit, value.odd);
    if (units.cost != 1) units.cost = std::gcd(units.cost, item.cost);
    units.total_cost += item.cost;
    ++units.candidates;
  }
  if (units.candidates == 0) return units;
  units.exponent = lowest;
  units.profit_bits = highest - lowest + static_cast<int>(std::bit_width(units.candidates));
  return units;
}

/// The nearest double, or the least that is not below.
template <class P>
double to_double(P profit, const Units& units, bool upwards) {
  const P whole = profit * units.profit;
  const int dropped = std::max(0, bit_width(whole) - 64);
  auto leading = static_cast<Uint128>(static_cast<Int128>(whole >> dropped));
  // A last bit for all that was dropped keeps the rounding right.
  if (P(whole >> dropped) << dropped != whole) leading |= 1U;
  auto rounded = static_cast<double>(leading);
  if (upwards && static_cast<Uint128>(rounded) < leading) {
    rounded = std::nextafter(rounded, std::numeric_limits<double>::infinity());
  }
  return std::ldexp(rounded, units.exponent + dropped);
}

template <class P>
Plan plan_exactly(std::span<const PlanItem> items, std::int64_t budget, const Units& units,
                  const knapsack::Limits& limits) {
  knapsack::Problem<P> problem;
  problem.capacity = budget / units.cost;
  problem.items.reserve(units.candidates);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!is_candidate(items[i], budget)) continue;
    const Binary value = to_binary(items[i].value);
    problem.items.push_back({0, P(value.odd / units.profit) << (value.exponent - units.exponent),
                             items[i].cost / units.cost, static_cast<std::uint32_t>(i)});
  }
  knapsack::Incumbent<P> incumbent;
  P bound = 0;
  if (units.total_cost <= budget) {
    for (const auto& item : problem.items) {
      incumbent.profit += item.profit;
      incumbent.chosen.push_back(item.index);
    }
    bound = incumbent.profit;
  } else {
    bound = knapsack::solve(std::move(problem), incumbent, limits);
  }
  Plan plan;
  plan.chosen.assign(incumbent.chosen.begin(), incumbent.chosen.end());
  std::sort(plan.chosen.begin(), plan.chosen.end());
  for (const std::size_t index : plan.chosen) plan.cost += items[index].cost;
  plan.value = to_double(incumbent.profit, units, false);
  plan.optimal = bound <= incumbent.profit;
  plan.upper_bound = plan.optimal ? plan.value : to_double(bound, units, true);
  return plan;
}

}  // namespace

KnapsackPlanner::KnapsackPlanner(std::int64_t budget, PlanLimits limits) : budget_(budget), limits_(limits) {
  if (budget < 0) throw InputError(fmt::format("budget {} is negative", budget));
  if (!(limits.time_sec >= 0)) throw InputError(fmt::format("time limit {} is not a number >= 0", limits.time_sec));
}

Plan KnapsackPlanner::plan(std::span<const PlanItem> items) const {
  knapsack::Limits limits;
  limits.memory_bytes = limits_.memory_bytes;
  constexpr double kForever = 1e9;
  if (limits_.time_sec < kForever)
    limits.deadline = steady_clock::now() +
                      std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(limits_.time_sec));
  const Units units = measure(items, budget_);
  if (units.candidates == 0) {
    Plan nothing;
    nothing.optimal = true;
    return nothing;
  }
  if (units.profit_bits <= 61) return plan_exactly<std::int64_t>(items, budget_, units, limits);
  if (units.profit_bits <= 120) return plan_exactly<Int128>(items, budget_, units, limits);
  return plan_exactly<knapsack::Wide>(items, budget_, units, limits);
}

}  // namespace perfpred
