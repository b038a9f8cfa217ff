// SPDX-License-Identifier: Apache-2.0
// Compares two benchmark results: same, faster, slower or unknown.

#include <fmt/format.h>

#include "cli.h"
#include "text/json.h"
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
      ordered_json list = ordered_json::array();
      for (const ComparedBenchmark& row : rows) {
        list.push_back({{"name", row.name},
                        {"verdict", to_string(row.verdict)},
                        {"ratio", or_null(row.ratio)},
                        {"low", or_null(row.low)},
                        {"high", or_null(row.high)}});
      }
      fmt::print("{}\n", dumped(ordered_json{{"rows", list}}, 2));
      return;
    }
    fmt::print("{}", comparison_text(rows));
  });
}
