// SPDX-License-Identifier: Apache-2.0
// Writes knapsack instances as files and solves such files with perfpred, for knapsack.py beside this source.
//   knapsack_file write CLASS N RANGE SEED FILE
//   knapsack_file solve FILE LIMIT_SEC      prints: median seconds, value, upper_bound, optimal
// A file has a line `n budget` and n lines `cost value`.
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/knapsack_planner.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "../../tests/knapsack_instances.h"

namespace {

using namespace perfpred;

void write(const std::string& class_name, std::size_t n, std::int64_t range, std::uint64_t seed,
           const std::string& path) {
  for (const testing::KnapsackClass kind : testing::knapsack_classes) {
    if (testing::name(kind) != class_name) continue;
    const testing::KnapsackInstance instance = testing::make_instance(kind, n, range, seed);
    std::ofstream out(path);
    out << fmt::format("{} {}\n", instance.items.size(), instance.budget);
    for (const PlanItem& item : instance.items) out << fmt::format("{} {:.0f}\n", item.cost, item.value);
    if (!out.flush()) throw Error("cannot write " + path);
    return;
  }
  throw InputError("no class is called " + class_name);
}

void solve(const std::string& path, double limit_sec) {
  std::ifstream in(path);
  std::size_t n = 0;
  std::int64_t budget = 0;
  in >> n >> budget;
  std::vector<PlanItem> items(n);
  for (PlanItem& item : items) in >> item.cost >> item.value;
  if (!in) throw InputError("cannot read " + path);
  PlanLimits limits;
  limits.time_sec = limit_sec;
  // Short calls several times, as the peers: the first one pays for memory that the others find.
  constexpr double enough_sec = 0.2;
  constexpr std::size_t most = 51;
  Plan plan;
  std::vector<double> taken;
  for (double sum = 0; sum < enough_sec && taken.size() < most; sum += taken.back()) {
    const auto start = std::chrono::steady_clock::now();
    plan = KnapsackPlanner(budget, limits).plan(items);
    taken.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(taken.begin(), taken.end());
  fmt::print("{:.9f} {:.0f} {:.0f} {:d}\n", taken[taken.size() / 2], plan.value, plan.upper_bound, plan.optimal);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "write" && argc == 7) {
    write(argv[2], std::stoul(argv[3]), std::stoll(argv[4]), std::stoull(argv[5]), argv[6]);
  } else if (command == "solve" && argc == 4) {
    solve(argv[2], std::stod(argv[3]));
  } else {
    fmt::print(stderr, "usage: knapsack_file write CLASS N RANGE SEED FILE | solve FILE LIMIT_SEC\n");
    return 2;
  }
} catch (const std::exception& error) {
  fmt::print(stderr, "knapsack_file: {}\n", error.what());
  return 1;
}
