// SPDX-License-Identifier: Apache-2.0
// Compares two benchmark results: same, faster, slower, or not to be told.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli.h"
#include "tools/benchmark_comparison.h"

int main(int argc, char** argv) {
  using namespace perfpred;
  cli::Program program("compare", "Compares two JSON results of Google Benchmark.",
                       "perfpred-compare before.json after.json");
  std::string before;
  std::string after;
  bool json = false;
  program.add_option("old", before, "result to compare with")->required();
  program.add_option("new", after, "result to judge")->required();
  program.add_flag("--json", json, "print one JSON document");
  return program.run(argc, argv, [&] {
    const std::vector<ComparedBenchmark> rows = compare_benchmarks(before, after);
    if (json) {
      using nlohmann::ordered_json;
      const auto number = [](const std::optional<double>& v) { return v ? ordered_json(*v) : ordered_json(nullptr); };
      ordered_json list = ordered_json::array();
      for (const ComparedBenchmark& row : rows) {
        list.push_back({{"name", row.name},
                        {"verdict", to_string(row.verdict)},
                        {"ratio", number(row.ratio)},
                        {"low", number(row.low)},
                        {"high", number(row.high)}});
      }
      fmt::print("{}\n", ordered_json{{"rows", list}}.dump(2));
      return;
    }
    std::size_t widest = 4;
    for (const ComparedBenchmark& row : rows) widest = std::max(widest, row.name.size());
    fmt::print("{:{}}  {:10}  new/old (95 %)\n", "name", widest, "verdict");
    for (const ComparedBenchmark& row : rows) {
      const std::string verdict = row.verdict == Verdict::unknown ? "can't tell" : std::string(to_string(row.verdict));
      const std::string interval = row.low ? fmt::format(" ({:.3f} to {:.3f})", *row.low, *row.high) : "";
      fmt::print("{:{}}  {:10}  {}{}\n", row.name, widest, verdict, row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-",
                 interval);
    }
  });
}
