// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Whether a time has changed; `unknown`: the measurements do not tell.
enum class Verdict { same, faster, slower, unknown };

[[nodiscard]] std::string_view to_string(Verdict verdict);

/// One benchmark in two results: new time / old time with its 95 % confidence interval; empty where there is none.
struct ComparedBenchmark {
  std::string name;
  Verdict verdict = Verdict::unknown;
  std::optional<double> ratio, low, high;
};

/// Compares two JSON results of Google Benchmark, in the order of the old one; benchmarks that only one of them has
/// come last and are `unknown`. The interval is Welch's, of the repetitions' logarithms; a benchmark that was run once
/// has one if it carries the counters `low_ms` and `high_ms` (bounds of its time). Within 3 % either way it is `same`;
/// else `faster` or `slower` if the interval excludes 1.
/// @throws InputError if a file cannot be read or is no such result
[[nodiscard]] std::vector<ComparedBenchmark> compare_benchmarks(const std::string& old_path,
                                                                const std::string& new_path);

}  // namespace perfpred
